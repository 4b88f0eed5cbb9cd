"""The images of these tests; a file of `dockerfiles/` or an example each."""

from __future__ import annotations

from enum import Enum
from functools import cache
from pathlib import Path

from tests.e2e.base_images import Debian
from tests.e2e.engine import Engine

__all__ = ["EXAMPLE", "REPOSITORY", "Images", "Mpi"]

REPOSITORY = Path(__file__).parents[2]
EXAMPLE = REPOSITORY / "examples/mpi-operator"
_DOCKERFILES = Path(__file__).parent / "dockerfiles"


class Mpi(Enum):
    """The MPIs of the reference images; the value is the short name."""

    OPEN_MPI_4 = "openmpi4"
    OPEN_MPI_5 = "openmpi5"
    MPICH = "mpich"
    INTEL = "intel"


class Images:
    """Builds each image when it is first asked for; layers are kept between test runs."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._build = cache(self._build_once)

    def reference(self, debian: Debian) -> str:
        """Return the image of Dockerfile.openmpi."""
        dockerfile = REPOSITORY / "Dockerfile.openmpi"
        return self._build("reference", debian, REPOSITORY, dockerfile, debian.image)

    def pi(self, debian: Debian) -> str:
        """Return the example's program on the reference image."""
        base = self.reference(debian)
        return self._build("pi", debian, EXAMPLE, EXAMPLE / "Dockerfile", base)

    def of_mpi(self, mpi: Mpi) -> str:
        """Return the reference image of an MPI with a user's Python and mpi4py in it."""
        if mpi is Mpi.OPEN_MPI_4:
            return self.pi(Debian.BOOKWORM)
        donor = self.pi(Debian.TRIXIE)
        if mpi is Mpi.OPEN_MPI_5:
            return donor
        debian, dockerfile = Debian.TRIXIE, REPOSITORY / f"images/Dockerfile.{mpi.value}"
        base = self._build(mpi.value, debian, REPOSITORY, dockerfile, debian.image)
        dockerfile = _DOCKERFILES / "Dockerfile.program"
        name = f"{mpi.value}-program"
        return self._build(name, debian, EXAMPLE, dockerfile, base, PYTHON_OF=donor)

    def restart(self, mpi: Mpi) -> str:
        """Return the program of examples/restart on the image of an MPI."""
        example, base = REPOSITORY / "examples/restart", self.of_mpi(mpi)
        name = f"{mpi.value}-restart"
        return self._build(name, Debian.TRIXIE, example, example / "Dockerfile", base)

    def stock(self, debian: Debian) -> str:
        """Return the example's program by the operator's own recipe, without the agent."""
        dockerfile = _DOCKERFILES / "Dockerfile.stock"
        return self._build("stock", debian, EXAMPLE, dockerfile, debian.image)

    def wrapper(self, debian: Debian) -> str:
        """Return a user's own image with the agent by pip."""
        dockerfile = _DOCKERFILES / "Dockerfile.wrapper"
        return self._build("wrapper", debian, REPOSITORY, dockerfile, self.stock(debian))

    def reinstalled(self, debian: Debian) -> str:
        """Return the pi image after apt has laid the packages behind the shims anew."""
        dockerfile = _DOCKERFILES / "Dockerfile.reinstalled"
        return self._build("reinstalled", debian, EXAMPLE, dockerfile, self.pi(debian))

    def without_openssh(self, debian: Debian) -> str:
        """Return a user's own image with the agent by pip, and no OpenSSH of either side."""
        dockerfile = _DOCKERFILES / "Dockerfile.no-openssh"
        return self._build("no-openssh", debian, EXAMPLE, dockerfile, self.wrapper(debian))

    def locked(self, debian: Debian) -> str:
        """Return the pi image with locked accounts, without PAM and without /run/sshd."""
        dockerfile = _DOCKERFILES / "Dockerfile.locked"
        return self._build("locked", debian, EXAMPLE, dockerfile, self.pi(debian))

    def _build_once(
        self,
        name: str,
        debian: Debian,
        context: Path,
        dockerfile: Path,
        base: str,
        **build_arguments: str,
    ) -> str:
        tag = f"localhost/mpi-agent-e2e/{name}:{debian.value}"
        return self._engine.build(context, dockerfile, tag, BASE=base, **build_arguments)
