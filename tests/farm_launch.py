"""Launches in a farm: `mpi-agent launch` as a user types it, and what its ranks tell of themselves.

The ranks run tests/farm_rank.py. The launcher's environment is made from nothing, so that whatever
a rank has comes from the test, from its own host or from the MPI.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.farm import Farm, FarmOptions, Server, running_farm
from tests.stacks import STACK_NAMES, MpiStack
from tests.waiting import wait_until
from tests.workers import REPOSITORY, make_job_keys, open_directory

__all__ = [
    "AGENTS",
    "ALL_STACKS",
    "LAUNCH_LIMIT_S",
    "Launched",
    "Rank",
    "Running",
    "agent_words",
    "farm_of",
    "hosts_of",
    "launch",
    "launcher_environ",
    "rank_program",
    "ranks_in",
    "running_launch",
    "spread_of",
]

ALL_STACKS = pytest.mark.parametrize("name", STACK_NAMES)
AGENTS = FarmOptions(server=Server.AGENT)
LAUNCH_LIMIT_S = 60.0
_PROGRAM = REPOSITORY / "tests" / "farm_rank.py"
_MPICH_4 = "mpich4"


@dataclass(frozen=True, slots=True, kw_only=True)
class Rank:
    """What one rank told.

    Attributes:
        environ: its whole environment, byte for byte.
        world: what MPI told it, empty where it did not ask.
    """

    number: int
    host: str
    environ: Mapping[bytes, bytes]
    world: Mapping[str, Any]

    def variable(self, name: str) -> bytes | None:
        """Return the value of a variable, None where it is not set."""
        return self.environ.get(os.fsencode(name))


@dataclass(frozen=True, slots=True, kw_only=True)
class Launched:
    """A launch that came to its end.

    Attributes:
        said: what the agent and the MPI wrote to stderr.
        ranks: those that told something, in the order of their numbers.
    """

    code: int
    output: str
    said: str
    ranks: tuple[Rank, ...] = ()

    @property
    def placed(self) -> list[tuple[int, str]]:
        """Which rank was on which host, in the order of their numbers."""
        return [(rank.number, rank.host) for rank in self.ranks]

    @property
    def told(self) -> list[tuple[int, str]]:
        """The same by what came out at the launcher's own output."""
        lines = [json.loads(line) for line in self.output.splitlines() if line.startswith("{")]
        return sorted((line["rank"], line["host"]) for line in lines)

    def assert_met(self, size: int) -> None:
        """Assert that all ranks were one world in which each heard each."""
        numbers = list(range(size))
        wanted = {"size": size, "sum": size * (size + 1) // 2, "heard": numbers}
        assert [rank.world for rank in self.ranks] == [wanted] * size, self.said
        assert self.code == 0, self.said


@dataclass(slots=True, kw_only=True)
class Running:
    """A launch whose ranks are on their hosts and wait for `end`."""

    popen: subprocess.Popen[bytes]
    directory: Path
    log: Path
    output: Path

    def end(self) -> Launched:
        """Let the ranks go on to their end; return how it went."""
        (self.directory / "go").touch()
        code = self.popen.wait(LAUNCH_LIMIT_S)
        return Launched(
            code=code,
            output=self.output.read_text(errors="replace"),
            said=self.log.read_text(errors="replace"),
            ranks=ranks_in(self.directory),
        )


@contextlib.contextmanager
def farm_of(size: int = 3, options: FarmOptions = AGENTS) -> Iterator[Farm]:
    """Give a farm in a directory of its own."""
    with open_directory() as directory:
        keys = make_job_keys(directory / "mount")
        root = directory / "farm"
        root.mkdir()
        with running_farm(keys, root, size, options) as farm:
            yield farm


def hosts_of(farm: Farm, slots: int = 2) -> str:
    """Return the workers for --hosts."""
    return ",".join(f"{worker.name}:{slots}" for worker in farm.workers)


def spread_of(farm: Farm, slots: int = 2) -> list[tuple[int, str]]:
    """Return where ranks are that fill the workers one after the other."""
    hosts = [worker.short_name for worker in farm.workers for _ in range(slots)]
    return list(enumerate(hosts))


def launcher_environ(**more: str) -> dict[str, str]:
    """Return a launcher's environment: what a program needs, and what the test adds."""
    own = {"PATH": os.environ["PATH"], "HOME": "/root", "PYTHONPATH": str(REPOSITORY)}
    return {**own, **more}


def agent_words(farm: Farm, mpi: MpiStack | Path | None, *options: str) -> tuple[str, ...]:
    """Return `mpi-agent launch` with its options, up to and with `--`.

    Args:
        options: may name the hosts; else they are the workers with two slots each.
    """
    names_hosts = any(word in {"--hosts", "--hostfile", "no-hosts"} for word in options)
    hosts = () if names_hosts else ("--hosts", hosts_of(farm))
    agent = (sys.executable, "-m", "mpi_agent", "launch", *hosts, "--timeout", "30s")
    mpirun = mpi.mpirun if isinstance(mpi, MpiStack) else mpi
    chosen = () if mpirun is None else ("--mpi", str(mpirun))
    key = ("--ssh-key", str(farm.key), "--ssh-port", str(farm.ssh_port))
    return (*agent, *chosen, *key, *(word for word in options if word != "no-hosts"), "--")


def rank_program(mpi: MpiStack, directory: Path, *words: str) -> tuple[str, ...]:
    """Return the program of the ranks, by an interpreter that knows this MPI if it must.

    Python programs of MPICH 4.0.2 hang in MPI_Finalize now and then, so they leave that out.
    """
    meets = "--meet" in words
    python = str(mpi.python) if meets else sys.executable
    more = ("--no-finalize",) if meets and mpi.name == _MPICH_4 else ()
    return (python, str(_PROGRAM), str(directory), *words, *more)


@contextlib.contextmanager
def running_launch(
    farm: Farm,
    mpi: MpiStack,
    *words: str,
    options: tuple[str, ...] = (),
    line: tuple[str, ...] = (),
    environ: Mapping[str, str] | None = None,
    ranks: int = 6,
) -> Iterator[Running]:
    """Give a launch once all its ranks have told what they see; it is killed in the end.

    Args:
        words: for the program of the ranks; it waits for the end without being told.
        line: the start of an mpirun line, in front of the program.
    """
    with _started(farm, mpi, *words, "--hold", options=options, line=line, environ=environ) as run:
        wait_until(
            "all ranks are there",
            lambda: len(_reports_in(run.directory)) == ranks or run.popen.poll() is not None,
        )
        assert run.popen.poll() is None, run.log.read_text(errors="replace")
        yield run


def launch(
    farm: Farm,
    mpi: MpiStack,
    *words: str,
    options: tuple[str, ...] = (),
    line: tuple[str, ...] = (),
    environ: Mapping[str, str] | None = None,
) -> Launched:
    """Run a launch to its end; the arguments are those of `running_launch`."""
    with _started(farm, mpi, *words, options=options, line=line, environ=environ) as run:
        return run.end()


@contextlib.contextmanager
def _started(
    farm: Farm,
    mpi: MpiStack,
    *words: str,
    options: tuple[str, ...],
    line: tuple[str, ...],
    environ: Mapping[str, str] | None,
) -> Iterator[Running]:
    directory = Path(tempfile.mkdtemp(prefix="ranks-", dir=farm.root))
    log, output = directory / "stderr", directory / "stdout"
    program = rank_program(mpi, directory, *words)
    with log.open("wb") as stderr, output.open("wb") as stdout:
        popen = subprocess.Popen(
            [*farm.launcher.enter, *agent_words(farm, mpi, *options), *line, *program],
            env=launcher_environ() if environ is None else environ,
            stdin=subprocess.DEVNULL,
            stdout=stdout,
            stderr=stderr,
        )
    try:
        yield Running(popen=popen, directory=directory, log=log, output=output)
    finally:
        if popen.poll() is None:
            popen.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                popen.wait(5)
            popen.kill()
        popen.wait()


def ranks_in(directory: Path) -> tuple[Rank, ...]:
    """Return those that have told something in a directory, in the order of their numbers."""
    ranks = [_rank(json.loads(path.read_text())) for path in _reports_in(directory)]
    return tuple(sorted(ranks, key=lambda rank: rank.number))


def _reports_in(directory: Path) -> list[Path]:
    return list(directory.glob("*.json"))


def _rank(told: dict[str, Any]) -> Rank:
    variables = told["environ"].items()
    return Rank(
        number=told["rank"],
        host=told["host"],
        environ={k.encode("latin-1"): v.encode("latin-1") for k, v in variables},
        world=told.get("world", {}),
    )
