"""Every file of every layer of an image, also those that a later layer hides."""

from __future__ import annotations

import tarfile
from collections.abc import Iterator
from pathlib import Path

from tests.e2e.engine import Engine

__all__ = ["files_in_layers"]


def files_in_layers(engine: Engine, image: str, directory: Path) -> Iterator[tuple[str, bytes]]:
    """Yield the path and the content of each file; the archive is gone afterwards."""
    archive = directory / "image.tar"
    engine.do("save", "--quiet", "--format=docker-archive", f"--output={archive}", image)
    try:
        with tarfile.open(archive) as whole:
            for entry in whole:
                layer = whole.extractfile(entry) if entry.name.endswith(".tar") else None
                if layer is None:
                    continue
                with tarfile.open(fileobj=layer) as files:
                    yield from _files(files)
    finally:
        archive.unlink()


def _files(archive: tarfile.TarFile) -> Iterator[tuple[str, bytes]]:
    for entry in archive:
        content = archive.extractfile(entry) if entry.isreg() else None
        if content is not None:
            yield entry.name, content.read()
