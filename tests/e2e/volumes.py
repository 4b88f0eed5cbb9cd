"""The volumes of a job's pods, with kubelet's links, owners and modes."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from tests.e2e.mpi_jobs import MpiJob

__all__ = ["key_mode", "lay_volume", "new_ssh_secret"]

_READABLE_FOR_THE_GROUP = 0o440


def new_ssh_secret(directory: Path) -> dict[str, bytes]:
    """Return the files of the job's Secret: an ECDSA P-521 key in SEC1 PEM, whatever its name."""
    key = directory / "key"
    quiet = ("ssh-keygen", "-q", "-t", "ecdsa", "-b", "521", "-m", "PEM", "-N", "", "-C", "")
    subprocess.run([*quiet, "-f", str(key)], check=True, stdin=subprocess.DEVNULL)
    public = key.with_suffix(".pub").read_bytes()
    return {"id_rsa": key.read_bytes(), "id_rsa.pub": public, "authorized_keys": public}


def key_mode(job: MpiJob) -> int:
    """Return the mode of the mounted keys: the operator's, and what fsGroup adds to it.

    Source: mpi-operator v0.8.2, pkg/controller/mpi_job_controller.go, setupSSHOnPod; Kubernetes
    03e0602, pkg/volume/volume_linux.go, SetVolumeOwnership (roMask is added, nothing taken away).
    """
    if job.key_mode is not None:
        return job.key_mode
    mode = 0o600 if job.ssh_mount == "/root/.ssh" else 0o644
    return mode | _READABLE_FOR_THE_GROUP if job.fs_group is not None else mode


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
