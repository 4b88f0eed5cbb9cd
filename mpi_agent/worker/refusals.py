"""Why somebody was refused, in words that are the same whichever ssh server refused."""

from __future__ import annotations

__all__ = [
    "ANOTHER_AUTHORITY",
    "BROKEN_PROTOCOL",
    "NO_COMMON",
    "NO_KEY",
    "NO_SHELL",
    "NO_TERMINAL",
    "ONLY_COMMANDS",
    "TOO_LATE",
    "TOO_MANY_ATTEMPTS",
    "TOO_MANY_WAITING",
    "USER_NOT_ALLOWED",
    "another_key",
    "forwarding",
    "no_common",
    "no_subsystem",
    "only_user",
]

NO_KEY = "it showed no key, and nothing else is taken"
ANOTHER_AUTHORITY = "its certificate is of an authority that may not sign for this worker"
USER_NOT_ALLOWED = "there is no such user, or it may not log in here"
TOO_MANY_ATTEMPTS = "too many attempts"
TOO_MANY_WAITING = "too many clients were connected that had not logged in"
TOO_LATE = "it did not log in in time"
BROKEN_PROTOCOL = "it broke the ssh protocol"
NO_COMMON = "no common algorithm"
NO_SHELL = "a shell without a command is not offered"
NO_TERMINAL = "a terminal is not offered"
ONLY_COMMANDS = "this server runs commands, nothing else"
"""Told to a client that logs in without a command."""


def another_key(fingerprint: str) -> str:
    """Return that a key is not one of those that may log in."""
    return f"its key is not known here: {fingerprint}"


def only_user(name: str) -> str:
    """Return that one account may log in, and it was not this one."""
    return f'only the user "{name}" may log in here'


def no_common(what: str, offer: str) -> str:
    """Return that client and server share no algorithm of a kind.

    Args:
        what: such as `cipher`.
        offer: the client's list.
    """
    return f"{NO_COMMON}: of {what} it offers {offer}"


def forwarding(what: str) -> str:
    """Return that nothing is forwarded, and what should have been."""
    return f"nothing is forwarded here, so not {what}"


def no_subsystem(name: str) -> str:
    """Return that subsystems are not offered, and which one was asked for."""
    return f'there is no subsystem "{name}" here'
