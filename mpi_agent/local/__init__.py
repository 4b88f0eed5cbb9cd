"""A whole job on one machine, without a cluster."""
