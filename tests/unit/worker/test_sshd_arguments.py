"""What is taken from the user's own sshd arguments."""

from __future__ import annotations

import pytest

from mpi_agent.worker.sshd_arguments import SshdArguments, choose_port, read_sshd_arguments


def unreadable(path: str) -> str:
    """Stand in for a file that is not there."""
    raise FileNotFoundError(2, "No such file or directory", path)


def test_arguments_that_the_operator_injects_are_accepted_without_a_word() -> None:
    """`/usr/sbin/sshd -De -f FILE` is in every published manifest."""
    read = read_sshd_arguments(("-De", "-f", "/home/mpiuser/.sshd_config"))

    assert read == SshdArguments(config_file="/home/mpiuser/.sshd_config")


@pytest.mark.parametrize(
    "arguments",
    [("-p", "2022"), ("-p2022",), ("-Dep2022",), ("-o", "Port=2022"), ("-oPort 2022",)],
)
def test_port_is_found_in_every_spelling(arguments: tuple[str, ...]) -> None:
    """As getopt splits them."""
    assert read_sshd_arguments(arguments).port == 2022


def test_dash_p_wins_over_dash_o() -> None:
    """As it does for sshd itself."""
    assert read_sshd_arguments(("-o", "Port=22", "-p", "2022")).port == 2022


@pytest.mark.parametrize("port", ["0", "65536", "ssh", ""])
def test_port_that_is_none_is_named(port: str) -> None:
    """It is not used, and not silently."""
    read = read_sshd_arguments(("-p", port))

    assert read.port is None
    assert "-p" in read.notes[0]


@pytest.mark.parametrize(
    "arguments", [("-h", "/etc/ssh/key"), ("-o", "HostKey=/etc/ssh/key"), ("stray",)]
)
def test_what_is_not_used_is_named(arguments: tuple[str, ...]) -> None:
    """The agent's own keys and logins stand."""
    (note,) = read_sshd_arguments(arguments).notes

    assert "is not used" in note
    assert arguments[-1] in note


def test_setting_wins_over_arguments_and_file() -> None:
    """--ssh-port is the agent's own word."""
    arguments = SshdArguments(port=2022, config_file="f")

    assert choose_port(2200, arguments, lambda _: "Port 22") == (2200, ())
    assert choose_port(None, arguments, lambda _: "Port 22") == (2022, ())


@pytest.mark.parametrize("text", ["# x\nPort 2022\nPort 22\n", "port=2022", "  PORT\t2022"])
def test_port_of_the_file_is_used(text: str) -> None:
    """The first one counts, in any case."""
    assert choose_port(None, SshdArguments(config_file="f"), lambda _: text) == (2022, ())


def test_file_that_is_missing_is_a_note() -> None:
    """The image may have lost it; 2222 still serves."""
    port, (note,) = choose_port(None, SshdArguments(config_file="/x"), unreadable)

    assert port == 2222
    assert '"/x" cannot be read: No such file or directory' in note


def test_port_is_2222_when_nobody_says_one() -> None:
    """Reachable for every uid."""
    assert choose_port(None, SshdArguments(), unreadable) == (2222, ())
