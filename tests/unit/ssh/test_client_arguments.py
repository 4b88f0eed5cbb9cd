"""What the built-in client understands of ssh's arguments."""

from __future__ import annotations

import pytest

from mpi_agent.errors import SettingsError
from mpi_agent.ssh.client import ClientRequest, read_client_arguments


def test_arguments_of_open_mpi_are_read() -> None:
    """As Open MPI 5.0.11 calls its agent."""
    read = read_client_arguments(
        ("-x", "-F", "/run/c", "pi-worker-0", "PRTE_PREFIX=/usr;", "prted")
    )

    assert read == ClientRequest(
        host="pi-worker-0", command="PRTE_PREFIX=/usr; prted", config="/run/c"
    )


def test_options_become_lines_of_the_configuration() -> None:
    """The first value that ssh meets wins, so they stand before every file."""
    read = read_client_arguments(
        ("-o", "ConnectTimeout=9", "-oUser root", "-p2222", "-l", "me", "-i", "/k", "h", "true")
    )

    assert read.directives == (
        "ConnectTimeout 9",
        "User root",
        "Port 2222",
        "User me",
        "IdentityFile /k",
    )


def test_joined_letters_are_taken_apart() -> None:
    """`-xqT` is three options, `-qF FILE` ends with one that has a value."""
    read = read_client_arguments(("-xqT", "-qF", "c", "-n", "h", "true"))

    assert (read.config, read.reads_input, read.host) == ("c", False, "h")


def test_user_may_stand_before_the_host() -> None:
    """As in `ssh me@host`."""
    read = read_client_arguments(("me@h", "true"))

    assert (read.host, read.directives) == ("h", ("User me",))


def test_dashes_of_the_command_are_its_own() -> None:
    """Options end at the host."""
    assert read_client_arguments(("h", "orted", "-mca", "x", "1")).command == "orted -mca x 1"


@pytest.mark.parametrize("arguments", [(), ("-x",), ("h",), ("-F",), ("-p",), ("--", "h")])
def test_call_without_host_or_command_is_refused(arguments: tuple[str, ...]) -> None:
    """There is no login shell to offer."""
    with pytest.raises(SettingsError):
        read_client_arguments(arguments)
