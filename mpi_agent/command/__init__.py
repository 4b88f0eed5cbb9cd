"""From the request to the exact command."""
