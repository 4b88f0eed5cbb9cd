"""What a port says: finding the SSH identification string in what a server sends first."""

from __future__ import annotations

import socket

__all__ = ["NotSshError", "find_banner", "read_banner", "words_of_refusal"]

_LONGEST_PREAMBLE_BYTES = 8192
_REFUSALS = (b"Exceeded MaxStartups", b"Not allowed at this time")


class NotSshError(ValueError):
    """What came is not, and will not become, an SSH identification string."""


def find_banner(received: bytes) -> str | None:
    """Return the identification line, None while it is still incomplete.

    Raises:
        NotSshError: the bytes cannot be the start of an SSH server's greeting.
    Source: RFC 4253, section 4.2: the line starts with `SSH-`, ends with CR LF, and other lines
    may come before it.
    """
    *lines, rest = received.split(b"\n")
    for line in lines:
        if line.startswith(b"SSH-"):
            return line.rstrip(b"\r").decode("ascii", "replace")
        if line.startswith((b"HTTP/", b"<")):
            raise NotSshError(_quote(line))
    if len(received) > _LONGEST_PREAMBLE_BYTES:
        raise NotSshError(_quote(lines[0] if lines else rest))
    return None


def words_of_refusal(received: bytes) -> str | None:
    """Return what sshd says in place of a banner when it turns a connection away, None otherwise.

    Source: OpenSSH 9.2, sshd.c, "Exceeded MaxStartups"; since 9.8 "Not allowed at this time" for
    an address with PerSourcePenalties.
    """
    words = next((words for words in _REFUSALS if received.startswith(words)), None)
    return words.decode() if words else None


def read_banner(address: str, port: int, *, timeout_s: float) -> str:
    """Return what an SSH server says of itself; blocks for at most `timeout_s` per step.

    Raises:
        OSError: nothing listens, or nothing came in time.
        NotSshError: what came is not SSH.
    """
    received = b""
    with socket.create_connection((address, port), timeout=timeout_s) as connection:
        while (banner := find_banner(received)) is None:
            piece = connection.recv(1024)
            if not piece:
                raise ConnectionError("closed before a banner came")
            received += piece
    return banner


def _quote(line: bytes) -> str:
    return repr(line[:60].decode("ascii", "replace"))
