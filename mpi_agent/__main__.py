"""The `mpi-agent` command, also as `python -m mpi_agent`."""

from __future__ import annotations

import sys

from mpi_agent import __version__

__all__ = ["main"]


def main() -> None:
    """Run the command; `--version` is answered without loading what the others need."""
    if sys.argv[1:] == ["--version"]:
        print(f"mpi-agent, version {__version__}")
        return
    from mpi_agent.cli import main as run_command

    run_command()


if __name__ == "__main__":
    main()
