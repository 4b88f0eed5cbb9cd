"""mpi-agent: the program inside the containers of an MPI job."""

__version__ = "0.1.0"
