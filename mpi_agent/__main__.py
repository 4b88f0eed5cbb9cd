"""`python -m mpi_agent` is the `mpi-agent` command."""

from mpi_agent.cli import main

main()
