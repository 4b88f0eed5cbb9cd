"""The images of these tests; a file of `dockerfiles/`, of an example or of the recipes each."""

from __future__ import annotations

from enum import Enum
from functools import cache
from pathlib import Path

from tests.e2e.base_images import Debian
from tests.e2e.engine import Engine, EngineError
from tests.e2e.mpi_jobs import Implementation

__all__ = ["EXAMPLE", "OPEN_MPIS", "REPOSITORY", "Images", "Mpi"]

REPOSITORY = Path(__file__).parents[2]
EXAMPLE = REPOSITORY / "examples/mpi-operator"
_DOCKERFILES = Path(__file__).parent / "dockerfiles"


class Mpi(Enum):
    """The MPIs of the reference images; the value is the short name."""

    OPEN_MPI_4 = "openmpi4"
    OPEN_MPI_5 = "openmpi5"
    MPICH = "mpich"
    INTEL = "intel"

    @property
    def debian(self) -> Debian:
        """The release that its image is built on."""
        return Debian.BOOKWORM if self is Mpi.OPEN_MPI_4 else Debian.TRIXIE

    @property
    def implementation(self) -> Implementation:
        """What a manifest for it says."""
        return {Mpi.INTEL: Implementation.INTEL, Mpi.MPICH: Implementation.MPICH}.get(
            self, Implementation.OPEN_MPI
        )

    @property
    def dockerfile(self) -> Path:
        """The recipe of its reference image."""
        if self in OPEN_MPIS:
            return REPOSITORY / "Dockerfile.openmpi"
        return REPOSITORY / f"images/Dockerfile.{self.value}"

    @property
    def package(self) -> str:
        """Debian's package of it; empty if Debian has none."""
        return {Mpi.INTEL: "", Mpi.MPICH: "mpich"}.get(self, "openmpi-bin")


OPEN_MPIS = (Mpi.OPEN_MPI_4, Mpi.OPEN_MPI_5)


class Images:
    """Builds each image when it is first asked for; layers are kept between test runs.

    What could not be built is not tried again: everybody who asks gets the same EngineError.
    """

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._outcome = cache(self._build_once)

    def reference(self, mpi: Mpi) -> str:
        """Return the image that people start from."""
        tag = f"reference:{mpi.value}"
        return self._build(tag, REPOSITORY, mpi.dockerfile, BASE=mpi.debian.image)

    def builder(self, mpi: Mpi) -> str:
        """Return the image with compilers and headers that belongs to the reference image."""
        tag, base = f"builder:{mpi.value}", mpi.debian.image
        return self._build(tag, REPOSITORY, mpi.dockerfile, target="builder", BASE=base)

    def sidecar(self) -> str:
        """Return the image of the agent alone."""
        dockerfile = REPOSITORY / "images/Dockerfile.sidecar"
        return self._build("sidecar:latest", REPOSITORY, dockerfile, BASE=Debian.TRIXIE.image)

    def plain(self, mpi: Mpi) -> str:
        """Return a base image with the MPI and OpenSSH, and nothing of ours."""
        tag, base = f"plain:{mpi.value}", mpi.debian.image
        dockerfile = _DOCKERFILES / "Dockerfile.plain"
        if mpi is not Mpi.INTEL:
            return self._build(tag, EXAMPLE, dockerfile, BASE=base, MPI=mpi.package)
        openssh = self._build("plain-openssh:trixie", EXAMPLE, dockerfile, BASE=base, MPI="")
        dockerfile, reference = _DOCKERFILES / "Dockerfile.plain-intel", self.reference(mpi)
        return self._build(tag, EXAMPLE, dockerfile, BASE=openssh, REFERENCE=reference)

    def pi(self, mpi: Mpi) -> str:
        """Return a user's image: the example's two programs, by its two recipes."""
        in_python = self._build(
            f"pi-python:{mpi.value}", EXAMPLE, EXAMPLE / "Dockerfile", BASE=self.reference(mpi)
        )
        return self._build(
            f"pi:{mpi.value}",
            EXAMPLE,
            EXAMPLE / "Dockerfile.c",
            BASE=in_python,
            BUILDER=self.builder(mpi),
        )

    def restart(self, mpi: Mpi) -> str:
        """Return the program of examples/restart on the pi image."""
        example = REPOSITORY / "examples/restart"
        tag, base = f"restart:{mpi.value}", self.pi(mpi)
        return self._build(tag, example, example / "Dockerfile", BASE=base)

    def reinstalled(self, mpi: Mpi) -> str:
        """Return the pi image after apt has laid the packages behind the shims anew."""
        dockerfile, base = _DOCKERFILES / "Dockerfile.reinstalled", self.pi(mpi)
        tag = f"reinstalled:{mpi.value}"
        return self._build(tag, EXAMPLE, dockerfile, BASE=base, MPI_PACKAGE=mpi.package)

    def locked(self, mpi: Mpi) -> str:
        """Return the pi image with locked accounts, without PAM and without /run/sshd."""
        dockerfile = _DOCKERFILES / "Dockerfile.locked"
        return self._build(f"locked:{mpi.value}", EXAMPLE, dockerfile, BASE=self.pi(mpi))

    def stock(self, debian: Debian) -> str:
        """Return the example's program by the operator's own recipe, without the agent."""
        dockerfile = _DOCKERFILES / "Dockerfile.stock"
        return self._build(f"stock:{debian.value}", EXAMPLE, dockerfile, BASE=debian.image)

    def wrapper(self, debian: Debian) -> str:
        """Return a user's own image with the agent by pip."""
        dockerfile, base = _DOCKERFILES / "Dockerfile.wrapper", self.stock(debian)
        return self._build(f"wrapper:{debian.value}", REPOSITORY, dockerfile, BASE=base)

    def without_openssh(self, debian: Debian) -> str:
        """Return a user's own image with the agent by pip, and no OpenSSH of either side."""
        dockerfile, base = _DOCKERFILES / "Dockerfile.no-openssh", self.wrapper(debian)
        return self._build(f"no-openssh:{debian.value}", EXAMPLE, dockerfile, BASE=base)

    def _build(
        self, name: str, context: Path, dockerfile: Path, *, target: str = "", **arguments: str
    ) -> str:
        outcome = self._outcome(name, context, dockerfile, target=target, **arguments)
        if isinstance(outcome, EngineError):
            raise EngineError(str(outcome)) from outcome
        return outcome

    def _build_once(
        self, name: str, context: Path, dockerfile: Path, *, target: str, **arguments: str
    ) -> str | EngineError:
        tag = f"localhost/mpi-agent-e2e/{name}"
        try:
            return self._engine.build(context, dockerfile, tag, target=target, **arguments)
        except EngineError as error:
            return error
