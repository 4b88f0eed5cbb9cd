"""Errands to plain hosts of a farm, which only its launcher reaches: a program there runs them.

Called as `python -m tests.plain_errands JSON`; each line on its input is one errand, and each line
of its output one answer. `Errands` is the tests' end of that.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import json
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from typing import Any

from mpi_agent.job.events import Event
from mpi_agent.run.missing_ranks import StartTerms
from mpi_agent.run.plain_hosts import PlainHosts
from mpi_agent.run.starting import start_too_late
from mpi_agent.run_id import RunId
from mpi_agent.ssh.errands import SshShells
from mpi_agent.ssh.trust import SshTarget, SshTerms
from tests.farm import Farm
from tests.farm_launch import launcher_environ
from tests.workers import REPOSITORY

__all__ = ["Errands", "running_errands"]


class Errands:
    """The tests' end: one call is one errand, its answer is what each host told."""

    def __init__(self, popen: subprocess.Popen[str]) -> None:
        self._popen = popen

    def ask(self, verb: str, *words: str) -> Any:
        """Return the answer to an errand."""
        self.begin(verb, *words)
        return self.answer()

    def begin(self, verb: str, *words: str) -> None:
        """Begin an errand."""
        assert self._popen.stdin is not None
        self._popen.stdin.write(json.dumps([verb, *words]) + "\n")
        self._popen.stdin.flush()

    def answer(self) -> Any:
        """Return the answer to the errand that was begun."""
        assert self._popen.stdout is not None
        line = self._popen.stdout.readline()
        assert line, "the errands ended"
        return json.loads(line)


@contextlib.contextmanager
def running_errands(
    farm: Farm, run_id: RunId, *, names: Sequence[str] | None = None
) -> Iterator[Errands]:
    """Give the errands of a run to all workers of a farm, or to some; the run begins now."""
    targets = [
        {"name": worker.name, "port": farm.ssh_port, "address": worker.address}
        for worker in farm.workers
        if names is None or worker.name in names
    ]
    given = {"key": str(farm.key), "targets": targets, "run_id": str(run_id)}
    with subprocess.Popen(
        [*farm.launcher.enter, sys.executable, "-m", "tests.plain_errands", json.dumps(given)],
        cwd=REPOSITORY,
        env=launcher_environ(),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as popen:
        try:
            errands = Errands(popen)
            assert errands.answer() == "ready"
            yield errands
        finally:
            popen.kill()


class _Hosts(PlainHosts):
    """Plain hosts alone, as the start-up deadline asks for hosts."""

    @property
    def plain_names(self) -> tuple[str, ...]:
        return self.names

    def known_presence(self) -> tuple[()]:
        return ()


async def _serve(given: dict[str, Any]) -> None:
    terms = SshTerms(
        key_path=given["key"], known_hosts_path="/dev/null", user="root", checks_host_keys=False
    )
    targets = [SshTarget(**target) for target in given["targets"]]
    run_id = RunId.parse(given["run_id"])
    assert run_id is not None
    hosts = _Hosts(targets, SshShells(terms), run_id, emit=_tell)
    await hosts.presence()  # so that nothing is loaded later
    hosts.begin()
    _print("ready")
    while line := await asyncio.to_thread(sys.stdin.readline):
        verb, *words = json.loads(line)
        _print(await _run(hosts, run_id, verb, *words))


async def _run(hosts: _Hosts, run_id: RunId, verb: str, *words: str) -> object:
    match verb:
        case "presence":
            return await hosts.presence()
        case "signal":
            return await hosts.pass_signal(signal.Signals[words[0]])
        case "measure":
            return await hosts.measure()
        case "end":
            return await hosts.end()
        case "end former":
            return await hosts.end_former(run_id)
        case _:
            assert verb == "deadline"
            limit_s, np, family = words
            terms = StartTerms(hosts=hosts.names, np=int(np), come_at_once=family == "open mpi")
            work = start_too_late(hosts, terms, limit_s=float(limit_s), emit=_tell)
            try:
                async with asyncio.timeout(float(limit_s) + 15):
                    return (await work).why
            except TimeoutError:
                return None


def _tell(event: Event) -> None:
    print(event, file=sys.stderr)


def _print(answer: object) -> None:
    def plain(value: object) -> object:
        return dataclasses.asdict(value)  # type: ignore[call-overload]

    print(json.dumps(answer, default=plain), flush=True)


if __name__ == "__main__":
    asyncio.run(_serve(json.loads(sys.argv[1])))
