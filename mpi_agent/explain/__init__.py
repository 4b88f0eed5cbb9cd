"""One sentence at the end."""
