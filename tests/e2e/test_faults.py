"""Whatever goes wrong, and whichever MPI runs the job: one verdict, one code, nothing left."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from itertools import product
from pathlib import Path

import pytest

from tests.e2e.engine import Engine
from tests.e2e.fault_stage import Stage, new_stage
from tests.e2e.faults import FAULTS, Fault
from tests.e2e.images import Images, Mpi

pytestmark = pytest.mark.e2e

_SLACK = 10.0
_CELLS = tuple(product(Mpi, FAULTS))


@pytest.fixture(scope="module")
def stage_of(
    engine: Engine, images: Images, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Callable[[Mpi], Stage]]:
    """Provide the workers of one MPI after the other's."""
    directory: Path = tmp_path_factory.mktemp("faults")
    stages: dict[Mpi, Stage] = {}
    with ExitStack() as open_stage:

        def take(mpi: Mpi) -> Stage:
            if mpi not in stages:
                open_stage.close()
                stages.clear()
                stages[mpi] = open_stage.enter_context(new_stage(engine, images, mpi, directory))
            return stages[mpi]

        yield take


@pytest.mark.parametrize(
    ("mpi", "fault"), _CELLS, ids=[f"{mpi.value}-{fault}" for mpi, fault in _CELLS]
)
def test_a_fault_ends_the_job_as_promised_and_leaves_nothing(
    mpi: Mpi, fault: Fault, engine: Engine, stage_of: Callable[[Mpi], Stage]
) -> None:
    """The same verdict and code for all MPIs, in a sentence that says why."""
    if fault.needs_cgroups and not engine.keeps_limits:
        pytest.skip(f"containers run {engine.title}, which can neither limit nor freeze them")
    stage = stage_of(mpi)

    seen = stage.bring_about(fault, slack=_SLACK)

    print(f"noticed {seen.noticed_s} s, ended {seen.ended_s} s, {seen.code}: {seen.sentence}")
    assert seen.ended_s is not None, seen.output
    assert (seen.verdict, seen.code) == (fault.verdict.name, fault.code), seen.output
    assert re.search(fault.words.replace("HOST", stage.victim), seen.sentence), seen.output
    assert seen.left == 0
    assert seen.left_on_victim == 0
    if fault.comes_again:
        first, second = seen.restarts
        assert int(second) == int(first) + 1


@pytest.mark.parametrize("mpi", list(Mpi), ids=lambda mpi: mpi.value)
def test_ranks_whose_launcher_is_lost_with_its_machine_end_by_the_lease_of_their_workers(
    mpi: Mpi, stage_of: Callable[[Mpi], Stage]
) -> None:
    """Nobody is left to sweep; every worker does it by itself."""
    gone_s = stage_of(mpi).lose_launcher()

    print(f"nothing was left after {gone_s:.1f} s")
