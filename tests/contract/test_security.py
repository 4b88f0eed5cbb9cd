"""What a worker refuses, whichever server it runs: refused to real attackers, and told as an event.

OpenSSH's sshd refuses some requests without a word in its log, at any level up to VERBOSE: to
forward remote ports and sockets, X11, the agent, a tunnel. There the built-in server alone tells
it, and for X11, the agent and a terminal it has no word either. A shell without a command is given
by sshd alone, where no script of ours runs in place of it.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import subprocess
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

import asyncssh
import psutil
import pytest

from mpi_agent.variable_names import RUN_ID_VARIABLE
from mpi_agent.worker.refusals import (
    ANOTHER_AUTHORITY,
    NO_COMMON,
    NO_KEY,
    NO_SHELL,
    NO_TERMINAL,
    TOO_MANY_ATTEMPTS,
)
from tests.one_ssh_server import ServedAlone, running_server
from tests.waiting import wait_until
from tests.workers import LIMIT_S, OPENSSH_CLIENT, dial, open_directory, require_program

pytestmark = pytest.mark.integration

NAME = "pi-worker-0"
_Request = Callable[[asyncssh.SSHClientConnection], Awaitable[object]]


@pytest.fixture(scope="module", params=["openssh", "builtin"])
def attacked(request: pytest.FixtureRequest) -> Iterator[ServedAlone]:
    """Give a server of each kind."""
    with open_directory() as root, running_server(request.param, root) as served:
        yield served


def attack(
    served: ServedAlone, *arguments: str, config: Path | None = None, command: str = "true"
) -> subprocess.CompletedProcess[bytes]:
    """Run the real ssh client."""
    require_program("ssh")
    return dial(OPENSSH_CLIENT, config or served.config, *arguments, NAME, command)


def config_with(served: ServedAlone, directory: Path, *lines: str) -> Path:
    """Write a configuration that shows other keys."""
    kept = [line for line in served.config.read_text().splitlines() if "IdentityFile" not in line]
    config = directory / "ssh_config"
    config.write_text("\n".join((*lines, *kept)) + "\n")
    return config


def write_key(path: Path) -> asyncssh.SSHKey:
    """Make a key that nobody knows."""
    key = asyncssh.generate_private_key("ssh-ed25519")
    path.touch(mode=0o600)
    path.write_bytes(key.export_private_key())
    return key


def connect(
    served: ServedAlone, *, username: str | None = None, **more: object
) -> contextlib.AbstractAsyncContextManager[asyncssh.SSHClientConnection]:
    """Connect with asyncssh, with the job's key unless something else is said."""
    chosen = {"client_keys": [str(served.key)], **more}
    return asyncssh.connect(
        served.address,
        served.port,
        username=username or served.user,
        known_hosts=None,
        config=None,
        **chosen,
    )


def request(served: ServedAlone, what: _Request) -> object:
    """Ask for something with asyncssh, logged in with the job's key."""

    async def ask() -> object:
        async with connect(served) as connection:
            return await asyncio.wait_for(what(connection), LIMIT_S)

    return asyncio.run(ask())


@pytest.mark.parametrize("method", ["password", "keyboard-interactive", "hostbased", "none"])
def test_nothing_but_a_key_is_taken(attacked: ServedAlone, method: str) -> None:
    """Also where an image has an account with a password."""
    before = len(attacked.told("LoginRefused"))

    ended = attack(attacked, "-o", f"PreferredAuthentications={method}", "-o", "BatchMode=no")

    assert ended.returncode == 255
    assert b"Permission denied (publickey)" in ended.stderr
    wait_until("it is told", lambda: len(attacked.told("LoginRefused")) > before)
    assert attacked.told("LoginRefused")[-1]["why"] == NO_KEY
    assert attacked.told("LoginRefused")[-1]["user"] == attacked.user


def test_a_password_that_asyncssh_offers_is_not_even_asked_for(attacked: ServedAlone) -> None:
    """A client of another make."""

    async def enter() -> None:
        async with connect(attacked, client_keys=None, password="secret"):
            pass

    with pytest.raises(asyncssh.PermissionDenied):
        asyncio.run(enter())

    attacked.wait_for_refusal(NO_KEY)
    assert "secret" not in str(attacked.events)


def test_another_key_is_refused_and_named(attacked: ServedAlone, tmp_path: Path) -> None:
    """By its fingerprint, so that somebody can find whose it is."""
    key = write_key(tmp_path / "stranger")
    config = config_with(attacked, tmp_path, f"IdentityFile {tmp_path}/stranger")

    ended = attack(attacked, config=config)

    assert ended.returncode == 255
    told = attacked.wait_for_refusal(key.get_fingerprint())
    assert told["user"] == attacked.user
    assert told["peer"].startswith("127.")


def test_another_user_is_refused(attacked: ServedAlone) -> None:
    """Even with the job's key."""
    ended = attack(attacked, "-o", "User=daemon")

    assert ended.returncode == 255
    assert b"Permission denied" in ended.stderr
    told = attacked.wait_for_refusal(f'only the user "{attacked.user}"')
    assert told["user"] == "daemon"


def test_a_user_whom_nobody_knows_is_refused(attacked: ServedAlone) -> None:
    """The name is the client's own text: it cannot say where the client comes from."""
    name = "nobody from 9.9.9.9 port 1 ssh2"

    async def enter() -> None:
        async with connect(attacked, username=name):
            pass

    with pytest.raises(asyncssh.PermissionDenied):
        asyncio.run(enter())

    wait_until("it is told", lambda: name in [e["user"] for e in attacked.told("LoginRefused")])
    (told,) = (event for event in attacked.told("LoginRefused") if event["user"] == name)
    assert told["peer"].startswith("127.")


def test_a_certificate_of_another_authority_is_refused(
    attacked: ServedAlone, tmp_path: Path
) -> None:
    """Whoever can sign for himself is not let in by it."""
    authority = asyncssh.generate_private_key("ssh-ed25519")
    key = write_key(tmp_path / "mine")
    certificate = authority.generate_user_certificate(key, "me", principals=[attacked.user])
    (tmp_path / "mine-cert.pub").write_bytes(certificate.export_certificate())
    config = config_with(
        attacked,
        tmp_path,
        f"IdentityFile {tmp_path}/mine",
        f"CertificateFile {tmp_path}/mine-cert.pub",
    )

    ended = attack(attacked, config=config)

    assert ended.returncode == 255
    attacked.wait_for_refusal(ANOTHER_AUTHORITY)


def test_a_certificate_that_the_jobs_key_signed_for_a_host_opens_nothing(
    attacked: ServedAlone, tmp_path: Path
) -> None:
    """Every worker has one; the job's key is an authority for hosts, not for users."""
    key = write_key(tmp_path / "mine")
    job = asyncssh.read_private_key(attacked.key)
    certificate = job.generate_user_certificate(key, "me", principals=[attacked.user])
    (tmp_path / "mine-cert.pub").write_bytes(certificate.export_certificate())
    config = config_with(
        attacked,
        tmp_path,
        f"IdentityFile {tmp_path}/mine",
        f"CertificateFile {tmp_path}/mine-cert.pub",
    )

    assert attack(attacked, config=config).returncode == 255


def test_who_tries_many_keys_is_sent_away(attacked: ServedAlone, tmp_path: Path) -> None:
    """After ten of them."""
    for number in range(12):
        write_key(tmp_path / f"key-{number}")
    lines = [f"IdentityFile {tmp_path}/key-{number}" for number in range(12)]

    ended = attack(attacked, config=config_with(attacked, tmp_path, *lines))

    assert ended.returncode == 255
    assert b"oo many authentication failures" in ended.stderr
    attacked.wait_for_refusal(TOO_MANY_ATTEMPTS)


def test_weak_algorithms_are_not_spoken(attacked: ServedAlone) -> None:
    """A client that knows nothing better is told apart from one with a wrong key."""
    with socket.create_connection((attacked.address, attacked.port), timeout=LIMIT_S) as client:
        client.sendall(b"SSH-2.0-old\r\n" + key_exchange_with("aes128-cbc"))
        with contextlib.suppress(ConnectionError):
            while client.recv(4096):
                pass

    assert "aes128-cbc" in attacked.wait_for_refusal(NO_COMMON)["why"]


def key_exchange_with(cipher: str) -> bytes:
    """Return the first packet of a client that knows one cipher.

    Source: RFC 4253, 6 and 7.1.
    """
    known = ("curve25519-sha256", "ssh-ed25519", cipher, cipher, *("hmac-sha2-256",) * 2)
    lists = (*known, "none", "none", "", "")
    named = b"".join(len(one).to_bytes(4, "big") + one.encode() for one in lists)
    payload = b"\x14" + b"\x00" * 16 + named + b"\x00" * 5
    padding = 8 - (len(payload) + 5) % 8 + 8
    length = len(payload) + padding + 1
    return length.to_bytes(4, "big") + bytes([padding]) + payload + b"\x00" * padding


def test_no_port_is_dialled_for_a_client(attacked: ServedAlone) -> None:
    """The job's key opens a way to run commands, not into the pod's network."""
    with socket.create_server(("127.0.0.1", 0)) as inside:
        port = inside.getsockname()[1]
        ended = attack(attacked, "-W", f"127.0.0.1:{port}")
        inside.setblocking(False)

        with pytest.raises(BlockingIOError):
            inside.accept()

    assert ended.returncode == 255
    told = attacked.wait_for_refusal(f"to 127.0.0.1 port {port}")
    assert told["user"] == attacked.user


def test_no_port_is_dialled_for_a_client_that_decides_later(
    attacked: ServedAlone, tmp_path: Path
) -> None:
    """Dynamic forwarding: `ssh -D` and whoever speaks SOCKS to it."""
    require_program("ssh")
    proxy = tmp_path / "proxy"
    with subprocess.Popen(
        ("ssh", "-F", str(attacked.config), "-N", "-D", str(proxy), NAME),
        stdin=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    ) as client:
        wait_until("the proxy listens", proxy.exists)
        with socket.socket(socket.AF_UNIX) as dialled:
            dialled.settimeout(LIMIT_S)
            dialled.connect(str(proxy))
            dialled.sendall(b"\x05\x01\x00")
            dialled.recv(2)
            dialled.sendall(b"\x05\x01\x00\x01\x7f\x00\x00\x01" + (9).to_bytes(2, "big"))
            answer = dialled.recv(10)
            left = dialled.recv(1) if answer[1:2] == b"\x00" else b""
        client.terminate()

    assert left == b""
    attacked.wait_for_refusal("to 127.0.0.1 port 9")


def test_no_socket_is_opened_for_a_client(attacked: ServedAlone) -> None:
    """Such as that of a container engine, or the worker's own."""
    with pytest.raises(asyncssh.ChannelOpenError):
        request(attacked, lambda connection: connection.open_unix_connection("/run/engine.sock"))

    attacked.wait_for_refusal("/run/engine.sock")


def test_nobody_is_listened_for(attacked: ServedAlone) -> None:
    """Remote forwarding; sshd has no line for it."""
    ended = attack(attacked, "-o", "ExitOnForwardFailure=yes", "-R", "0:127.0.0.1:22")

    assert ended.returncode == 255
    assert b"remote port forwarding failed" in ended.stderr
    if attacked.backend == "builtin":
        attacked.wait_for_refusal("from localhost port 0")


def test_nobody_is_listened_for_on_a_socket(attacked: ServedAlone, tmp_path: Path) -> None:
    """Neither is a file made; sshd has no line for it."""
    place = tmp_path / "socket"

    ended = attack(attacked, "-o", "ExitOnForwardFailure=yes", "-R", f"{place}:127.0.0.1:22")

    assert ended.returncode == 255
    assert not place.exists()
    if attacked.backend == "builtin":
        attacked.wait_for_refusal(f"from {place}")


def test_no_tunnel_is_dug(attacked: ServedAlone) -> None:
    """Of packets; sshd has no line for it."""
    with pytest.raises(asyncssh.ChannelOpenError):
        request(attacked, lambda connection: connection.open_tun(5))

    if attacked.backend == "builtin":
        attacked.wait_for_refusal("a tunnel")


def test_no_display_is_forwarded(attacked: ServedAlone) -> None:
    """X11: neither server tells it."""
    require_program("ssh")

    ended = subprocess.run(
        ("ssh", "-F", str(attacked.config), "-X", NAME, "echo [$DISPLAY]"),
        env={**os.environ, "DISPLAY": "127.0.0.1:7"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=LIMIT_S,
        check=False,
    )

    assert ended.stdout == b"[]\n"
    assert b"X11 forwarding request failed" in ended.stderr


def test_no_agent_is_forwarded(attacked: ServedAlone, tmp_path: Path) -> None:
    """A command cannot use keys that stay with the client; neither server tells it."""
    agent = subprocess.Popen(
        (require_program("ssh-agent"), "-D", "-a", str(tmp_path / "agent")),
        stdout=subprocess.DEVNULL,
    )
    try:
        wait_until("the agent listens", (tmp_path / "agent").exists)

        ended = subprocess.run(
            ("ssh", "-F", str(attacked.config), "-A", NAME, "echo [$SSH_AUTH_SOCK]"),
            env={**os.environ, "SSH_AUTH_SOCK": str(tmp_path / "agent")},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=LIMIT_S,
            check=False,
        )
    finally:
        agent.terminate()
        agent.wait(LIMIT_S)

    assert ended.stdout == b"[]\n", ended.stderr


@pytest.mark.parametrize("name", ["sftp", "netconf"])
def test_no_subsystem_is_offered(attacked: ServedAlone, name: str) -> None:
    """File transfer above all."""
    ended = dial(OPENSSH_CLIENT, attacked.config, "-s", NAME, name)

    assert ended.returncode == 255
    attacked.wait_for_refusal(f'there is no subsystem "{name}"')


def test_no_files_are_copied_with_asyncssh(attacked: ServedAlone) -> None:
    """Neither by its sftp client."""
    with pytest.raises(asyncssh.ChannelOpenError):
        request(attacked, lambda connection: connection.start_sftp_client())


def test_variables_of_a_client_stay_with_it_except_the_runs_id(
    attacked: ServedAlone, monkeypatch: pytest.MonkeyPatch
) -> None:
    """LD_PRELOAD of a client would be code in a rank; the run's id is what a worker knows it by."""
    sent = {
        "LD_PRELOAD": "/lib/evil.so",
        "LD_LIBRARY_PATH": "/evil",
        "BASH_ENV": "/evil",
        "LAB_ANY": "x",
        "MPI_AGENT_STATE_DIR": "/evil",
        "MPI_AGENT_WORKER_CALL": "/evil",
        RUN_ID_VARIABLE: "run-7",
    }
    for name, value in sent.items():
        if name != "LD_PRELOAD":
            monkeypatch.setenv(name, value)

    ended = attack(attacked, "-o", f"SendEnv={' '.join(sent)}", command="env")
    by_asyncssh = request(attacked, lambda connection: connection.run("env", env=sent))

    assert isinstance(by_asyncssh, asyncssh.SSHCompletedProcess)
    for told in (ended.stdout.decode(), str(by_asyncssh.stdout)):
        assert f"{RUN_ID_VARIABLE}=run-7\n" in told
        assert "evil" not in told
        assert "LAB_ANY" not in told


def test_no_terminal_is_given(attacked: ServedAlone) -> None:
    """MPI needs none; the client that insists on one is told so and runs nothing."""
    ended = attack(attacked, "-tt", command="echo ran")

    assert b"PTY allocation request failed" in ended.stderr
    assert (ended.returncode, ended.stdout) == (255, b"")
    if attacked.backend == "builtin":
        attacked.wait_for_refusal(NO_TERMINAL)


def test_a_shell_is_refused_by_the_builtin_server(attacked: ServedAlone) -> None:
    """The client is told so, and it is no success; OpenSSH's sshd gives one, without a terminal."""
    ended = dial(OPENSSH_CLIENT, attacked.config, NAME, data=b"echo ran\n")

    if attacked.backend == "builtin":
        assert (ended.returncode, ended.stdout) == (1, b"")
        assert b"runs commands, nothing else" in ended.stderr
        attacked.wait_for_refusal(NO_SHELL)
    else:
        assert ended.stdout == b"ran\n"


def test_who_came_in_is_told_with_the_key(attacked: ServedAlone) -> None:
    """By the fingerprint that `ssh-keygen -l` shows."""
    fingerprint = asyncssh.read_private_key(attacked.key).get_fingerprint()
    before = len(attacked.told("LoginAccepted"))

    assert attack(attacked).returncode == 0

    wait_until("it is told", lambda: len(attacked.told("LoginAccepted")) > before)
    told = attacked.told("LoginAccepted")[-1]
    assert (told["user"], told["key_fingerprint"]) == (attacked.user, fingerprint)
    assert told["peer"].startswith("127.")


def test_no_key_material_is_told_or_shown(attacked: ServedAlone) -> None:
    """Neither in events, nor on stderr, nor in the arguments of a process, after all of this."""
    attack(attacked)
    private = attacked.key.read_text() + (attacked.directory / "host_key").read_text()
    lines = {line for line in private.splitlines() if len(line) > 20 and "-----" not in line}
    server = psutil.Process(attacked.popen.pid)
    arguments = [
        word for process in (server, *server.children(recursive=True)) for word in cmdline(process)
    ]
    seen = "\n".join(
        (
            (attacked.directory / "events").read_text(),
            (attacked.directory / "stderr").read_text(),
            *arguments,
        )
    )

    assert "PRIVATE KEY" not in seen
    assert not [line for line in lines if line in seen]
    assert (attacked.directory / "stderr").read_text() == ""


def cmdline(process: psutil.Process) -> list[str]:
    """Return the arguments of a process that may be gone."""
    with contextlib.suppress(psutil.Error):
        return process.cmdline()
    return []
