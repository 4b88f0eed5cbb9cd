"""One engine and one set of images for all end-to-end tests."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.e2e.base_images import engine_with_bases
from tests.e2e.engine import Engine, NoEngineError
from tests.e2e.images import OPEN_MPIS, Images, Mpi
from tests.e2e.mpi_jobs import MpiJob
from tests.e2e.operator_cluster import OperatorJob

JobFactory = Callable[[MpiJob, str], OperatorJob]


@pytest.fixture(scope="session")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    """Provide a working container engine; without one the tests skip by name, and fail on CI."""
    with ExitStack() as stack:
        try:
            opened = engine_with_bases(tmp_path_factory.mktemp("engine"))
            found = stack.enter_context(opened)
        except NoEngineError as error:
            if os.environ.get("CI") == "true":
                pytest.fail(str(error))
            pytest.skip(str(error))
        print(f"containers run by {found.title}")
        yield found


@pytest.fixture(scope="session")
def images(engine: Engine) -> Images:
    """Provide the images, each built when a test first asks for it."""
    return Images(engine)


@pytest.fixture
def new_job(engine: Engine, tmp_path: Path) -> JobFactory:
    """Provide the maker of jobs, each of which is a context manager."""

    def make(job: MpiJob, image: str) -> OperatorJob:
        return OperatorJob(engine, job, image, tmp_path)

    return make


@pytest.fixture(params=OPEN_MPIS, ids=lambda mpi: mpi.value)
def open_mpi(request: pytest.FixtureRequest) -> Mpi:
    """Go through both generations of Open MPI, and with them both releases of Debian."""
    chosen: Mpi = request.param
    return chosen


@pytest.fixture(params=list(Mpi), ids=lambda mpi: mpi.value)
def mpi(request: pytest.FixtureRequest) -> Mpi:
    """Go through all MPIs that there is a reference image of."""
    chosen: Mpi = request.param
    return chosen
