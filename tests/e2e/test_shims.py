"""Outside a job the shims of the images stand aside, and they are placed but once."""

from __future__ import annotations

import re

import pytest

from tests.e2e.engine import Engine
from tests.e2e.images import EXAMPLE, Images, Mpi
from tests.e2e.placements import hosts_of_ranks

pytestmark = pytest.mark.e2e

_AS_MPIUSER = ("--user=1000", "--hostname=here")
_AS_ROOT = ("--hostname=here",)
_VERSION = "mpirun --version"
_VERSION_OF_THE_REAL_ONE = "exec -a mpirun mpirun.real --version"
_STEP = "/opt/mpi-agent/steps/place-shims"
_NAMES = re.compile(r"/place-shims (.+)$", re.MULTILINE)
# What every file is, whatever its time: a shim that is laid down again is the same shim.
_PLACES = "/usr/bin /usr/sbin /usr/local /opt /etc /entrypoint.sh /var/lib/dpkg"
_LIST = (
    f"{{ find {_PLACES} -xdev -printf '%M %u %p %l\\n'; "
    f"find {_PLACES} -xdev -type f -exec md5sum {{}} +; }} | sort"
)
_COMPILE = "mpicc -o /tmp/pi /source/pi.c"


def of_two_ranks(program: str, mpi: Mpi) -> str:
    """Return a line of a shell; a machine of one core has one slot, which Open MPI keeps to."""
    more = "--oversubscribe " if mpi.package == "openmpi-bin" else ""
    return f"mpirun {more}-n 2 {program}"


def test_the_version_is_the_real_mpiruns(mpi: Mpi, engine: Engine, images: Images) -> None:
    """Word for word, the name of the program too, which Horovod and CMake look at."""
    for image in (images.reference(mpi), images.builder(mpi)):
        shim = engine.output_of(image, "bash", "-c", _VERSION)
        real = engine.output_of(image, "bash", "-c", _VERSION_OF_THE_REAL_ONE)

        assert shim == real != ""


def test_a_program_runs_here_where_there_is_no_job(
    mpi: Mpi, engine: Engine, images: Images
) -> None:
    """By mpirun alone, as mpiuser; nobody waits for hosts."""
    line = of_two_ranks("/home/mpiuser/pi", mpi)

    said = engine.output_of(images.pi(mpi), "sh", "-c", line, options=_AS_MPIUSER)

    assert hosts_of_ranks(said) == ("here", "here")


def test_a_builder_compiles_a_program_and_tries_it_out(
    mpi: Mpi, engine: Engine, images: Images
) -> None:
    """As root, which is who builds."""
    line = f"{_COMPILE} && {of_two_ranks('/tmp/pi', mpi)}"
    options = (*_AS_ROOT, f"--volume={EXAMPLE}:/source:ro")

    said = engine.output_of(images.builder(mpi), "sh", "-c", line, options=options)

    assert hosts_of_ranks(said) == ("here", "here")
    assert "pi = 3.14159265" in said


@pytest.mark.parametrize("compiler", ["mpicc", "mpicxx", "mpifort"])
def test_a_builder_has_a_compiler_for_each_language(
    compiler: str, mpi: Mpi, engine: Engine, images: Images
) -> None:
    """Each links with this MPI."""
    program = {
        "mpicc": "#include <mpi.h>\nint main(void) { return MPI_Init(0, 0); }\n",
        "mpicxx": "#include <mpi.h>\nint main() { return MPI_Init(nullptr, nullptr); }\n",
        "mpifort": "program one\nuse mpi\ninteger e\ncall MPI_Init(e)\nend program\n",
    }[compiler]
    ending = {"mpicc": "c", "mpicxx": "cpp", "mpifort": "f90"}[compiler]
    source = f"/tmp/program.{ending}"
    line = f'printf %s "$1" > {source} && {compiler} -o /tmp/program {source} && ldd /tmp/program'

    said = engine.output_of(images.builder(mpi), "sh", "-c", line, "sh", program)

    assert "libmpi" in said
    assert "not found" not in said


def test_ompi_info_tells_of_open_mpi(open_mpi: Mpi, engine: Engine, images: Images) -> None:
    """It is no launcher, so no shim is in front of it."""
    said = engine.output_of(images.reference(open_mpi), "ompi_info", "--version")

    assert said.startswith(f"Open MPI v{open_mpi.debian.open_mpi}.")


def test_sshd_tests_its_configuration(mpi: Mpi, engine: Engine, images: Images) -> None:
    """`sshd -T` prints it, `sshd -t` says whether it is sound, and a broken one is not."""
    line = (
        "ssh-keygen -A >&2; sshd -T; sshd -t && echo sound; "
        "echo Nonsense > /tmp/broken; sshd -t -f /tmp/broken || echo broken"
    )

    said = engine.output_of(images.reference(mpi), "sh", "-c", line).splitlines()

    assert "port 2222" in said
    assert said[-2:] == ["sound", "broken"]


def test_shims_that_are_placed_again_change_nothing(
    mpi: Mpi, engine: Engine, images: Images
) -> None:
    """No shim is taken for a real program, in the image and in what is built on it."""
    names = _NAMES.findall(mpi.dockerfile.read_text())[-1]
    line = (
        f"{_LIST} > /tmp/before && grep -q '/mpirun.real ' /tmp/before && {_STEP} {names}"
        f" && {_LIST} | diff /tmp/before - && echo same"
    )

    for image in (images.reference(mpi), images.builder(mpi)):
        assert engine.output_of(image, "sh", "-c", line).splitlines()[-1] == "same"


def test_a_launcher_of_ones_own_gets_a_shim(mpi: Mpi, engine: Engine, images: Images) -> None:
    """An MPI that a user has put into /usr/local; called twice, as by two layers."""
    own = "/usr/local/bin/mpirun"
    place = f"{_STEP} mpirun >&2"
    line = (
        f"printf '#!/bin/sh\\necho own \"$@\"\\n' > {own} && chmod +x {own}"
        f" && export PATH=/usr/local/bin:$PATH && {place} && {place}"
        f" && mpirun 'a b' && {own}.real real; grep -c 'mpi-agent shim' {own} {own}.real; true"
    )

    said = engine.output_of(images.reference(mpi), "sh", "-c", line).splitlines()

    assert said == ["own a b", "own real", f"{own}:1", f"{own}.real:0"]
