"""The Debian images that everything is built on: the registry's, else stand-ins made here.

CI reaches Debian's mirror and PyPI, but no registry of images. A stand-in has the registry's name,
so the Dockerfiles are used as they are for the world.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from enum import Enum
from pathlib import Path

from tests.e2e.commands import run_within
from tests.e2e.engine import Engine, NoEngineError, find_engine, require_podman

__all__ = ["Debian", "engine_with_bases"]

_LIMIT_S = 600.0
_CERTIFICATES_INSIDE = "/usr/local/share/mpi-agent-e2e/certificates.pem"
_CERTIFICATE_VARIABLES = ("PIP_CERT", "SSL_CERT_FILE", "REQUESTS_CA_BUNDLE")
_CERTIFICATES_HERE = "/etc/ssl/certs/ca-certificates.crt"
_INDEX_VARIABLES = ("PIP_INDEX_URL", "PIP_EXTRA_INDEX_URL", "PIP_TRUSTED_HOST")


class Debian(Enum):
    """The releases the images are made for; the value is the suite's name."""

    BOOKWORM = "bookworm"
    TRIXIE = "trixie"

    @property
    def image(self) -> str:
        """The registry's name of the base image."""
        return f"docker.io/library/debian:{self.value}-slim"

    @property
    def open_mpi(self) -> int:
        """Major version of the release's Open MPI."""
        return {"bookworm": 4, "trixie": 5}[self.value]


@contextmanager
def engine_with_bases(directory: Path) -> Iterator[Engine]:
    """Provide an engine that works here and has all base images.

    Raises:
        NoEngineError: no way to run containers works here, or an image is in no place and cannot
            be made; says which step failed.
    """
    require_podman()
    for debian in Debian:
        _ensure_base_image(debian, directory)
    engine = find_engine(directory, Debian.TRIXIE.image)
    try:
        yield engine
    finally:
        engine.close()


def _ensure_base_image(debian: Debian, directory: Path) -> None:
    """Make sure that the release's base image is in local storage."""
    if _works("podman", "image", "exists", debian.image):
        return
    if _works("podman", "pull", "--quiet", debian.image):
        return
    if shutil.which("debootstrap") is None:
        raise NoEngineError(f"cannot make {debian.image}: debootstrap is not installed")
    root = directory / debian.value
    _must("debootstrap", "--variant=minbase", debian.value, str(root))
    _teach_pip(root)
    shutil.rmtree(root / "var/cache/apt/archives")
    archive = directory / f"{debian.value}.tar"
    _must("tar", "-C", str(root), "-cf", str(archive), ".")
    shutil.rmtree(root)
    _must("podman", "import", "--quiet", str(archive), debian.image)
    archive.unlink()


def _teach_pip(root: Path) -> None:
    """Give the stand-in the certificates and the index with which pip works on this machine."""
    lines = ["[global]"]
    here = [os.environ.get(name, "") for name in _CERTIFICATE_VARIABLES]
    certificates = next((name for name in (*here, _CERTIFICATES_HERE) if os.path.isfile(name)), "")
    if certificates:
        inside = root / _CERTIFICATES_INSIDE.lstrip("/")
        inside.parent.mkdir(parents=True)
        shutil.copyfile(certificates, inside)
        lines.append(f"cert = {_CERTIFICATES_INSIDE}")
    for name in _INDEX_VARIABLES:
        value = os.environ.get(name, "")
        if value and "file:" not in value:
            lines.append(f"{name.removeprefix('PIP_').lower().replace('_', '-')} = {value}")
    (root / "etc/pip.conf").write_text("\n".join(lines) + "\n")


def _works(*argv: str) -> bool:
    try:
        return run_within(_LIMIT_S, *argv).returncode == 0
    except TimeoutError:
        return False


def _must(*argv: str) -> None:
    try:
        ended = run_within(_LIMIT_S, *argv)
    except TimeoutError:
        why = f"is not over within {_LIMIT_S:g} s"
    else:
        if ended.returncode == 0:
            return
        why = f"failed: {' '.join((ended.stdout + ended.stderr).strip().splitlines()[-1:])}"
    raise NoEngineError(f"cannot make a base image: {argv[0]} {why}")
