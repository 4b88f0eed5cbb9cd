"""The user's own sshd arguments, as operators inject them: `-De -f FILE`, `-p 2222`, `-o Port=22`.

What does not contradict the agent's set-up is used: the port, an address, limits, a chattier log,
further keys. What would loosen or replace the set-up (host keys, logins, forwarding, sessions) is
named and not used. A configuration file is read in the same way, up to its first Match block.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

__all__ = ["DEFAULT_PORT", "SshdWishes", "expand_key_file", "read_sshd_arguments"]

DEFAULT_PORT = 2222
_WITH_VALUE = frozenset("CEbcfghkopu")
_QUIET = frozenset("46Ddeqi")
_OURS_ANYWAY = frozenset({"usepam", "pidfile", "strictmodes", "usedns", "printmotd"})
_EVERY_ADDRESS = frozenset({"0.0.0.0", "::", "[::]", "*"})

_TIME = r"(\d+[smhdwSMHDW]?)+"
_TAKEN_AS_IT_IS = {
    "MaxStartups": r"\d+(:\d+:\d+)?",
    "MaxSessions": r"\d+",
    "LoginGraceTime": _TIME,
    "ClientAliveInterval": _TIME,
    "ClientAliveCountMax": r"\d+",
    "LogLevel": r"(?i:VERBOSE|DEBUG[123]?)",
}
"""Directives of the user's that stand before ours, each with the values that sshd takes.

A quieter log would hide who logged in and who was refused.

Source: sshd_config(5) of OpenSSH 9.2.
"""

_TAKEN = {keyword.lower(): keyword for keyword in _TAKEN_AS_IT_IS}


@dataclass(frozen=True, slots=True, kw_only=True)
class SshdWishes:
    """What the user's arguments, and the file that they name, ask for and get.

    Attributes:
        port: None when nothing names one.
        listen_address: None when nothing names one.
        directives: keyword and value, for sshd_config as they are.
        key_files: further files of authorized keys, as sshd_config writes them.
        notes: a sentence for each thing that is not used.
    """

    port: int | None = None
    listen_address: str | None = None
    directives: tuple[tuple[str, str], ...] = ()
    key_files: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


def read_sshd_arguments(arguments: tuple[str, ...], read: Callable[[str], str]) -> SshdWishes:
    """Return what sshd arguments ask for; never fails, because sshd itself is not given them.

    -p wins over -o, the first -o over the next, and all of them over the file.

    Args:
        read: returns the text of a file; raises OSError when it cannot.

    Source: sshd(8) of OpenSSH 9.2, getopt string "C:E:b:c:f:g:h:k:o:p:u:46DQRTdeiqrtV".
    """
    wishes = _Wishes()
    config_file: str | None = None
    options = _split_options(arguments)
    for value in (value for letter, value in options if letter == "p"):
        if not wishes.take("port", value):
            wishes.notes.append(f"sshd argument -p {value} is not used")
    for letter, value in options:
        if letter == "f":
            config_file = value
        elif letter == "o":
            keyword, text = _split_directive(value)
            if not wishes.take(keyword, text) and keyword not in _OURS_ANYWAY:
                wishes.notes.append(f"sshd option {value} is not used{_why_not(keyword)}")
        elif letter != "p" and letter not in _QUIET:
            shown = f"-{letter} {value}".rstrip() if len(letter) == 1 else letter
            wishes.notes.append(f"sshd argument {shown} is not used")
    if config_file is not None:
        wishes.take_file(config_file, read)
    return wishes.found()


class _Wishes:
    """Collects wishes; the first of a kind counts, as for sshd."""

    def __init__(self) -> None:
        self._taken: dict[str, str] = {}
        self.notes: list[str] = []

    def take(self, keyword: str, value: str) -> bool:
        """Return whether a directive is one that is used, with a value that makes sense."""
        if keyword == "listenaddress":
            return self._take_address(value)
        if keyword == "port":
            fits = _port_of(value) is not None
        elif keyword == "authorizedkeysfile":
            fits = value.lower() != "none"
        else:
            proper = _TAKEN.get(keyword)
            fits = proper is not None and bool(re.fullmatch(_TAKEN_AS_IT_IS[proper], value))
        if fits:
            self._taken.setdefault(keyword, value)
        return fits

    def _take_address(self, value: str) -> bool:
        address, port = _split_address(value)
        if port is not None:
            self._taken.setdefault("port of an address", port)
        if address in _EVERY_ADDRESS:
            address = ""
        return self._taken.setdefault("listenaddress", address) == address

    def take_file(self, path: str, read: Callable[[str], str]) -> None:
        """Take the directives of a configuration file; one note names all that are not used."""
        try:
            text = read(path)
        except OSError as error:
            why = error.strerror or str(error)
            self.notes.append(f'sshd configuration "{path}" cannot be read: {why}')
            return
        unused: dict[str, None] = {}
        for line in text.splitlines():
            keyword, value = _split_directive(line.strip())
            if keyword == "match":
                unused[line.strip()] = None
                break
            if not keyword or keyword.startswith("#") or keyword in _OURS_ANYWAY:
                continue
            if not self.take(keyword, value):
                unused[line.split()[0].partition("=")[0]] = None
        if unused:
            self.notes.append(f'of sshd configuration "{path}" not used: {", ".join(unused)}')

    def found(self) -> SshdWishes:
        """Return all that was taken."""
        port = self._taken.get("port", self._taken.get("port of an address"))
        return SshdWishes(
            port=int(port) if port is not None else None,
            listen_address=self._taken.get("listenaddress") or None,
            directives=tuple(
                (proper, self._taken[keyword])
                for keyword, proper in _TAKEN.items()
                if keyword in self._taken
            ),
            key_files=tuple(self._taken.get("authorizedkeysfile", "").split()),
            notes=tuple(self.notes),
        )


def _why_not(keyword: str) -> str:
    reasons = {
        "hostkey": ": the agent makes its own, which the job's key vouches for",
        "loglevel": ": the agent has to hear who logs in",
    }
    return reasons.get(keyword, "; the agent's own configuration stands")


def expand_key_file(name: str, *, account: str, home: str) -> str:
    """Return the path of a file in AuthorizedKeysFile: below home unless it is absolute.

    Source: sshd_config(5) of OpenSSH 9.2, AuthorizedKeysFile: %h is the home directory, %u the
    account, %% a percent sign.
    """
    values = {"%h": home, "%u": account, "%%": "%"}
    path = re.sub("%[hu%]", lambda found: values[found[0]], name)
    return path if path.startswith("/") else f"{home.rstrip('/')}/{path}"


def _split_options(arguments: tuple[str, ...]) -> tuple[tuple[str, str], ...]:
    return tuple(_options(arguments))


def _options(arguments: tuple[str, ...]) -> Iterator[tuple[str, str]]:
    """Yield (letter, value) pairs the way getopt sees them: `-De -p22` is D, e, p with 22.

    A word that is no option stands in the letter's place.
    """
    rest = list(arguments)
    while rest:
        word = rest.pop(0)
        if not word.startswith("-") or word == "-":
            yield word, ""
            continue
        letters = word[1:]
        while letters:
            letter, letters = letters[0], letters[1:]
            value = ""
            if letter in _WITH_VALUE:
                value, letters = letters or (rest.pop(0) if rest else ""), ""
            yield letter, value


def _port_of(text: str) -> int | None:
    """Return a TCP port, None for what is none."""
    return int(text) if text.isdigit() and 0 < int(text) < 65536 else None


def _split_address(value: str) -> tuple[str, str | None]:
    """Return address and port of `ADDRESS`, `ADDRESS:PORT`, `[ADDRESS]` or `[ADDRESS]:PORT`."""
    value = value.split()[0] if value.split() else ""
    if match := re.fullmatch(r"\[([^]]+)](?::(\d+))?", value):
        return match[1], match[2]
    address, colon, port = value.rpartition(":")
    if colon and ":" not in address and _port_of(port):
        return address, port
    return value, None


def _split_directive(line: str) -> tuple[str, str]:
    """Return keyword, in lower case, and value of `Keyword value` or `Keyword=value`."""
    words = line.replace("=", " ", 1).split(None, 1)
    return (words[0].lower() if words else "", words[1].strip().strip('"') if words[1:] else "")
