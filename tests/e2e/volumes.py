"""The volumes of a job's pods, with kubelet's links, owners and modes."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

__all__ = ["lay_volume", "new_ssh_secret"]


def new_ssh_secret(directory: Path) -> dict[str, bytes]:
    """Return the files of the job's Secret: an ECDSA P-521 key in SEC1 PEM, whatever its name."""
    key = directory / "key"
    quiet = ("ssh-keygen", "-q", "-t", "ecdsa", "-b", "521", "-m", "PEM", "-N", "", "-C", "")
    subprocess.run([*quiet, "-f", str(key)], check=True, stdin=subprocess.DEVNULL)
    public = key.with_suffix(".pub").read_bytes()
    return {"id_rsa": key.read_bytes(), "id_rsa.pub": public, "authorized_keys": public}


def lay_volume(volume: Path, files: dict[str, bytes], mode: int, group: int | None = None) -> None:
    """Write files as kubelet does: entries are links into `..data`, the directory has mode 1777."""
    data = volume / "..2026_11_30_00_00_00.1"
    data.mkdir(parents=True, exist_ok=True)
    volume.chmod(0o1777)
    if not (volume / "..data").is_symlink():
        (volume / "..data").symlink_to(data.name)
    for name, content in files.items():
        (data / name).write_bytes(content)
        (data / name).chmod(mode)
        if group is not None:
            os.chown(data / name, -1, group)
        (volume / name).symlink_to(f"..data/{name}")
