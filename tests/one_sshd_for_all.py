"""An ssh server that stands in for thousands of workers: `python -m tests.one_sshd_for_all`.

It listens on every address, shows the job's own key as its host key, lets that key in, and answers
the question about the equipment as a worker that has everything. Real ssh, and no process for each.
"""

from __future__ import annotations

import asyncio
import sys

import asyncssh

from mpi_agent.wait.equipment import ANSWER_ENDS

__all__: list[str] = []

_ANSWER = f"mpi-agent-answer-begins\ndaemon=/usr/bin/orted\nbuild=same\nback=0 \n{ANSWER_ENDS}\n"


async def serve(port: int, key_path: str, authorized_keys: str) -> None:
    """Serve until the process is ended; print a line once it listens."""
    await asyncssh.listen(
        "0.0.0.0",
        port,
        server_host_keys=[key_path],
        authorized_client_keys=authorized_keys,
        process_factory=_answer,
        backlog=1024,
    )
    print("listens", flush=True)
    await asyncio.Event().wait()


def _answer(process: asyncssh.SSHServerProcess[str]) -> None:
    process.stdout.write(_ANSWER)
    process.exit(0)


if __name__ == "__main__":
    asyncio.run(serve(int(sys.argv[1]), sys.argv[2], sys.argv[3]))
