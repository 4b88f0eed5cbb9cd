"""What launcher and workers share about ssh."""
