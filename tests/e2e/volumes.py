"""The volumes of a job's pods, with kubelet's links, owners and modes."""

from __future__ import annotations

import os
import stat
import subprocess
from pathlib import Path

from tests.e2e.mpi_jobs import MpiJob

__all__ = ["give_to_group", "key_mode", "lay_volume", "new_ssh_secret"]


def new_ssh_secret(directory: Path) -> dict[str, bytes]:
    """Return the files of the job's Secret: an ECDSA P-521 key in SEC1 PEM, whatever its name."""
    key = directory / "key"
    quiet = ("ssh-keygen", "-q", "-t", "ecdsa", "-b", "521", "-m", "PEM", "-N", "", "-C", "")
    subprocess.run([*quiet, "-f", str(key)], check=True, stdin=subprocess.DEVNULL)
    public = key.with_suffix(".pub").read_bytes()
    return {"id_rsa": key.read_bytes(), "id_rsa.pub": public, "authorized_keys": public}


def key_mode(job: MpiJob) -> int:
    """Return the mode of the mounted keys, without what fsGroup adds to it.

    Source: mpi-operator v0.8.2, pkg/controller/mpi_job_controller.go, setupSSHOnPod.
    """
    if job.key_mode is not None:
        return job.key_mode
    return 0o600 if job.ssh_mount == "/root/.ssh" else 0o644


def give_to_group(path: Path, group: int, *, is_read_only: bool) -> None:
    """Do to a file, link or directory of a volume what kubelet does for a pod's `fsGroup`.

    Nothing is taken away from its mode.

    Args:
        is_read_only: as volumes of Secrets and ConfigMaps are.

    Source: Kubernetes, pkg/volume/volume_linux.go, changeFilePermission, read 2026-11-30.
    """
    os.chown(path, -1, group, follow_symlinks=False)
    if path.is_symlink():
        return
    added = 0o440 if is_read_only else 0o660
    if path.is_dir():
        added |= stat.S_ISGID | 0o110
    path.chmod(stat.S_IMODE(path.stat().st_mode) | added)


def lay_volume(volume: Path, files: dict[str, bytes], mode: int, group: int | None = None) -> None:
    """Write files as kubelet does: entries are links into `..data`, the directory has mode 1777."""
    data = volume / "..2026_11_30_00_00_00.1"
    data.mkdir(parents=True, exist_ok=True)
    data.chmod(0o755)
    volume.chmod(0o1777)
    if not (volume / "..data").is_symlink():
        (volume / "..data").symlink_to(data.name)
    for name, content in files.items():
        (data / name).write_bytes(content)
        (data / name).chmod(mode)
        (volume / name).symlink_to(f"..data/{name}")
    if group is not None:
        for path in (volume, *volume.rglob("*")):
            give_to_group(path, group, is_read_only=True)
