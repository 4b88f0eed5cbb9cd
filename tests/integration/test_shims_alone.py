"""Where the real one is not behind a shim, the shim says so once; it never calls itself."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from tests.shim_world import AGENT, MPI, SBIN, SHELLS, ShimWorld, assert_refused
from tests.workers import open_directory

pytestmark = pytest.mark.integration

MPIRUN, SSHD = f"{MPI}/mpirun", f"{SBIN}/sshd"
A_JOB = {"MPI_AGENT_HOSTS": "w-0:1"}


@pytest.fixture(params=SHELLS)
def world(request: pytest.FixtureRequest) -> Iterator[ShimWorld]:
    """Give a world for each shell that may be /bin/sh."""
    with open_directory() as root:
        yield ShimWorld(root, request.param)


def lose(world: ShimWorld, shim: str) -> None:
    """Take the real one away."""
    world.path(f"{shim}.real").unlink()


def place_twice(world: ShimWorld, shim: str) -> None:
    """Put the shim where the real one was, as if it had been placed without looking."""
    world.shim(shim.rpartition("/")[2], f"{shim}.real")


def link_to_itself(world: ShimWorld, shim: str) -> None:
    """Let the name of the real one lead back."""
    lose(world, shim)
    world.link(f"{shim}.real", shim)


WITHOUT_A_REAL_ONE = pytest.mark.parametrize("without", [lose, place_twice, link_to_itself])


@WITHOUT_A_REAL_ONE
@pytest.mark.parametrize("variables", [{}, A_JOB], ids=["outside", "in-a-job"])
@pytest.mark.parametrize("word", ["--version", "true"])
def test_mpirun_without_a_real_one_says_so_once(
    world: ShimWorld,
    without: Callable[[ShimWorld, str], None],
    variables: dict[str, str],
    word: str,
) -> None:
    """It never calls itself, through the agent neither."""
    without(world, MPIRUN)

    said = world.call("mpirun", word, **variables)

    if said.program == AGENT:
        said = world.call("mpirun", word, MPI_AGENT_SHIM="off", **variables)
    assert_refused(said, MPIRUN)


@WITHOUT_A_REAL_ONE
@pytest.mark.parametrize("arguments", [(), ("-t",), ("-V",)], ids=" ".join)
def test_sshd_without_a_real_one_says_so_once(
    world: ShimWorld, without: Callable[[ShimWorld, str], None], arguments: tuple[str, ...]
) -> None:
    """It never calls itself."""
    without(world, SSHD)

    said = world.call(SSHD, *arguments)

    assert_refused(said, SSHD)


@WITHOUT_A_REAL_ONE
def test_sshd_called_by_the_agent_does_not_call_the_agent(
    world: ShimWorld, without: Callable[[ShimWorld, str], None]
) -> None:
    """The agent switches the shims off for what it starts."""
    without(world, SSHD)

    said = world.call(SSHD, "-D", MPI_AGENT_SHIM="off")

    assert_refused(said, SSHD)
