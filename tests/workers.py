"""Real workers of this machine: `mpi-agent worker` processes on loopback addresses, and who dials.

Every worker has a loopback address, a port and a state directory of its own.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import importlib.util
import itertools
import os
import pwd
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import asyncssh
import pytest

from mpi_agent.ssh.trust import (
    SshTarget,
    SshTerms,
    render_known_hosts,
    render_ssh_config,
)
from tests.waiting import wait_until

LIMIT_S = 30.0
REPOSITORY = Path(__file__).parents[1]
BUILTIN_CLIENT = (sys.executable, "-m", "mpi_agent", "ssh")
OPENSSH_CLIENT = ("ssh",)
_NETWORK = f"127.{os.getpid() % 200 + 20}"
_HOST_NUMBERS = itertools.count(1)
_IMPORTED_BY_THE_AGENT = (
    *("mpi_agent", "asyncssh", "click", "dns", "prometheus_client", "psutil", "tenacity"),
    *("cryptography", "cffi", "_cffi_backend", "pycparser", "typing_extensions"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class JobKeys:
    """A directory like the operator's mount, made for one test."""

    directory: Path
    public: str

    @property
    def private_path(self) -> Path:
        """Where the private key lies."""
        return self.directory / "id_rsa"


@dataclass(frozen=True, slots=True, kw_only=True)
class RunningWorker:
    """A worker that said it is ready."""

    name: str
    address: str
    port: int
    user: str
    state: Path
    log: Path
    popen: subprocess.Popen[bytes]

    @property
    def target(self) -> SshTarget:
        """The worker as ssh is to dial it."""
        return SshTarget(name=self.name, address=self.address, port=self.port)

    def stop(self) -> int:
        """Send TERM; return the exit code."""
        self.popen.send_signal(signal.SIGTERM)
        return self.popen.wait(LIMIT_S)


@contextlib.contextmanager
def open_directory() -> Iterator[Path]:
    """Give a short temporary directory that every uid may enter."""
    path = Path(tempfile.mkdtemp(prefix="mpi-agent-test-", dir="/tmp"))
    path.chmod(0o755)
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)


def make_job_keys(directory: Path, algorithm: str = "ecdsa-sha2-nistp521") -> JobKeys:
    """Make a job's key pair as the operator does: PEM, readable for whoever runs the tests."""
    directory.mkdir()
    key = (
        asyncssh.generate_private_key(algorithm, key_size=2048)
        if algorithm == "ssh-rsa"
        else asyncssh.generate_private_key(algorithm)
    )
    public = key.export_public_key().decode()
    form = "openssh" if algorithm == "ssh-ed25519" else "pkcs1-pem"
    (directory / "id_rsa").write_bytes(key.export_private_key(form))
    (directory / "id_rsa").chmod(0o644)
    (directory / "id_rsa.pub").write_text(public)
    (directory / "authorized_keys").write_text(public)
    return JobKeys(directory=directory, public=public)


def free_address() -> tuple[str, int]:
    """Return a loopback address that nobody else uses, and a free port on it."""
    number = next(_HOST_NUMBERS)
    address = f"{_NETWORK}.{number // 250}.{number % 250 + 1}"
    with socket.socket() as listener:
        listener.bind((address, 0))
        port: int = listener.getsockname()[1]
    return address, port


def worker_arguments(
    keys: JobKeys, state: Path, name: str, address: str, port: int
) -> tuple[str, ...]:
    """Return the arguments of Python for one worker."""
    return (
        *("-m", "mpi_agent", "worker", "--state-dir", str(state), "--worker-name", name),
        *("--listen-address", address, "--ssh-port", str(port)),
        *("--ssh-key", str(keys.private_path), "--grace", "3s"),
    )


@contextlib.contextmanager
def running_worker(
    keys: JobKeys,
    root: Path,
    *more: str,
    name: str = "pi-worker-0",
    uid: int | None = None,
    environ: Mapping[str, str] | None = None,
    cwd: Path = Path("/"),
) -> Iterator[RunningWorker]:
    """Give a ready worker, started with `more` arguments, under `uid` where one is given."""
    address, port = free_address()
    home = root / f"home-of-{name}"
    home.mkdir()
    if uid is not None:
        os.chown(home, uid, uid)
    state, log = home / "state", root / f"{name}.log"
    with log.open("wb") as stream:
        popen = subprocess.Popen(
            (python_for(uid), *worker_arguments(keys, state, name, address, port), *more),
            stdout=stream,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
            env={**environment_for(uid), **(environ or {})},
            cwd=cwd,
            user=uid,
            group=uid,
            extra_groups=() if uid is not None else None,
        )
    try:
        wait_until(
            f"{name} is ready", lambda: (state / "ready").exists() or popen.poll() is not None
        )
        assert popen.poll() is None, log.read_text()
        yield RunningWorker(
            name=name,
            address=address,
            port=port,
            user=_account_name(uid),
            state=state,
            log=log,
            popen=popen,
        )
    finally:
        if popen.poll() is None:
            popen.send_signal(signal.SIGTERM)
        popen.wait(LIMIT_S)


def _account_name(uid: int | None) -> str:
    wanted = os.getuid() if uid is None else uid
    try:
        return pwd.getpwuid(wanted).pw_name
    except KeyError:
        return f"uid-{wanted}"


def write_ssh_config(
    keys: JobKeys, root: Path, workers: tuple[RunningWorker, ...], *, authority: str | None = None
) -> Path:
    """Write the launcher's ssh_config for these workers; return its path.

    Args:
        authority: public key trusted to sign host keys; the job's own by default.
    """
    directory = Path(tempfile.mkdtemp(prefix="dial-", dir=root))
    key = directory / "job_key"
    key.write_bytes(keys.private_path.read_bytes())
    key.chmod(0o600)
    (directory / "known_hosts").write_text(render_known_hosts(authority or keys.public))
    terms = SshTerms(
        key_path=str(key),
        known_hosts_path=str(directory / "known_hosts"),
        user=workers[0].user if workers else _account_name(None),
        checks_host_keys=True,
    )
    config = directory / "ssh_config"
    config.write_text(render_ssh_config(terms, tuple(worker.target for worker in workers)))
    return config


def dial(
    client: tuple[str, ...], config: Path, *arguments: str, data: bytes = b""
) -> subprocess.CompletedProcess[bytes]:
    """Run an ssh client with our configuration to its end."""
    return subprocess.run(
        [*client, "-F", str(config), *arguments],
        input=data,
        capture_output=True,
        timeout=LIMIT_S,
        check=False,
    )


def require_program(name: str) -> str:
    """Return the path of a program; skip the test by its name where it is missing."""
    path = shutil.which(name, path=os.environ["PATH"] + ":/usr/sbin")
    if path is None:
        pytest.skip(f"{name} is not installed")
    return path


def ordinary_uid() -> int:
    """Return the uid of an account that is not root; skip where none can be used."""
    if os.getuid() != 0:
        pytest.skip("only root can start a worker under another account")
    for entry in pwd.getpwall():
        if 1000 <= entry.pw_uid < 60000 and os.access(entry.pw_shell, os.X_OK):
            return entry.pw_uid
    pytest.skip("no ordinary account on this machine")


def python_for(uid: int | None) -> str:
    """Return an interpreter that this uid can run; skip where there is none.

    The interpreter of the tests may lie behind a home directory that is closed to others.
    """
    if uid is None:
        return sys.executable
    for python in (sys.executable, "/usr/bin/python3"):
        if _imports_the_agent(python, uid):
            return python
    pytest.skip(f"no Python that uid {uid} can run has the agent's dependencies")


def _imports_the_agent(python: str, uid: int) -> bool:
    try:
        child = subprocess.run(
            [python, "-c", "import asyncssh, click, mpi_agent, psutil, tomllib"],
            user=uid,
            group=uid,
            extra_groups=(),
            cwd="/",
            env=environment_for(uid),
            capture_output=True,
            check=False,
        )
    except PermissionError:
        return False
    return child.returncode == 0


def environment_for(uid: int | None) -> dict[str, str]:
    """Return an environment in which this uid can import the agent; None is our own."""
    if uid is not None:
        return {**os.environ, "PYTHONPATH": str(_packages_for_everybody())}
    packages = [str(REPOSITORY), *(path for path in sys.path if path.endswith("site-packages"))]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(packages)}


@functools.cache
def _packages_for_everybody() -> Path:
    """Return a copy of the agent and what it imports that every uid can read.

    The checkout and its virtual environment may lie in a directory that is closed to others.
    """
    target = Path(tempfile.mkdtemp(prefix="mpi-agent-packages-", dir="/tmp"))
    atexit.register(shutil.rmtree, target, ignore_errors=True)
    for name in _IMPORTED_BY_THE_AGENT:
        found = importlib.util.find_spec(name)
        assert found is not None, name
        assert found.origin is not None, name
        source = Path(found.origin)
        if found.submodule_search_locations:
            shutil.copytree(source.parent, target / source.parent.name)
        else:
            shutil.copy(source, target)
    subprocess.run(["chmod", "-R", "a+rX", str(target)], check=True)
    return target


def run_to_its_end(
    keys: JobKeys, root: Path, *more: str, port: int | None = None, uid: int | None = None
) -> subprocess.CompletedProcess[str]:
    """Run a worker that is expected to end by itself."""
    address, free_port = free_address()
    state = root / "state-of-the-short-lived"
    if uid is not None:
        state.mkdir(mode=0o700)
        os.chown(state, uid, uid)
    return subprocess.run(
        [
            python_for(uid),
            *worker_arguments(keys, state, "pi-worker-0", address, port or free_port),
            *more,
        ],
        env=environment_for(uid),
        user=uid,
        group=uid,
        extra_groups=() if uid is not None else None,
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )


def listens(address: str, port: int) -> bool:
    """Return whether somebody accepts connections there."""
    with socket.socket() as probe:
        return probe.connect_ex((address, port)) == 0
