"""The GPU examples: what is special about them, since no test has a GPU to run them on."""

from __future__ import annotations

import pytest

from mpi_agent.environment import is_never_passed
from mpi_agent.variable_names import PASSED_NAMES, PASSED_PREFIXES
from tests.framework_examples import FRAMEWORKS, framework_example
from tests.workers import REPOSITORY

EACH = pytest.mark.parametrize("name", FRAMEWORKS)
PAGE = REPOSITORY / "docs" / "how-to" / "pytorch-nccl-horovod.md"


@EACH
def test_a_worker_has_a_slot_for_each_gpu(name: str) -> None:
    """Fewer leave GPUs idle, more put two ranks on one; the launcher asks for none."""
    example = framework_example(name)

    assert example.job.slots == example.gpus
    assert example.launcher_gpus == 0


@EACH
def test_a_worker_has_shared_memory_with_a_limit(name: str) -> None:
    """A runtime gives 64 MiB, and memory without a limit is the node's."""
    limits = framework_example(name).memory_volumes

    assert list(limits) == ["/dev/shm"]
    assert limits["/dev/shm"].endswith("Gi")


@EACH
def test_every_variable_of_the_launcher_reaches_the_ranks(name: str) -> None:
    """By the rules alone: the manifests name none with --env."""
    environ = framework_example(name).environ

    assert environ
    for variable in environ:
        assert variable in PASSED_NAMES or variable.startswith(PASSED_PREFIXES), variable
        assert not is_never_passed(variable)


@EACH
def test_the_launcher_names_no_interface(name: str) -> None:
    """Interface names differ between hosts: each worker sets its own."""
    assert not [v for v in framework_example(name).environ if v.endswith("_IFNAME")]


@EACH
def test_the_header_says_what_the_image_must_hold(name: str) -> None:
    """Ours have no CUDA."""
    header = " ".join(framework_example(name).header.split())

    assert "The image is yours" in header
    assert "`pip install mpi-agent`" in header
    assert "hold no CUDA" in header


def test_the_page_shows_the_examples_and_their_variables() -> None:
    """Whoever looks for one of them finds it."""
    page = PAGE.read_text()

    for name in FRAMEWORKS:
        assert f"(../../examples/mpi-operator/{name}.yaml)" in page
    for variable in ("MASTER_ADDR", "WORLD_SIZE", "NCCL_SOCKET_IFNAME", "OMPI_COMM_WORLD_RANK"):
        assert variable in page
