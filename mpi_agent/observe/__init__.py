"""What others see of us, fed by events."""
