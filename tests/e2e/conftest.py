"""One engine and one set of images for all end-to-end tests."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.e2e.base_images import Debian, ensure_base_image
from tests.e2e.engine import Engine, NoEngineError, find_engine, require_podman
from tests.e2e.images import Images
from tests.e2e.manifests import MpiJob
from tests.e2e.operator_cluster import OperatorJob

JobFactory = Callable[[MpiJob, str], OperatorJob]


@pytest.fixture(scope="session")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    """Provide a working container engine; without one the tests skip by name, and fail on CI."""
    directory = tmp_path_factory.mktemp("engine")
    try:
        require_podman()
        for debian in Debian:
            ensure_base_image(debian, directory)
        found = find_engine(directory, Debian.TRIXIE.image)
    except NoEngineError as error:
        if os.environ.get("CI") == "true":
            pytest.fail(str(error))
        pytest.skip(str(error))
    print(f"containers run by {found.title}")
    yield found
    found.close()


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


@pytest.fixture(params=list(Debian), ids=lambda debian: f"openmpi{debian.open_mpi}")
def debian(request: pytest.FixtureRequest) -> Debian:
    """Go through both releases, and with them both generations of Open MPI."""
    chosen: Debian = request.param
    return chosen
