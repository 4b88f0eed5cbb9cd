"""A user's ssh arguments, read into lines of ssh_config.

Launchers split such arguments at blanks and know no quotes, and Open MPI 5 cuts them at `=` on the
way to its daemons, so all that can be said in a file goes there; only `-F FILE` and what no file
can say stay arguments.

Source: ssh(1) and ssh_config(5) of OpenSSH 9.2; Open MPI 5.0.11, measured 2026-11.
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["SshArguments", "read_ssh_arguments"]

_KEYWORD_OF_OPTION = {
    "b": "BindAddress",
    "B": "BindInterface",
    "c": "Ciphers",
    "E": "",
    "F": "Include",
    "i": "IdentityFile",
    "I": "PKCS11Provider",
    "J": "ProxyJump",
    "l": "User",
    "m": "MACs",
    "p": "Port",
}
"""Options with a value; no keyword: it stays an argument."""

_KEYWORD_OF_SWITCH = {
    "4": ("AddressFamily", "inet"),
    "6": ("AddressFamily", "inet6"),
    "a": ("ForwardAgent", "no"),
    "A": ("ForwardAgent", "yes"),
    "C": ("Compression", "yes"),
    "q": ("LogLevel", "QUIET"),
    "v": ("LogLevel", "DEBUG1"),
    "x": ("ForwardX11", "no"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class SshArguments:
    """What the arguments ask for.

    Attributes:
        options: keyword and value, for ssh_config, in the order given.
        rest: what no file can say.
    """

    options: tuple[tuple[str, str], ...] = ()
    rest: tuple[str, ...] = ()


def read_ssh_arguments(text: str) -> SshArguments:
    """Return what ssh arguments say, split at blanks as the launchers do."""
    words = text.split()
    options: list[tuple[str, str]] = []
    rest: list[str] = []
    at = 0
    while at < len(words):
        found, used = _read_one(words, at)
        if found is None:
            rest += words[at : at + used]
        else:
            options.append(found)
        at += used
    return SshArguments(options=tuple(options), rest=tuple(rest))


def _read_one(words: list[str], at: int) -> tuple[tuple[str, str] | None, int]:
    """Return one keyword with its value, None for what stays, and how many words it took."""
    word = words[at]
    letter = word[1:2]
    if not word.startswith("-") or not letter:
        return None, 1
    value, used = (word[2:], 1) if len(word) > 2 else ("".join(words[at + 1 : at + 2]), 2)
    if letter == "o":
        return _assignment(value), used
    if _KEYWORD_OF_OPTION.get(letter):
        return ((_KEYWORD_OF_OPTION[letter], value) if value else None), used
    if letter in _KEYWORD_OF_OPTION:
        return None, used
    if len(word) == 2 and letter in _KEYWORD_OF_SWITCH:
        return _KEYWORD_OF_SWITCH[letter], 1
    return None, 1


def _assignment(text: str) -> tuple[str, str] | None:
    """Return `Keyword=value` as a pair, None where it is no such thing."""
    keyword, equals, value = text.partition("=")
    return (keyword, value) if equals and keyword.isalnum() and value else None
