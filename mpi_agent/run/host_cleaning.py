"""What former runs of a job left on a host that runs an agent: the agent ends it.

It knows which launchers are connected, and leaves their runs alone; from outside one run looks as
forsaken as another.
"""

from __future__ import annotations

from mpi_agent.job.run_reports import HostSwept
from mpi_agent.run.host_scripts import CLEANED_MARK, clean_line
from mpi_agent.run_id import RunId
from mpi_agent.ssh.errands import HostShell
from mpi_agent.ssh.worker_protocol import ProtocolError, parse_line
from mpi_agent.ssh.worker_words import Cleaned, Line

__all__ = ["clean_by_agent"]


async def clean_by_agent(shell: HostShell, host: str, run_id: RunId) -> HostSwept | None:
    """Return what a host's agent ended; None where no agent answers.

    One that answers otherwise has not done it, and nobody else may.

    Args:
        run_id: of the run that begins.
    """
    answer = _line_in(await shell.run(clean_line(run_id)))
    if answer is None:
        return None
    if not isinstance(answer, Cleaned):
        return HostSwept(host=host, answered=False)
    return HostSwept(host=host, ended=answer.ended, killed=answer.killed, left=answer.left)


def _line_in(answer: str) -> Line | None:
    told = (line for line in answer.splitlines() if line.startswith(CLEANED_MARK))
    raw = next(told, "").removeprefix(CLEANED_MARK)
    try:
        return parse_line(raw.encode(errors="surrogateescape")) if raw else None
    except ProtocolError:
        return None
