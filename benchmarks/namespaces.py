"""The surroundings of a benchmark: namespaces of its own, the job's key, the launcher's files.

A benchmark calls `enter_own_namespaces` first. From then on it is PID 1 of its own mount, network
and pid namespaces: `/etc/resolv.conf`, `/etc/ssh/ssh_config` and `/run` are its own, nobody else
is reached, and however it ends, the kernel ends what it started and takes back what it mounted.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

ROOT = Path("/run/bench")
JOB_KEY = ROOT / "id_rsa"
NAME_SERVER = "10.77.0.1"
CLUSTER_DOMAIN = "cluster.local"
LIMIT_S = 30.0
_INSIDE = "MPI_AGENT_BENCHMARK_INSIDE"
_POLL_S = 0.001

_RESOLV_CONF = f"""\
search default.svc.{CLUSTER_DOMAIN} svc.{CLUSTER_DOMAIN} {CLUSTER_DOMAIN}
nameserver {NAME_SERVER}
options ndots:5
"""
# Debian's own, with what the operator's base image changes in it. The key's place and the silence
# about new host keys are ours. Source: kubeflow/mpi-operator, build/base/Dockerfile.
_SSH_CONFIG = f"""\
Host *
    SendEnv LANG LC_*
    HashKnownHosts yes
    GSSAPIAuthentication yes
    StrictHostKeyChecking no
    UserKnownHostsFile /dev/null
    IdentityFile {JOB_KEY}
    LogLevel ERROR
"""
# SHLVL keeps bash from reading the machine's own ~/.bashrc at every login.
_SSHD_CONFIG = f"""\
HostKey {ROOT}/host_key
HostCertificate {ROOT}/host_key-cert.pub
AuthorizedKeysFile {JOB_KEY}.pub
UsePAM no
StrictModes no
PermitRootLogin prohibit-password
MaxStartups 4000
UseDNS no
PidFile none
PrintMotd no
SetEnv SHLVL=1
LogLevel ERROR
"""


def enter_own_namespaces() -> None:
    """Start this program again in namespaces of its own; return only there.

    Ctrl-C, TERM to the process group and KILL end everything at once; unshare keeps a TERM for
    itself alone until the benchmark is through.

    Source: unshare(1) of util-linux 2.38.
    """
    if os.environ.pop(_INSIDE, None) is None:
        if os.getuid() != 0:
            sys.exit("benchmarks need root: they make network namespaces")
        os.environ[_INSIDE] = "yes"
        flags = ("--mount", "--net", "--pid", "--fork", "--kill-child", "--mount-proc")
        os.execvp("unshare", ["unshare", *flags, sys.executable, *sys.orig_argv[1:]])
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    signal.signal(signal.SIGINT, lambda *_: sys.exit(130))
    run("mount -t tmpfs tmpfs /run")
    for directory in (ROOT, Path("/run/sshd"), Path("/run/netns")):
        directory.mkdir(mode=0o755)
    run("ip link set lo up", "ip link add pods0 type bridge")
    run(f"ip addr add {NAME_SERVER}/16 dev pods0", "ip link set pods0 up")
    _put_in_place("/etc/resolv.conf", _RESOLV_CONF)
    _put_in_place("/etc/ssh/ssh_config", _SSH_CONFIG)
    (ROOT / "sshd_config").write_text(_SSHD_CONFIG)
    _make_keys()


def _put_in_place(path: str, content: str) -> None:
    """Cover a file of the machine, for us alone; it may be a link into the /run that we hide."""
    target = Path(path).resolve()
    if not target.exists():
        target.parent.mkdir(parents=True, exist_ok=True)
        target.touch()
    cover = ROOT / target.name
    cover.write_text(content)
    run(f"mount --bind {cover} {target}")


def _make_keys() -> None:
    """Make the job's key as the operator does, and a host key that it signs.

    The certificate names no host and so stands for all, as one sshd does here.
    """
    run(f"ssh-keygen -q -t ecdsa -b 521 -m PEM -N  -C job -f {JOB_KEY}".split(" "))
    run(f"ssh-keygen -q -t ed25519 -N  -C host -f {ROOT}/host_key".split(" "))
    run(f"ssh-keygen -q -s {JOB_KEY} -h -I bench -V -1h:+30d {ROOT}/host_key.pub")


def run(*commands: str | list[str]) -> None:
    """Run commands that have to succeed."""
    for command in commands:
        subprocess.run(command.split() if isinstance(command, str) else command, check=True)


def wait_until(what: str, claim: Callable[[], bool]) -> float:
    """Wait until a claim holds; return when it was seen to, on the monotonic clock.

    Raises:
        TimeoutError: it did not within 30 s.
    """
    deadline_s = time.monotonic() + LIMIT_S
    while time.monotonic() < deadline_s:
        if claim():
            return time.monotonic()
        time.sleep(_POLL_S)
    raise TimeoutError(f"{what}: not within {LIMIT_S:g} s")


def end(popen: subprocess.Popen[bytes]) -> None:
    """End a server of ours and wait until it has."""
    popen.terminate()
    popen.wait(LIMIT_S)


def reap_orphans() -> None:
    """Reap what an mpirun left behind: we are PID 1. Not to be called while a run is measured."""
    with contextlib.suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG) != (0, 0):
            pass
