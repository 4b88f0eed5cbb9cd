"""A user's ssh arguments as lines of ssh_config."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mpi_agent.command.ssh_arguments import read_ssh_arguments

_LETTERS = "46aAbBcCDeEfFgGiIJkKlLmMnNoOpPqQRsStTvVwWxXyYz-"


@pytest.mark.parametrize(
    ("text", "option"),
    [
        ("-o ConnectTimeout=9", ("ConnectTimeout", "9")),
        ("-oConnectTimeout=9", ("ConnectTimeout", "9")),
        ("-o SetEnv=A=b", ("SetEnv", "A=b")),
        ("-p22", ("Port", "22")),
        ("-p 22", ("Port", "22")),
        ("-i /keys/id", ("IdentityFile", "/keys/id")),
        ("-i/keys/id", ("IdentityFile", "/keys/id")),
        ("-l mpiuser", ("User", "mpiuser")),
        ("-F /etc/mpi/ssh_config", ("Include", "/etc/mpi/ssh_config")),
        ("-J bastion", ("ProxyJump", "bastion")),
        ("-c aes128-ctr", ("Ciphers", "aes128-ctr")),
        ("-q", ("LogLevel", "QUIET")),
        ("-v", ("LogLevel", "DEBUG1")),
        ("-4", ("AddressFamily", "inet")),
        ("-6", ("AddressFamily", "inet6")),
        ("-C", ("Compression", "yes")),
    ],
)
def test_what_a_file_can_say_becomes_its_line(text: str, option: tuple[str, str]) -> None:
    """Launchers split arguments at blanks, and Open MPI 5 cuts them at `=`; a file bears both."""
    read = read_ssh_arguments(text)

    assert read.options == (option,)
    assert read.rest == ()


@pytest.mark.parametrize(
    "text",
    [
        "-o Port 22",
        "-o ConnectTimeout",
        "-o Port=",
        "-o 'Port=22'",
        "-vv",
        "-qx",
        "-E /tmp/log",
        "-S none",
        "-T",
        "-p",
        "-o",
        "-F",
        "-",
        "--",
        "host",
    ],
)
def test_what_no_file_can_say_stays_an_argument(text: str) -> None:
    """Unknown to us is not unknown to ssh, which has the last word about it."""
    read = read_ssh_arguments(text)

    assert read.options == ()
    assert read.rest == tuple(text.split())


def test_options_keep_their_order() -> None:
    """Ssh takes the first value that it meets."""
    read = read_ssh_arguments("-p 22 -T -o Port=2222 -q")

    assert read.options == (("Port", "22"), ("Port", "2222"), ("LogLevel", "QUIET"))
    assert read.rest == ("-T",)


_WORDS = st.one_of(
    st.text("abK=v1", min_size=1, max_size=4),
    st.builds(
        "-{}{}".format,
        st.sampled_from(_LETTERS),
        st.text("ab=1", max_size=3),
    ),
)


@given(words=st.lists(_WORDS, max_size=8))
def test_nothing_is_lost(words: list[str]) -> None:
    """Every word is found again, in a line for the file or among the arguments."""
    read = read_ssh_arguments(" ".join(words))

    said = "".join(value for _, value in read.options) + "".join(read.rest)
    for word in words:
        value = word[2:] if word.startswith("-") else word
        assert value.rpartition("=")[2] in said
    assert len(read.options) + len(read.rest) <= len(words)


@given(words=st.lists(_WORDS, max_size=8))
def test_what_stays_keeps_its_order(words: list[str]) -> None:
    """An option and its value stay beside each other."""
    rest = iter(words)

    assert all(word in rest for word in read_ssh_arguments(" ".join(words)).rest)


@given(words=st.lists(_WORDS, max_size=8))
def test_reading_what_stays_again_finds_no_less_of_it(words: list[str]) -> None:
    """No keyword or value that a file can carry has a blank or is empty."""
    for keyword, value in read_ssh_arguments(" ".join(words)).options:
        assert keyword.isalnum()
        assert value
        assert not value.split()[1:]
