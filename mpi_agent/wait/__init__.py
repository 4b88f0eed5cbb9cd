"""Until every host is really there."""
