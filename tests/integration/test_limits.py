"""Limits that are raised, capabilities that are there, and a container that is itself."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from mpi_agent.container import container_identity
from mpi_agent.limits import effective_capabilities
from tests.workers import LIMIT_S, require_program

pytestmark = pytest.mark.integration

SHOWS_LIMITS = (
    "import resource as r, subprocess, sys; from mpi_agent.limits import raise_limits;"
    " notes = raise_limits(); print(len(notes)); sys.stdout.flush();"
    " subprocess.run(['prlimit', '--raw', '--noheadings', '--output', 'RESOURCE,SOFT,HARD'])"
)


def said_by(program: str, *before: str) -> list[list[str]]:
    """Return the words of each line that a Python program prints, started behind other words."""
    child = subprocess.run(
        [*before, sys.executable, "-c", program],
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=True,
    )
    return [line.split() for line in child.stdout.splitlines()]


def test_limits_are_raised_to_their_hard_values_for_whatever_is_started() -> None:
    """Which is all that can be done without being root on the node."""
    require_program("prlimit")
    low = ("--memlock=4096:65536", "--nofile=64:512", "--stack=1048576:8388608", "--core=0:4096")

    notes, *rows = said_by(SHOWS_LIMITS, "prlimit", *low)

    limits = {name: (soft, hard) for name, soft, hard in rows}
    assert notes == ["0"]
    assert [limits[name] for name in ("MEMLOCK", "NOFILE", "STACK", "CORE")] == [
        ("65536", "65536"),
        ("512", "512"),
        ("8388608", "8388608"),
        ("4096", "4096"),
    ]


def test_limits_that_are_as_high_as_may_be_stay() -> None:
    """Raising twice is raising once."""
    twice = f"from mpi_agent.limits import raise_limits; raise_limits(); {SHOWS_LIMITS}"

    assert said_by(twice)[0] == ["0"]


def test_core_dumps_are_forbidden_to_this_program_alone() -> None:
    """What it starts may leave one: the limit is untouched, and a new program begins anew."""
    shows = "import ctypes; print(ctypes.CDLL(None).prctl(3))"
    program = (
        "import resource, subprocess, sys; from mpi_agent.limits import forbid_core_dumps;"
        " before = resource.getrlimit(resource.RLIMIT_CORE); forbid_core_dumps();"
        f" {shows}; print(before == resource.getrlimit(resource.RLIMIT_CORE)); sys.stdout.flush();"
        f" subprocess.run([sys.executable, '-c', {shows!r}])"
    )

    assert said_by(program) == [["0"], ["True"], ["1"]]


@pytest.mark.parametrize(
    ("mask", "names"),
    [
        ("0000000000000000", set()),
        ("0000000000040000", {"CAP_SYS_CHROOT"}),
        ("0000000000000400", {"CAP_NET_BIND_SERVICE"}),
        ("00000000000000c0", {"CAP_SETGID", "CAP_SETUID"}),
        ("0000000000004023", {"CAP_IPC_LOCK", "CAP_KILL", "CAP_CHOWN", "CAP_DAC_OVERRIDE"}),
    ],
)
def test_capabilities_are_told_by_their_bits(tmp_path: Path, mask: str, names: set[str]) -> None:
    """As the kernel numbers them."""
    status = tmp_path / "status"
    status.write_text(f"Name:\tpython\nCapPrm:\tffffffffffffffff\nCapEff:\t{mask}\n")

    assert effective_capabilities(status) == names


def test_nothing_is_allowed_where_nothing_tells_it(tmp_path: Path) -> None:
    """As without /proc."""
    (tmp_path / "status").write_text("CapEff:\n")

    assert effective_capabilities(tmp_path / "status") == frozenset()
    assert effective_capabilities(tmp_path / "none") == frozenset()


def test_root_without_a_capability_knows_it() -> None:
    """As in a container with `drop: [ALL]`."""
    require_program("setpriv")
    if not effective_capabilities():
        pytest.skip("nothing can be dropped here")
    program = "from mpi_agent.limits import effective_capabilities as e; print(*e())"

    assert said_by(program, "setpriv", "--bounding-set=-all", "--inh-caps=-all") == [[]]


SHOWS_IDENTITY = "from mpi_agent.container import container_identity; print(container_identity())"


def test_all_processes_of_a_container_tell_the_same_identity() -> None:
    """Across programs, sessions and accounts."""
    words = [container_identity()]

    assert said_by(SHOWS_IDENTITY) == said_by(SHOWS_IDENTITY, "setsid", "-w") == [words]


def test_another_container_has_another_identity() -> None:
    """And so has the same one after its restart, which has a new namespace and a new PID 1."""
    require_program("unshare")
    if os.getuid() != 0:
        pytest.skip("only root makes a namespace for processes")
    apart = ("unshare", "--pid", "--fork", "--mount-proc")

    (first,), (second,) = said_by(SHOWS_IDENTITY, *apart), said_by(SHOWS_IDENTITY, *apart)

    assert len({first[0], second[0], container_identity()}) == 3
