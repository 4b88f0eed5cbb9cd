"""The program's life."""
