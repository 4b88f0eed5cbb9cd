"""Which hosts belong to the job."""
