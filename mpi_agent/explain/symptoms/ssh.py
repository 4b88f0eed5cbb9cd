"""What ssh and sshd say when a login fails."""

from __future__ import annotations

from mpi_agent.explain.symptoms.row import row
from mpi_agent.job.endings import Verdict
from mpi_agent.job.symptoms import Kind

__all__ = ["ROWS"]

_FAILED = Verdict.LAUNCH_FAILED
_MEASURED = "OpenSSH 9.2, measured 2026-11"

ROWS = (
    row(
        "ssh-refused",
        "ssh: connect to host {host} port {port}: Connection refused",
        stacks="ssh",
        verdict=_FAILED,
        cause='nothing listens on port {port} of "{host}"',
        remedy="start sshd (`mpi-agent worker`) there, on the port the launcher dials, and wait"
        " for it (`mpi-agent wait`)",
        source=_MEASURED,
    ),
    row(
        "ssh-timeout",
        "ssh: connect to host {host} port {port}: Connection timed out",
        stacks="ssh",
        verdict=_FAILED,
        cause='"{host}" does not answer on port {port}: packets are dropped, or the pod is gone',
        remedy="see whether that pod runs, and allow the ssh port between launcher and workers in"
        " every NetworkPolicy and security group",
        source=_MEASURED,
    ),
    row(
        "ssh-no-route",
        "ssh: connect to host {host} port {port}: No route to host",
        "ssh: connect to host {host} port {port}: Network is unreachable",
        stacks="ssh",
        verdict=_FAILED,
        cause='there is no way from here to "{host}"',
        remedy="check that the pod still runs and that both are on one pod network",
        source=_MEASURED,
    ),
    row(
        "ssh-host-key-changed",
        "Host key for {host} has changed and you have requested strict checking.",
        stacks="ssh",
        verdict=_FAILED,
        cause='"{host}" shows another host key than the one that is known',
        remedy="remove the old known_hosts, or run `mpi-agent worker`, whose host keys the job"
        " itself vouches for",
        source=_MEASURED,
    ),
    row(
        "ssh-host-key-unknown",
        "No {} host key is known for {host} and you have requested strict checking.",
        stacks="ssh",
        verdict=_FAILED,
        cause='nobody vouches for the host key of "{host}"',
        remedy="run `mpi-agent worker` there, or list its key in a known_hosts that mpirun's ssh"
        " reads",
        source=_MEASURED,
    ),
    row(
        "ssh-key-mode",
        "Permissions {mode} for '{path}' are too open.",
        stacks="ssh",
        verdict=_FAILED,
        cause='ssh ignores the private key "{path}", because others may read it (mode {mode})',
        remedy="mount the Secret with defaultMode 0600, or launch by mpi-agent, which works from a"
        " private copy",
        source=_MEASURED + "; mpi-operator#424",
    ),
    row(
        "ssh-key-unreadable",
        'Load key "{path}": Permission denied',
        stacks="ssh",
        verdict=_FAILED,
        cause='this user may not read the private key "{path}"',
        remedy="set fsGroup and defaultMode 0640 for the Secret, and launch by mpi-agent",
        source=_MEASURED,
    ),
    row(
        "ssh-dropped",
        "kex_exchange_identification: Connection closed by remote host",
        "kex_exchange_identification: read: Connection reset by peer",
        stacks="ssh",
        verdict=_FAILED,
        cause="a worker's sshd, or a proxy before it, closed the connection before any login",
        remedy="raise MaxStartups of the workers' sshd, and exclude the ssh port from the service"
        " mesh",
        source=_MEASURED + ": 60 logins at a time and the default MaxStartups 10:30:100",
    ),
    row(
        "ssh-login-refused",
        "{account}@{host}: Permission denied (",
        stacks="ssh",
        kind=Kind.SIGN,
        verdict=_FAILED,
        cause='"{host}" does not let "{account}" in with the key that was shown',
        remedy="check that launcher and workers mount the same key, and for this user; sshd's own"
        " log on the worker says why",
        source=_MEASURED,
    ),
    row(
        "ssh-host-key-failed",
        "Host key verification failed.",
        stacks="ssh",
        kind=Kind.CONSEQUENCE,
        verdict=_FAILED,
        cause="ssh refused a host for its host key",
        remedy="look at the line before, which names the host",
        source=_MEASURED,
    ),
    row(
        "deepspeed-host-unreachable",
        "Using hostfile at {path} but host={host} was not reachable via ssh.",
        stacks="DeepSpeed",
        kind=Kind.SIGN,
        verdict=_FAILED,
        cause='DeepSpeed\'s own ssh did not get onto "{host}"',
        remedy="put `mpi-agent launch --` in front, which waits for the hosts and gives every ssh"
        " its key and port",
        source="hpcac/2023-APAC-HPC-AI#1, DeepSpeed 0.7.3; volcano#2952",
    ),
    row(
        "sshd-no-host-keys",
        "sshd: no hostkeys available -- exiting",
        stacks="sshd",
        verdict=_FAILED,
        cause="sshd has no host key that it may use",
        remedy="run `mpi-agent worker`, which makes one, or `ssh-keygen -A` as root",
        source=_MEASURED + "; mpi-operator#467",
    ),
    row(
        "sshd-no-run-directory",
        "Missing privilege separation directory: {path}",
        stacks="sshd",
        verdict=_FAILED,
        cause='sshd runs as root and its directory "{path}" does not exist',
        remedy="make it in the image, or run `mpi-agent worker`",
        source=_MEASURED,
    ),
    row(
        "sshd-no-chroot",
        'chroot("{path}"): Operation not permitted',
        stacks="sshd",
        verdict=_FAILED,
        cause="sshd runs as root without the capability SYS_CHROOT",
        remedy="add SYS_CHROOT to the container, or run `mpi-agent worker` as another user",
        source="mpi-operator#642",
    ),
    row(
        "sshd-strict-modes",
        "Authentication refused: bad ownership or modes for {} {path}",
        stacks="sshd",
        verdict=_FAILED,
        cause='sshd does not trust "{path}", because others may write there',
        remedy="run `mpi-agent worker`, which keeps its own copy of authorized_keys",
        source=_MEASURED + "; mpi-operator#424",
    ),
    row(
        "sshd-account-locked",
        "User {account} not allowed because account is locked",
        stacks="sshd",
        verdict=_FAILED,
        cause='the account "{account}" is locked on the worker',
        remedy="unlock it in the image: `usermod -p '*' USER`",
        source=_MEASURED,
    ),
    row(
        "sshd-port-taken",
        "Bind to port {port} on {} failed: Address already in use.",
        stacks="sshd",
        verdict=_FAILED,
        cause="another server has port {port}, which sshd wants",
        remedy="choose another port (--ssh-port), as two pods on one node with hostNetwork must",
        source=_MEASURED,
    ),
)
