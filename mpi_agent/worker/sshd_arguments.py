"""The user's own sshd arguments, as operators inject them: `-De -f FILE`, `-p 2222`, `-o Port=22`.

Only the port is taken from them. What would loosen or replace the agent's own set-up (keys,
logins, forwarding) is named and not used.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

__all__ = ["DEFAULT_PORT", "SshdArguments", "choose_port", "read_sshd_arguments"]

DEFAULT_PORT = 2222
_WITH_VALUE = frozenset("CEbcfghkopu")
_OURS_ANYWAY = frozenset({"port", "usepam", "pidfile", "strictmodes"})
_QUIET = frozenset("46Ddeqi")


@dataclass(frozen=True, slots=True, kw_only=True)
class SshdArguments:
    """What the user's arguments say.

    Attributes:
        port: from -p, else from -o Port; None when neither is there.
        config_file: from -f, None without one.
        notes: a sentence for each argument that is not used.
    """

    port: int | None = None
    config_file: str | None = None
    notes: tuple[str, ...] = ()


def read_sshd_arguments(arguments: tuple[str, ...]) -> SshdArguments:
    """Return what sshd arguments ask for; never fails, because sshd itself is not given them.

    Source: sshd(8) of OpenSSH 9.2, getopt string "C:E:b:c:f:g:h:k:o:p:u:46DQRTdeiqrtV".
    """
    ports: dict[str, int] = {}
    config_file: str | None = None
    notes: list[str] = []
    for letter, value in _split_options(arguments):
        shown = f"-{letter} {value}".rstrip() if len(letter) == 1 else letter
        if letter == "f":
            config_file = value
        elif letter == "p" and (number := _port_of(value)):
            ports["p"] = number
        elif letter == "o":
            _read_directive(value, ports, notes)
        elif letter not in _QUIET:
            notes.append(f"sshd argument {shown} is not used")
    return SshdArguments(
        port=ports.get("p", ports.get("o")), config_file=config_file, notes=tuple(notes)
    )


def _split_options(arguments: tuple[str, ...]) -> list[tuple[str, str]]:
    """Return (letter, value) pairs the way getopt sees them: `-De -p22` is D, e, p with 22.

    A word that is no option stands in the letter's place.
    """
    found: list[tuple[str, str]] = []
    rest = list(arguments)
    while rest:
        word = rest.pop(0)
        if not word.startswith("-") or word == "-":
            found.append((word, ""))
            continue
        letters = word[1:]
        while letters:
            letter, letters = letters[0], letters[1:]
            value = ""
            if letter in _WITH_VALUE:
                value, letters = letters or (rest.pop(0) if rest else ""), ""
            found.append((letter, value))
    return found


def _read_directive(text: str, ports: dict[str, int], notes: list[str]) -> None:
    keyword, value = _split_directive(text)
    if keyword == "port" and (number := _port_of(value)):
        ports.setdefault("o", number)
    elif keyword not in _OURS_ANYWAY:
        notes.append(f"sshd option {text} is not used; the agent's own configuration stands")


def _port_of(text: str) -> int | None:
    """Return a TCP port, None for what is none."""
    return int(text) if text.isdigit() and 0 < int(text) < 65536 else None


def _split_directive(line: str) -> tuple[str, str]:
    """Return keyword, in lower case, and value of `Keyword value` or `Keyword=value`."""
    words = line.replace("=", " ", 1).split(None, 1)
    return (words[0].lower() if words else "", words[1].strip().strip('"') if words[1:] else "")


def choose_port(
    setting: int | None, arguments: SshdArguments, read: Callable[[str], str]
) -> tuple[int, tuple[str, ...]]:
    """Return the port to listen on, and notes: --ssh-port, -p, -o Port, the -f file's, 2222.

    Args:
        read: returns the text of a file; raises OSError when it cannot.
    """
    if (wanted := setting or arguments.port) is not None:
        return wanted, ()
    if arguments.config_file is None:
        return DEFAULT_PORT, ()
    try:
        text = read(arguments.config_file)
    except OSError as error:
        why = error.strerror or str(error)
        note = f'sshd configuration "{arguments.config_file}" cannot be read: {why}'
        return DEFAULT_PORT, (f"{note}; port {DEFAULT_PORT} is used",)
    for line in text.splitlines():
        keyword, value = _split_directive(line)
        if keyword == "port" and (number := _port_of(value)):
            return number, ()
    return DEFAULT_PORT, ()
