"""sshd's log as events, on lines that real sshds wrote while real clients did these things."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from mpi_agent.job.events import Event
from mpi_agent.job.worker_events import LoginAccepted, LoginRefused, SshServerSpoke
from mpi_agent.worker.refusals import (
    ANOTHER_AUTHORITY,
    NO_COMMON,
    NO_KEY,
    TOO_LATE,
    TOO_MANY_ATTEMPTS,
    TOO_MANY_WAITING,
    USER_NOT_ALLOWED,
)
from mpi_agent.worker.sshd_log import SshdLog

RECORDED = {
    path.stem: path.read_text() for path in (Path(__file__).parent / "sshd_logs").glob("*.log")
}
ACCEPTED = "accepted root SHA256:"
ANOTHER_KEY = "root: its key is not known here: SHA256:"
UNKNOWN_USER = f"x from 9.9.9.9 port 1 ssh2: {USER_NOT_ALLOWED}"
TOLD = {
    "start": (),
    "good": (ACCEPTED,),
    "env": (ACCEPTED,),
    "otherkey": (ANOTHER_KEY,),
    "manykeys": (f"root: {TOO_MANY_ATTEMPTS}",),
    "sixteen": (f"root: {TOO_MANY_ATTEMPTS}",),
    "cert": (f"root: {ANOTHER_AUTHORITY}",),
    "cert-weird": (f"root: {ANOTHER_AUTHORITY}",),
    "otheruser": ('daemon: only the user "root" may log in here',),
    "two-users": ('daemon: only the user "root" may log in here',),
    "nosuchuser": (f"nosuchuser: {USER_NOT_ALLOWED}",),
    "raw-password-weird": (UNKNOWN_USER,),
    "key-weird": (UNKNOWN_USER,),
    "locked": ("locked-user: its account is locked",),
    "noshell": ("shell-less: its shell /no/such/shell does not exist",),
    "password": (f"root: {NO_KEY}",),
    "kbdint": (f"root: {NO_KEY}",),
    "none": (f"root: {NO_KEY}",),
    "raw-password": (f"root: {NO_KEY}",),
    "raw-kbdint": (f"root: {NO_KEY}",),
    "raw-none": (f"root: {NO_KEY}",),
    "local-forward": (ACCEPTED, "root: nothing is forwarded here, so not to 127.0.0.1 port 22"),
    "dynamic": (ACCEPTED, "root: nothing is forwarded here, so not to 127.0.0.1 port 22"),
    "unix-local": (ACCEPTED, "root: nothing is forwarded here, so not to /run/docker.sock"),
    "remote-forward": (ACCEPTED,),
    "unix-remote": (ACCEPTED,),
    "tun": (ACCEPTED,),
    "x11": (ACCEPTED,),
    "agent": (ACCEPTED,),
    "sftp": (ACCEPTED, 'root: there is no subsystem "sftp" here'),
    "netconf": (ACCEPTED, 'root: there is no subsystem "netconf" here'),
    "shell": (ACCEPTED,),
    "signal": (ACCEPTED,),
    "killed-client": (ACCEPTED,),
    "stopped-client": (ACCEPTED, "spoke Read error from remote host 127.0.0.1 port"),
    "noalg": (f": {NO_COMMON}: of cipher it offers aes128-cbc",),
    "nokex": (f": {NO_COMMON}: of key exchange method it offers diffie-hellman-group14-sha1",),
    "nomac": (f": {NO_COMMON}: of MAC it offers hmac-md5",),
    "nohostkeyalg": (f": {NO_COMMON}: of host key type it offers ecdsa-sha2-nistp256",),
    "garbage": (),
    "garbage2": (),
    "garbage3": (": it broke the ssh protocol: message authentication code incorrect",),
    "oldproto": (),
    "banner-close": (),
    "banner-version-close": (),
    "missing": (ANOTHER_KEY,),
    "hup": (),
    "strict": (
        "spoke Authentication refused: bad ownership or modes for directory /run/mpi-agent",
        ANOTHER_KEY,
    ),
    "strictfile": (
        "spoke Authentication refused: bad ownership or modes for file /run/mpi-agent/authorized",
        ANOTHER_KEY,
    ),
    "sshd-killed": (),
    "term": (),
}


def cases_of(recorded: str) -> dict[str, list[str]]:
    """Return the lines of each case."""
    parts = re.split(r"(?m)^### (.*)\n", recorded)[1:]
    return {name: text.splitlines() for name, text in zip(parts[::2], parts[1::2], strict=True)}


def told_by(lines: list[str]) -> list[str]:
    """Return the events of some lines, in short."""
    log = SshdLog("root")
    return [short(event) for line in lines if (event := log.read(line)) is not None]


def short(event: Event) -> str:
    """Return an event as one string; every client of the recordings came from one address."""
    match event:
        case LoginAccepted(user=user, peer="127.0.0.1", key_fingerprint=key):
            return f"accepted {user} {key}"
        case LoginRefused(user=user, peer="127.0.0.1", why=why):
            return f"{user}: {why}"
        case SshServerSpoke(line=line):
            return f"spoke {line}"
    raise AssertionError(event)


@pytest.mark.parametrize("version", sorted(RECORDED))
@pytest.mark.parametrize("name", TOLD)
def test_every_connection_is_told_once_and_why(version: str, name: str) -> None:
    """Each of these was done to a real sshd; what is refused without a word is in the table too."""
    told = told_by(cases_of(RECORDED[version])[name])

    assert len(told) == len(TOLD[name]), told
    assert all(said.startswith(start) for said, start in zip(told, TOLD[name], strict=True)), told


def test_there_are_recordings_of_both_families() -> None:
    """Since 9.8 another program writes most of the lines."""
    assert sorted(RECORDED) == ["openssh-10.0", "openssh-9.2"]


@pytest.mark.parametrize("version", sorted(RECORDED))
def test_nothing_is_lost_when_connections_come_mixed(version: str) -> None:
    """The first line of each, then the second of each, and so on: each still has its own reason."""
    names = ("good", "otherkey", "cert", "nosuchuser", "raw-none", "noalg", "manykeys")
    cases = [cases_of(RECORDED[version])[name] for name in names]
    mixed = [case[n] for n in range(max(map(len, cases))) for case in cases if n < len(case)]

    apart = [said for case in cases for said in told_by(case)]

    assert sorted(told_by(mixed)) == sorted(apart)


def test_a_client_that_takes_too_long_is_told_where_sshd_tells_it() -> None:
    """Debian's 9.2 says nothing, to be safe in a signal handler."""
    assert f": {TOO_LATE}" in told_by(cases_of(RECORDED["openssh-10.0"])["hang"])


@pytest.mark.parametrize("version", sorted(RECORDED))
def test_a_client_without_room_is_told(version: str) -> None:
    """Both versions say it in words of their own."""
    assert f": {TOO_MANY_WAITING}" in told_by(cases_of(RECORDED[version])["maxstartups"])


@pytest.mark.parametrize("version", sorted(RECORDED))
@pytest.mark.parametrize("name", ["cert-weird", "raw-password-weird", "key-weird"])
def test_a_client_cannot_come_from_an_address_that_it_writes(version: str, name: str) -> None:
    """Names of users and comments of certificates are the client's own words."""
    log = SshdLog("root")

    events = [log.read(line) for line in cases_of(RECORDED[version])[name]]

    assert {event.peer for event in events if isinstance(event, LoginRefused)} == {"127.0.0.1"}


def test_a_login_is_understood_without_the_line_that_opens_it() -> None:
    """With LogLevel INFO, or after thousands of others, it was not seen."""
    line = "Accepted publickey for root from 10.0.0.1 port 7 ssh2: ED25519 SHA256:x"

    assert SshdLog("root").read(line) == LoginAccepted(
        user="root", peer="10.0.0.1", key_fingerprint="SHA256:x"
    )


def test_an_address_may_be_of_the_other_family() -> None:
    """Pods of a cluster may have IPv6 addresses alone."""
    log = SshdLog("root")
    log.read('Connection from fd00::7 port 40000 on fd00::1 port 2222 rdomain ""')
    log.read("Failed publickey for root from fd00::7 port 40000 ssh2: RSA SHA256:x")

    told = log.read("Connection closed by authenticating user root fd00::7 port 40000 [preauth]")

    assert told == LoginRefused(
        user="root", peer="fd00::7", why="its key is not known here: SHA256:x"
    )


def test_who_asks_in_vain_is_named_only_where_it_is_certain() -> None:
    """The log does not say which of the sessions it was."""
    log = SshdLog("root")
    for number in (1, 2):
        log.read(f"Accepted publickey for root from 10.0.0.{number} port 7 ssh2: RSA SHA256:x")

    told = log.read("subsystem request for sftp by user root failed, subsystem not found")

    assert isinstance(told, LoginRefused)
    assert told.peer == ""


@pytest.mark.parametrize(
    "line",
    [
        "send_error: write: Broken pipe",
        "kex_exchange_identification: read: Connection reset by peer",
        "Connection reset by 127.0.0.1 port 39306",
        "ssh_packet_send_debug: send DEBUG: Broken pipe",
    ],
)
def test_a_probe_that_does_not_wait_for_an_answer_is_not_told(line: str) -> None:
    """Lines of OpenSSH 9.2 when sixty clients closed at once after they wrote."""
    assert SshdLog("root").read(line) is None


def test_what_is_not_known_is_kept_word_for_word() -> None:
    """A newer sshd may say what nobody here has seen."""
    line = "fatal: something new happened to 10.0.0.1 port 5"

    assert SshdLog("root").read(line) == SshServerSpoke(line=line)


def test_what_is_remembered_has_a_bound() -> None:
    """Anybody who can reach the port could make it grow."""
    log = SshdLog("root")
    for port in range(10_000):
        log.read(f'Connection from 10.0.0.1 port {port} on 10.0.0.2 port 22 rdomain ""')
        log.read(f"User u{port} from 10.0.0.1 not allowed because not listed in AllowUsers")

    assert log.remembered < 10_000
