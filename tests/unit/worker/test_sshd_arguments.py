"""What is taken from the user's own sshd arguments."""

from __future__ import annotations

import pytest

from mpi_agent.worker.sshd_arguments import SshdWishes, expand_key_file, read_sshd_arguments


def unreadable(path: str) -> str:
    """Stand in for a file that is not there."""
    raise FileNotFoundError(2, "No such file or directory", path)


def wishes(*arguments: str, file: str | None = None) -> SshdWishes:
    """Return what arguments ask for, with the text of every file that they name."""
    return read_sshd_arguments(arguments, unreadable if file is None else lambda _: file)


def test_arguments_that_the_operator_injects_are_accepted_without_a_word() -> None:
    """`/usr/sbin/sshd -De -f FILE` is in every published manifest."""
    text = "PidFile /home/mpiuser/sshd.pid\nUsePAM no\nStrictModes no\n# Port 22\n\n"

    assert wishes("-De", "-f", "/home/mpiuser/.sshd_config", file=text) == SshdWishes()


@pytest.mark.parametrize(
    "arguments",
    [("-p", "2022"), ("-p2022",), ("-Dep2022",), ("-o", "Port=2022"), ("-oPort 2022",)],
)
def test_port_is_found_in_every_spelling(arguments: tuple[str, ...]) -> None:
    """As getopt splits them."""
    assert wishes(*arguments).port == 2022


def test_dash_p_wins_over_dash_o_and_both_over_the_file() -> None:
    """As it does for sshd itself."""
    assert wishes("-o", "Port=22", "-p", "2022", "-f", "x", file="Port 24").port == 2022
    assert wishes("-f", "x", "-o", "Port=22", file="Port 24").port == 22


@pytest.mark.parametrize("port", ["0", "65536", "ssh", ""])
def test_port_that_is_none_is_named(port: str) -> None:
    """It is not used, and not silently."""
    read = wishes("-p", port)

    assert read.port is None
    assert "-p" in read.notes[0]


@pytest.mark.parametrize(
    "arguments",
    [
        ("-h", "/etc/ssh/key"),
        ("-o", "HostKey=/etc/ssh/key"),
        ("-o", "AllowTcpForwarding=yes"),
        ("-o", "ForceCommand=/bin/evil"),
        ("-o", "AuthorizedKeysFile=none"),
        ("-o", "MaxStartups=many"),
        ("-o", "LogLevel=QUIET"),
        ("-o", "LoginGraceTime=30\nPermitEmptyPasswords yes"),
        ("stray",),
    ],
)
def test_what_is_not_used_is_named(arguments: tuple[str, ...]) -> None:
    """The agent's own keys and logins stand, and a value that sshd would refuse stays out."""
    read = wishes(*arguments)

    assert read.directives == ()
    assert "is not used" in read.notes[0]
    assert arguments[-1] in read.notes[0]


def test_limits_and_a_chattier_log_are_used_as_they_are() -> None:
    """The first of a kind counts, as for sshd."""
    options = ("MaxStartups=10:30:100", "LoginGraceTime 2m", "loglevel=DEBUG1", "MaxStartups=5")

    read = wishes(*(word for option in options for word in ("-o", option)))

    assert read.notes == ()
    assert read.directives == (
        ("MaxStartups", "10:30:100"),
        ("LoginGraceTime", "2m"),
        ("LogLevel", "DEBUG1"),
    )


@pytest.mark.parametrize(
    ("value", "address", "port"),
    [
        ("10.0.0.1", "10.0.0.1", None),
        ("10.0.0.1:2022", "10.0.0.1", 2022),
        ("[fd00::1]:2022", "fd00::1", 2022),
        ("fd00::1", "fd00::1", None),
        ("0.0.0.0", None, None),
        ("::", None, None),
    ],
)
def test_address_is_used_with_its_port(value: str, address: str | None, port: int | None) -> None:
    """Every address is what sshd listens on anyway."""
    read = wishes("-o", f"ListenAddress={value}")

    assert (read.listen_address, read.port, read.notes) == (address, port, ())


def test_a_second_address_is_named() -> None:
    """A worker is dialled at one."""
    read = wishes("-o", "ListenAddress=10.0.0.1", "-o", "ListenAddress=10.0.0.2")

    assert read.listen_address == "10.0.0.1"
    assert "10.0.0.2 is not used" in read.notes[0]


def test_file_is_read_up_to_its_first_match_block() -> None:
    """What a block says holds for some logins only."""
    text = (
        "# x\nPORT\t2022\nPort 22\nMaxSessions 20\nSubsystem sftp internal-sftp\n"
        "X11Forwarding=yes\nMatch User git\n  MaxStartups 1\n"
    )

    read = wishes("-f", "/etc/ssh/sshd_config", file=text)

    assert read.port == 2022
    assert read.directives == (("MaxSessions", "20"),)
    assert read.notes == (
        'of sshd configuration "/etc/ssh/sshd_config" not used: Subsystem, X11Forwarding,'
        " Match User git",
    )


def test_file_that_is_missing_is_a_note() -> None:
    """The image may have lost it; 2222 still serves."""
    (note,) = wishes("-f", "/x").notes

    assert '"/x" cannot be read: No such file or directory' in note


def test_further_key_files_are_told_as_sshd_writes_them() -> None:
    """Several stand in one directive; a path is below home unless it is absolute."""
    read = wishes("-o", "AuthorizedKeysFile=.ssh/keys /etc/keys/%u")

    paths = [expand_key_file(name, account="mpi", home="/home/mpi") for name in read.key_files]
    assert paths == ["/home/mpi/.ssh/keys", "/etc/keys/mpi"]
    assert expand_key_file("%h/100%%", account="mpi", home="/") == "//100%"
