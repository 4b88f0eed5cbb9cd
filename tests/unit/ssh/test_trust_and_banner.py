"""Texts for ssh, and reading what a port says."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import asyncssh
import pytest

from mpi_agent.ssh.banner import NotSshError, find_banner
from mpi_agent.ssh.trust import (
    SshTarget,
    SshTerms,
    cheap_key_exchanges,
    fingerprint_of,
    fingerprints_in,
    host_key_alias,
    principals_of,
    render_known_hosts,
    render_ssh_config,
)

TERMS = SshTerms(
    key_path="/run/mpi agent/job_key",
    known_hosts_path="/run/mpi-agent/known_hosts",
    user="mpiuser",
    checks_host_keys=True,
)


def test_one_line_of_known_hosts_stands_for_every_worker() -> None:
    """A certificate signed by the job's key, or the job's key itself; nothing else."""
    assert render_known_hosts("ecdsa-sha2-nistp521 AAAA job") == (
        "@cert-authority * ecdsa-sha2-nistp521 AAAA\n* ecdsa-sha2-nistp521 AAAA\n"
    )


def test_every_host_has_its_port_and_alias_in_front_of_the_common_part() -> None:
    """Ssh takes the first value that it meets."""
    text = render_ssh_config(
        TERMS,
        (
            SshTarget(name="w-0.pi.default.svc", port=2222),
            SshTarget(name="local-0", port=4022, address="127.9.9.1"),
        ),
    )

    assert text.index("Host w-0.pi.default.svc\n  Port 2222\n  HostKeyAlias w-0\n") < text.index(
        "Host *"
    )
    assert "Host local-0\n  Port 4022\n  HostKeyAlias local-0\n  HostName 127.9.9.1\n" in text
    for line in (
        "BatchMode yes",
        "IdentitiesOnly yes",
        'IdentityFile "/run/mpi agent/job_key"',
        "StrictHostKeyChecking yes",
        "PreferredAuthentications publickey",
        "ConnectTimeout 10",
    ):
        assert f"  {line}\n" in text
    assert text.index("ConnectTimeout 10") < text.index("Include /etc/ssh/ssh_config")


@pytest.mark.parametrize(
    ("own", "interval_s"), [("", 5), ("Host other\n  User x\n", 5), ("ServerAliveInterval 77", 77)]
)
def test_a_silent_host_is_given_up_unless_the_users_configuration_says_when(
    own: str, interval_s: int, tmp_path: Path
) -> None:
    """By both clients; the image's and the account's own files stand in front of these lines."""
    (tmp_path / "own").write_text(own)
    (tmp_path / "ours").write_text(
        render_ssh_config(replace(TERMS, own_config_path=str(tmp_path / "own")), ())
    )

    read = asyncssh.SSHClientConnectionOptions(
        config=[tmp_path / "ours"], host="a", client_keys=None, known_hosts=None
    )

    assert (read.keepalive_interval, read.keepalive_count_max) == (interval_s, 3)


def test_a_host_that_may_be_silent_for_ever_is_not_given_up_by_ssh() -> None:
    """And for a minute if that is what the user says."""
    never = render_ssh_config(replace(TERMS, worker_timeout_s=None), ())
    minute = render_ssh_config(replace(TERMS, worker_timeout_s=60.0), ())

    assert "ServerAlive" not in never
    assert "  ServerAliveInterval 20\n  ServerAliveCountMax 3\n" in minute


def test_every_ssh_of_the_job_sends_the_runs_id() -> None:
    """The launcher's and the workers', which have the same text; and nothing else."""
    sent = [line for line in render_ssh_config(TERMS, ()).splitlines() if "SendEnv" in line]

    assert sent == ["  SendEnv MPI_AGENT_RUN_ID"]


def test_the_cheap_key_exchange_stands_before_the_clients_own() -> None:
    """And before the image's configuration, for ssh takes the first value; unless unwanted."""
    terms = replace(TERMS, key_exchanges=("mlkem768x25519-sha256", "curve25519-sha256"))
    text = render_ssh_config(terms, ())

    line = "  KexAlgorithms ^mlkem768x25519-sha256,curve25519-sha256\n"
    assert text.index(line) < text.index("Include /etc/ssh/ssh_config")
    assert "KexAlgorithms" not in render_ssh_config(TERMS, ())


def test_a_port_for_every_host_stands_behind_those_of_the_targets() -> None:
    """A worker does not know the others, only that they listen where it does."""
    text = render_ssh_config(replace(TERMS, port=2222), (SshTarget(name="a", port=22),))

    assert text.index("Host a\n  Port 22\n") < text.index("Host *\n  Port 2222\n  User mpiuser\n")
    assert "Port" not in render_ssh_config(TERMS, ())


@pytest.mark.parametrize(
    ("allowed", "chosen"),
    [
        (("sntrup761x25519-sha512", "curve25519-sha256"), ("curve25519-sha256",)),
        (
            ("curve25519-sha256", "mlkem768x25519-sha256"),
            ("mlkem768x25519-sha256", "curve25519-sha256"),
        ),
        (("ecdh-sha2-nistp256",), ()),
        ((), ()),
    ],
    ids=["OpenSSH 9.2", "OpenSSH 10.0", "a policy without them", "no OpenSSH"],
)
def test_only_key_exchanges_that_the_image_allows_are_preferred(
    allowed: tuple[str, ...], chosen: tuple[str, ...]
) -> None:
    """A system-wide policy, as of FIPS, is the user's word."""
    assert cheap_key_exchanges(allowed) == chosen


ED25519 = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIK0wmN/Cr3JXqmLW7u+g9pTh+wyqDHpSQEIQczXkVx9q"
ED25519_FINGERPRINT = "SHA256:FHsTyFHNmvNpw4o7+rp+M1yqMyBF8vXSBRkZtkQ0RKY"


def test_a_fingerprint_is_the_one_that_ssh_keygen_prints() -> None:
    """So that the launcher's, the worker's and a human's can be compared."""
    assert fingerprint_of(ED25519) == ED25519_FINGERPRINT
    assert fingerprint_of(f"{ED25519} job") == ED25519_FINGERPRINT


def test_each_key_of_a_file_is_told_once() -> None:
    """Options, comments, repetitions and nonsense in it do not matter."""
    text = (
        f"# {ED25519}\n\n{ED25519} job\n"
        f'from="10.0.0.0/8",command="ssh-add a" {ED25519}\nssh-rsa nonsense!\nssh-rsa\n'
    )

    assert fingerprints_in(text) == (ED25519_FINGERPRINT,)
    assert fingerprints_in("") == ()


def test_a_worker_answers_to_every_form_of_its_name() -> None:
    """The launcher may know the pod by any of them; no wildcard is needed."""
    names = principals_of(("pi-worker-0", "pi-worker-0.pi.default"), ("10.0.0.7",))

    assert names == ("pi-worker-0", "pi-worker-0.pi", "pi-worker-0.pi.default", "10.0.0.7")


@pytest.mark.parametrize(
    ("name", "alias"),
    [("w-0.pi.default.svc", "w-0"), ("w-0", "w-0"), ("10.0.0.7", "10.0.0.7")],
)
def test_a_host_key_is_checked_under_the_first_label(name: str, alias: str) -> None:
    """It is what a pod knows of itself without any DNS."""
    assert host_key_alias(name) == alias


@pytest.mark.parametrize(
    ("received", "banner"),
    [
        (b"SSH-2.0-OpenSSH_9.2p1\r\n", "SSH-2.0-OpenSSH_9.2p1"),
        (b"welcome\r\nSSH-2.0-x\n", "SSH-2.0-x"),
        (b"SSH-2.0-Open", None),
        (b"", None),
    ],
)
def test_a_banner_is_found_once_its_line_is_complete(received: bytes, banner: str | None) -> None:
    """RFC 4253 allows other lines in front of it."""
    assert find_banner(received) == banner


@pytest.mark.parametrize("received", [b"HTTP/1.1 400 Bad Request\r\n", b"x" * 9000])
def test_what_is_not_ssh_is_told_at_once(received: bytes) -> None:
    """A web server or a megabyte of something is no ssh server that is still starting."""
    with pytest.raises(NotSshError):
        find_banner(received)


def test_every_login_leaves_a_mark_named_after_its_host() -> None:
    """Nothing else tells whom mpirun dialled; %n is the host as mpirun called it."""
    text = render_ssh_config(replace(TERMS, marks_directory="/run/mpi-agent/100%/marks"), ())

    assert "  PermitLocalCommand yes\n" in text
    command = next(line for line in text.splitlines() if line.startswith("  LocalCommand "))
    assert command.endswith(">/run/mpi-agent/100%%/marks/%n")
    assert "LocalCommand" not in render_ssh_config(TERMS, ())


def test_a_directory_of_marks_with_a_quote_is_quoted() -> None:
    """The shell that runs the command would end at it otherwise."""
    text = render_ssh_config(replace(TERMS, marks_directory="/tmp/a'b"), ())

    assert """LocalCommand test -d '/tmp/a'"'"'b' && : >'/tmp/a'"'"'b'/%n""" in text


def test_the_users_own_options_stand_in_front_of_all_of_ours() -> None:
    """Ssh takes the first value that it meets, so the user's -p and -i win."""
    own = (("Port", "222"), ("IdentityFile", "/k"), ("LogLevel", "DEBUG1"))
    text = render_ssh_config(replace(TERMS, own_options=own), (SshTarget(name="a", port=22),))

    lines = text.splitlines()
    assert lines[1:5] == ["Port 222", "IdentityFile /k", "LogLevel DEBUG1", "Host a"]
    assert text.index("LogLevel DEBUG1") < text.index("LogLevel ERROR")
