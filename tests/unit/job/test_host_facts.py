"""What hosts have, as values."""

from __future__ import annotations

import pytest

from mpi_agent.job.host_facts import HostFacts, shared_directories


def test_only_a_directory_that_every_host_has_is_of_use() -> None:
    """Mpirun names one path to all its daemons."""
    first = HostFacts(directories=("/scratch", "/tmp", "/dev/shm"))
    second = HostFacts(directories=("/dev/shm", "/tmp"))

    assert shared_directories((first, second)) == ("/tmp", "/dev/shm")
    assert shared_directories((first, second, HostFacts())) == ()
    assert shared_directories(()) == ()


@pytest.mark.parametrize(
    "values", [{"gpus": -1}, {"cpus": 0}, {"cpu_limit": 0.0}, {"cpu_limit": -1.0}]
)
def test_impossible_numbers_are_no_facts(values: dict[str, float]) -> None:
    """Whoever reads an answer must call them unknown."""
    with pytest.raises(ValueError, match=r"less than|leaves nothing"):
        HostFacts(**values)  # type: ignore[arg-type]
