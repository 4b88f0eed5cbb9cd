"""Many clients at once, clients that hang, clients that speak nonsense, clients that vanish.

Both servers go through it. What differs is said where it does: OpenSSH's sshd leaves a command
running whose client is gone, and serves each client by processes of its own.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import resource
import socket
import subprocess
import time
from collections.abc import Iterator

import asyncssh
import psutil
import pytest

from mpi_agent.worker.refusals import BROKEN_PROTOCOL, TOO_LATE, TOO_MANY_WAITING
from tests.one_ssh_server import ServedAlone, running_server
from tests.waiting import wait_until
from tests.workers import LIMIT_S, OPENSSH_CLIENT, dial, open_directory, require_program

pytestmark = pytest.mark.integration

NAME = "pi-worker-0"
CROWD = 200
HANGING = 100
SOON_S = 10.0
"""How long a real login may take beside clients that hang, on top of ten times what it takes alone.

Alone it takes well under a second, and one that had to wait for them would wait for their limit.
"""


@pytest.fixture(params=["openssh", "builtin"])
def served(request: pytest.FixtureRequest) -> Iterator[ServedAlone]:
    """Give a fresh server of each kind."""
    with open_directory() as root, running_server(request.param, root) as server:
        yield server


def connect(
    served: ServedAlone,
) -> contextlib.AbstractAsyncContextManager[asyncssh.SSHClientConnection]:
    """Log in with the job's key."""
    return asyncssh.connect(
        served.address,
        served.port,
        username=served.user,
        client_keys=[str(served.key)],
        known_hosts=None,
        config=None,
        connect_timeout=LIMIT_S,
        login_timeout=4 * LIMIT_S,
    )


async def login_and_run(served: ServedAlone, command: str) -> int | None:
    """Return the exit code of a command."""
    async with connect(served) as connection:
        return (await connection.run(command)).exit_status


def log_in(served: ServedAlone) -> float:
    """Log in with the real client; return how long it took."""
    require_program("ssh")
    started_s = time.monotonic()
    ended = dial(OPENSSH_CLIENT, served.config, NAME, "exit 7")
    assert ended.returncode == 7, ended.stderr
    return time.monotonic() - started_s


@contextlib.contextmanager
def killed_at_the_end(process: psutil.Process) -> Iterator[None]:
    """Let nothing of a command outlive its test, however the test ends."""
    try:
        yield
    finally:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.kill()


@contextlib.contextmanager
def hanging(served: ServedAlone, count: int) -> Iterator[list[socket.socket]]:
    """Give clients that connect and say nothing."""
    _raise_open_files(count)
    with contextlib.ExitStack() as stack:
        clients = []
        for _ in range(count):
            client = socket.create_connection((served.address, served.port), timeout=LIMIT_S)
            clients.append(stack.enter_context(client))
        yield clients


def _raise_open_files(count: int) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = max(soft, 2 * count + 256)
    if hard != resource.RLIM_INFINITY and wanted > hard:
        pytest.skip(f"not allowed to open {wanted} files")
    resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def test_two_hundred_logins_at_once_all_end_well(served: ServedAlone) -> None:
    """As when a whole job dials one worker; each gets its own exit code."""
    _raise_open_files(CROWD)

    async def crowd() -> list[int | None]:
        logins = (login_and_run(served, f"exit {n % 200 + 1}") for n in range(CROWD))
        return await asyncio.gather(*logins)

    started_s = time.monotonic()
    codes = asyncio.run(crowd())

    print(f"{served.backend}: {CROWD} logins took {time.monotonic() - started_s:.1f} s")
    assert codes == [n % 200 + 1 for n in range(CROWD)]
    wait_until("each is told", lambda: len(served.told("LoginAccepted")) == CROWD)
    assert served.told("LoginRefused") == []


def test_clients_that_hang_in_the_banner_do_not_delay_a_login(served: ServedAlone) -> None:
    """A hundred of them, before anybody has said who he is."""
    alone_s = log_in(served)
    with hanging(served, HANGING):
        took_s = log_in(served)

    print(f"{served.backend}: a login beside {HANGING} that hang took {took_s:.2f} s")
    assert took_s < 10 * alone_s + SOON_S


def test_more_hanging_clients_than_there_is_room_for_keep_nobody_out() -> None:
    """The built-in server lets the longest silent one go; sshd would drop any that comes."""
    with open_directory() as root, running_server("builtin", root) as served:
        alone_s = log_in(served)
        with hanging(served, 1100):
            took_s = log_in(served)

        served.wait_for_refusal(TOO_MANY_WAITING)
        assert took_s < 10 * alone_s + SOON_S
        assert len(served.told("LoginAccepted")) == 2


def test_who_does_not_log_in_in_time_is_sent_away_and_told() -> None:
    """Debian 12's sshd sends away too, without a word in its log."""
    with open_directory() as root, running_server("builtin", root, login_limit_s=0.5) as served:
        with hanging(served, 1) as (client,):
            while client.recv(4096):
                pass

        served.wait_for_refusal(TOO_LATE)


@pytest.mark.parametrize(
    "nonsense",
    [
        b"GET / HTTP/1.0\r\n\r\n",
        b"\xff\xfe\x00\x01" * 2000,
        b"SSH-1.5-old\r\n",
        b"SSH-2.0-\xff\xff\r\n",
        b"SSH-2.0-x\r\n" + b"\xff" * 5000,
        b"SSH-2.0-x\r\n\x00\x00\x00\x0c\x0a\x14" + b"\x00" * 10,
        b"",
    ],
    ids=["http", "bytes", "old", "version", "packets", "kexinit", "nothing"],
)
def test_nonsense_ends_that_client_alone(served: ServedAlone, nonsense: bytes) -> None:
    """The server goes on, and says nothing on its own stderr."""
    with socket.create_connection((served.address, served.port), timeout=LIMIT_S) as client:
        client.sendall(nonsense)
        client.shutdown(socket.SHUT_WR)
        with contextlib.suppress(ConnectionError):
            while client.recv(4096):
                pass

    log_in(served)
    assert (served.directory / "stderr").read_text() == ""
    assert served.popen.poll() is None


def test_probes_of_the_port_are_not_told(served: ServedAlone) -> None:
    """One of TCP, one that reads the banner, one that speaks HTTP: they come for ever."""
    for said in (None, b"", b"GET / HTTP/1.0\r\n\r\n"):
        with socket.create_connection((served.address, served.port), timeout=LIMIT_S) as client:
            if said is not None:
                client.recv(4096)
                client.sendall(said)
    log_in(served)

    wait_until("the login is told", lambda: bool(served.told("LoginAccepted")))
    assert [event["event"] for event in served.events] == ["LoginAccepted"]


def test_nonsense_after_the_banner_is_told(served: ServedAlone) -> None:
    """That is no probe any more."""
    with socket.create_connection((served.address, served.port), timeout=LIMIT_S) as client:
        client.sendall(b"SSH-2.0-x\r\n" + b"\xff" * 5000)
        with contextlib.suppress(ConnectionError):
            while client.recv(4096):
                pass

    assert served.wait_for_refusal(BROKEN_PROTOCOL)["user"] == ""


def test_a_command_whose_client_vanished_is_ended_by_the_builtin_server(
    served: ServedAlone,
) -> None:
    """OpenSSH's sshd leaves it running, with its input at its end and its output to nobody.

    On a worker such commands are of a run, and end when the run's launcher is found to be gone.
    """
    require_program("ssh")
    with subprocess.Popen(
        ("ssh", "-F", str(served.config), NAME, "echo $$; exec sleep 600"),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
    ) as client:
        assert client.stdout is not None
        command = psutil.Process(int(client.stdout.readline()))
        client.kill()

    if served.backend == "builtin":
        wait_until("the command is gone", lambda: not command.is_running())
    else:
        with killed_at_the_end(command):
            log_in(served)
            assert command.is_running()


def test_a_command_that_prints_while_its_client_vanishes_is_ended_by_the_builtin_server(
    served: ServedAlone,
) -> None:
    """Though what it prints fails first, and it does not mind that nobody reads it."""
    require_program("ssh")
    endless = "trap '' PIPE; echo $$; while :; do echo more; echo more >&2; done 2>/dev/null"
    with subprocess.Popen(
        ("ssh", "-F", str(served.config), NAME, endless),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
    ) as client:
        assert client.stdout is not None
        command = psutil.Process(int(client.stdout.readline()))
        client.kill()

    if served.backend == "builtin":
        wait_until("the command is gone", lambda: not command.is_running())
        assert (served.directory / "stderr").read_text() == ""
    else:
        log_in(served)
        command.kill()


def test_a_daemon_that_left_its_session_survives_a_client_that_vanished(
    served: ServedAlone,
) -> None:
    """Open MPI 4's, which the launcher's ssh does not wait for."""
    require_program("ssh")
    with subprocess.Popen(
        ("ssh", "-F", str(served.config), NAME, "setsid sleep 600 & echo $!; sleep 600"),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
    ) as client:
        assert client.stdout is not None
        daemon = psutil.Process(int(client.stdout.readline()))
        with killed_at_the_end(daemon):
            wait_until("it has a session of its own", lambda: os.getsid(daemon.pid) == daemon.pid)
            client.kill()
            client.wait(LIMIT_S)
            log_in(served)

            assert daemon.is_running()


def test_a_client_that_does_not_read_is_waited_for_without_growing(served: ServedAlone) -> None:
    """A rank prints a gigabyte while mpirun is stopped: neither memory nor the others suffer."""

    async def stall() -> tuple[int, int]:
        async with connect(served) as connection:
            process = await connection.create_process(
                "head -c 1000000000 /dev/zero", encoding=None, window=1 << 16
            )
            before = _memory_of(served)
            assert await login_and_run(served, "exit 7") == 7
            first = await process.stdout.read(1000)
            after = _memory_of(served)
            process.close()
            return len(first), after - before

    read, grown_bytes = asyncio.run(stall())

    assert read == 1000
    print(f"{served.backend}: grew by {grown_bytes / 1e6:.1f} MB")
    assert grown_bytes < 50_000_000


def _memory_of(served: ServedAlone) -> int:
    process = psutil.Process(served.popen.pid)
    total = 0
    for one in (process, *process.children(recursive=True)):
        with contextlib.suppress(psutil.Error):
            total += int(one.memory_info().rss) if "ssh" in " ".join(one.cmdline()) else 0
    return total


def test_many_sessions_share_one_connection(served: ServedAlone) -> None:
    """A client that multiplexes; OpenSSH would refuse more than ten unless told otherwise."""

    async def run() -> list[int | None]:
        async with connect(served) as connection:
            ended = await asyncio.gather(*(connection.run(f"exit {n}") for n in range(1, 51)))
            return [one.exit_status for one in ended]

    assert asyncio.run(run()) == list(range(1, 51))


def test_signals_and_how_a_command_ended_pass_through() -> None:
    """A signal reaches the command though its input is not read; the client learns which it was.

    OpenSSH's sshd passes none on where it does not separate privileges, as for root: "session
    signalling requires privilege separation", 9.2. No launcher asks for it.
    """

    async def run(served: ServedAlone) -> tuple[str, bool, str, str] | None:
        async with connect(served) as connection:
            process = await connection.create_process("echo up; exec sleep 600", encoding=None)
            await process.stdout.readline()
            process.stdin.write(b"x" * 500_000)
            process.send_signal("TERM")
            ended = await asyncio.wait_for(process.wait(), LIMIT_S)
            return ended.exit_signal

    with open_directory() as root, running_server("builtin", root) as served:
        signal = asyncio.run(run(served))

    assert signal is not None
    assert signal[0] == "TERM"


def test_a_hundred_megabytes_pass_both_ways(served: ServedAlone) -> None:
    """At once, so that neither side may wait for the other to read first."""
    require_program("ssh")
    with subprocess.Popen(
        ("ssh", "-F", str(served.config), NAME, "cat; head -c 100000000 /dev/zero"),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as client:
        out, _ = client.communicate(b"\x01" * 50_000_000, timeout=4 * LIMIT_S)

    assert len(out) == 150_000_000
    assert out.count(b"\x01") == 50_000_000
