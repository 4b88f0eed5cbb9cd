"""One ssh server of a worker by itself: a process for tests that need no worker around it.

`python -m tests.one_ssh_server` reads its arguments as JSON from its input, writes each event as a
line of JSON to a file, and serves until it gets TERM. `running_server` is the other side of it.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import asyncssh

from mpi_agent.children import Children
from mpi_agent.container import own_account
from mpi_agent.job.events import Event
from mpi_agent.limits import raise_limits
from mpi_agent.ssh.trust import SshTarget, SshTerms, render_known_hosts, render_ssh_config
from mpi_agent.state import StateDirectory
from mpi_agent.worker.server import SshServer
from mpi_agent.worker.server_facts import login_shell
from mpi_agent.worker.sshd_config import SshdPlan
from tests.waiting import wait_until
from tests.workers import LIMIT_S, REPOSITORY, free_address, listens, require_program

__all__ = ["ServedAlone", "running_server"]

_NAME = "pi-worker-0"
_Variables = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ServedAlone:
    """A server that listens.

    Attributes:
        config: an ssh_config with which it lets us in.
    """

    backend: str
    address: str
    port: int
    user: str
    directory: Path
    config: Path
    popen: subprocess.Popen[bytes]

    @property
    def key(self) -> Path:
        """The private key that opens it."""
        return self.directory / "job_key"

    @property
    def known_hosts(self) -> Path:
        """The file that vouches for it."""
        return self.directory / "known_hosts"

    @property
    def events(self) -> list[dict[str, Any]]:
        """What it told so far: the values of each event, and its class as `event`."""
        return [json.loads(line) for line in (self.directory / "events").read_text().splitlines()]

    def told(self, name: str) -> list[dict[str, Any]]:
        """Return the events of one class."""
        return [event for event in self.events if event["event"] == name]

    def wait_for_refusal(self, why: str) -> dict[str, Any]:
        """Return the first refusal with these words in it, once it was told."""

        def matching() -> list[dict[str, Any]]:
            return [event for event in self.told("LoginRefused") if why in event["why"]]

        wait_until(f"refused: {why}; told were {self.events}", lambda: bool(matching()))
        return matching()[0]


@contextlib.contextmanager
def running_server(
    backend: str,
    root: Path,
    *,
    authorized_keys: str | None = None,
    variables: _Variables = (("SHLVL", "1"),),
    login_limit_s: float = 30.0,
    prefix: tuple[str, ...] = (),
) -> Iterator[ServedAlone]:
    """Give a server with fresh keys in a new directory below `root`.

    Args:
        authorized_keys: instead of the job's key.
        login_limit_s: for the built-in server.
        prefix: command in front of Python's.
    """
    if backend == "openssh":
        require_program("sshd")
    directory = root / f"alone-{len(list(root.iterdir()))}"
    directory.mkdir(mode=0o700)
    address, port = free_address()
    user = own_account().name
    public = _make_keys(directory)
    (directory / "authorized_keys").write_text(authorized_keys or public)
    (directory / "events").touch()
    plan = SshdPlan(
        port=port,
        listen_address=address,
        account=user,
        worker_name=_NAME,
        host_key=str(directory / "host_key"),
        host_certificate=str(directory / "host_key-cert.pub"),
        authorized_keys=str(directory / "authorized_keys"),
        strict_modes=False,
        variables=variables,
    )
    with (directory / "stderr").open("wb") as stderr:
        popen = subprocess.Popen(
            (*prefix, sys.executable, "-m", "tests.one_ssh_server"),
            stdin=subprocess.PIPE,
            stderr=stderr,
            cwd=REPOSITORY,
        )
    assert popen.stdin is not None
    told: dict[str, Any] = {"backend": backend, "limit_s": login_limit_s}
    told["plan"] = _plain(dataclasses.asdict(plan))
    popen.stdin.write(json.dumps(told).encode())
    popen.stdin.close()
    served = ServedAlone(
        backend=backend,
        address=address,
        port=port,
        user=user,
        directory=directory,
        config=_write_config(directory, SshTarget(name=_NAME, address=address, port=port), user),
        popen=popen,
    )
    try:
        wait_until(f"{backend} listens", lambda: listens(address, port) or bool(popen.poll()))
        assert popen.poll() is None, (directory / "stderr").read_text()
        yield served
    finally:
        popen.send_signal(signal.SIGTERM)
        popen.wait(LIMIT_S)


def _make_keys(directory: Path) -> str:
    """Make the job's key and a host key with its certificate; return the job's public key."""
    job = asyncssh.generate_private_key("ecdsa-sha2-nistp521")
    host = asyncssh.generate_private_key("ssh-ed25519")
    certificate = job.generate_host_certificate(host, "host", principals=[_NAME])
    for name, content in (
        ("job_key", job.export_private_key()),
        ("host_key", host.export_private_key()),
        ("host_key-cert.pub", certificate.export_certificate()),
    ):
        (directory / name).touch(mode=0o600)
        (directory / name).write_bytes(content)
    return job.export_public_key().decode()


def _write_config(directory: Path, target: SshTarget, user: str) -> Path:
    public = (directory / "authorized_keys").read_text()
    (directory / "known_hosts").write_text(render_known_hosts(_authority(directory) or public))
    terms = SshTerms(
        key_path=str(directory / "job_key"),
        known_hosts_path=str(directory / "known_hosts"),
        user=user,
        checks_host_keys=True,
    )
    config = directory / "ssh_config"
    config.write_text(render_ssh_config(terms, (target,)))
    return config


def _authority(directory: Path) -> str:
    return asyncssh.read_private_key(directory / "job_key").export_public_key().decode()


def _plain(plan: dict[str, Any]) -> dict[str, Any]:
    """Return a plan's values without those that have defaults, which need not travel."""
    names = [field.name for field in dataclasses.fields(SshdPlan)]
    return {name: plan[name] for name in names[: names.index("variables") + 1]}


async def _serve(told: dict[str, Any]) -> None:
    values = told["plan"]
    variables = tuple((name, value) for name, value in values["variables"])
    account = own_account()
    plan = SshdPlan(
        **{**values, "variables": variables},
        home=str(account.home or "/"),
        shell=login_shell(account),
    )
    directory = Path(plan.authorized_keys).parent
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    raise_limits()
    with Children() as children, (directory / "events").open("a") as stream:

        def emit(event: Event) -> None:
            values = {"event": type(event).__name__, **dataclasses.asdict(event)}
            stream.write(json.dumps(values) + "\n")
            stream.flush()

        server = _make(told, plan, children, emit)
        await server.start()
        children.adopt_orphans()
        await stop.wait()
        await server.stop(2.0)


def _make(
    told: dict[str, Any], plan: SshdPlan, children: Children, emit: Callable[[Event], None]
) -> SshServer:
    if told["backend"] == "builtin":
        from mpi_agent.worker.builtin import BuiltinServer

        limit_s = told["limit_s"]
        return BuiltinServer(plan, children, emit=emit, login_limit_s=limit_s)
    from mpi_agent.worker.openssh import OpenSshServer, find_sshd

    sshd = find_sshd()
    assert sshd is not None
    state = StateDirectory(Path(plan.authorized_keys).parent)
    return OpenSshServer(sshd, plan, state, children, emit=emit)


if __name__ == "__main__":
    os.environ.setdefault("LOGNAME", own_account().name)
    asyncio.run(_serve(json.load(sys.stdin)))
