"""How the engine is told what a pod's template says."""

from __future__ import annotations

from tests.e2e.mpi_jobs import PodTemplate

__all__ = ["options_of"]

_LAST_USUAL_UID = 60000
# What containerd gives root in a pod and podman does not. For another user podman 4.3 makes what
# is added ambient; in Kubernetes he has no capability.
_CAPABILITIES_OF_ROOT = ("--cap-add=AUDIT_WRITE", "--cap-add=MKNOD", "--cap-add=NET_RAW")
_HARDENED = (
    "--read-only",
    "--read-only-tmpfs=false",
    "--cap-drop=all",
    "--security-opt=no-new-privileges",
)
# An emptyDir: open to everybody, without the sticky bit, and programs may be run from it.
_EMPTY_DIR = "rw,exec,nosuid,nodev,mode=0777,notmpcopyup"


def options_of(template: PodTemplate, fs_group: int | None = None) -> tuple[str, ...]:
    """Return podman's options for one container: entrypoint, user, rights, variables, emptyDirs."""
    capabilities = () if template.uid else _CAPABILITIES_OF_ROOT
    return (
        *(() if template.keeps_entrypoint else ("--entrypoint=",)),
        *(_HARDENED if template.is_hardened else capabilities),
        *_user_options(template.uid, template.gid),
        *((f"--group-add={fs_group}",) if fs_group is not None else ()),
        *(f"--tmpfs={path}:{_EMPTY_DIR}" for path in template.empty_dirs),
        *(f"--env={name}={value}" for name, value in template.variables),
        *template.options,
    )


def _user_options(uid: int | None, gid: int | None) -> tuple[str, ...]:
    """Return podman's options for a pod's user.

    Kubernetes gives a uid that the image does not know no passwd entry, group 0, and HOME=/.
    """
    if uid is None:
        return ()
    group = f":{gid}" if gid is not None else ""
    if uid <= _LAST_USUAL_UID:
        return (f"--user={uid}{group}",)
    return (f"--user={uid}{group or ':0'}", "--passwd=false", "--env=HOME=/")
