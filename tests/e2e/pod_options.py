"""How the engine is told what a pod's template says."""

from __future__ import annotations

from tests.e2e.mpi_jobs import PodTemplate

__all__ = ["HARDENED", "options_of"]

_ACCOUNTS = (0, 1000)  # root, and mpiuser of our images and of the operator's
# What containerd gives root in a pod and podman does not. For another user podman 4.3 makes what
# is added ambient; in Kubernetes he has no capability.
_CAPABILITIES_OF_ROOT = ("--cap-add=AUDIT_WRITE", "--cap-add=MKNOD", "--cap-add=NET_RAW")
HARDENED = (
    "--read-only",
    "--read-only-tmpfs=false",
    "--cap-drop=all",
    "--security-opt=no-new-privileges",
)
"""A container with a read-only root, no capability, and no way to more rights."""

# Kubernetes adds no account to /etc/passwd, and knows nothing of the machine's proxies.
_AS_IN_A_POD = ("--passwd=false", "--http-proxy=false")
# An emptyDir: open to everybody, without the sticky bit, and programs may be run from it.
_EMPTY_DIR = "rw,exec,nosuid,nodev,mode=0777,notmpcopyup"


def options_of(template: PodTemplate, fs_group: int | None = None) -> tuple[str, ...]:
    """Return podman's options for one container: entrypoint, user, rights, variables, emptyDirs."""
    capabilities = () if template.uid else _CAPABILITIES_OF_ROOT
    return (
        *(() if template.keeps_entrypoint else ("--entrypoint=",)),
        *(HARDENED if template.is_hardened else capabilities),
        *_AS_IN_A_POD,
        *_user_options(template.uid, template.gid),
        *((f"--group-add={fs_group}",) if fs_group is not None else ()),
        *(f"--tmpfs={path}:{_EMPTY_DIR}" for path in template.empty_dirs),
        *(f"--env={name}={value}" for name, value in template.variables),
        *template.options,
    )


def _user_options(uid: int | None, gid: int | None) -> tuple[str, ...]:
    """Return podman's options for a pod's user.

    Without an account its group is 0 and its HOME is `/`; podman 4.3 leaves HOME empty then.
    """
    if uid is None:
        return ()
    group = f":{gid}" if gid is not None else ""
    home = () if uid in _ACCOUNTS else ("--env=HOME=/",)
    return (f"--user={uid}{group}", *home)
