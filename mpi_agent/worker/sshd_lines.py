"""The lines of OpenSSH's sshd, as tables: what each says of its connection, and why in our words.

Source: OpenSSH 9.2p1 (Debian 12) and 10.0p2 (Debian 13), every row recorded with LogLevel VERBOSE
and `sshd -D -e`, 2026-11-30; rows that say so are from their sources alone. Both write the same
words; 10.0 adds "User child is on pid", and says who took too long. Debian's 9.2 does not: its fix
of CVE-2024-6387 took that line away.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum, auto

from mpi_agent.worker.refusals import (
    ANOTHER_AUTHORITY,
    BROKEN_PROTOCOL,
    NO_KEY,
    TOO_LATE,
    TOO_MANY_ATTEMPTS,
    USER_NOT_ALLOWED,
    another_key,
    forwarding,
    no_common,
    no_subsystem,
)

__all__ = [
    "CONNECTION_ROWS",
    "DROPPED",
    "IN_VAIN_ROWS",
    "LATE",
    "NOISE",
    "PEER",
    "SIGNATURE",
    "USER_REFUSED",
    "Meaning",
    "Row",
]

PEER = "\0"
"""Stands in a pattern for the connection's "<address> port <number>"; sshd escapes it elsewhere."""


class Meaning(Enum):
    """What a line says of its connection.

    LET_IN: somebody logged in. DOUBTED: something spoke against it, which may be the reason why a
    login that comes to nothing is refused. ENDED: it is over, for a reason of its own where the row
    has one. BROKEN: it is over, and not as it should be; worth telling also of one that was in.
    """

    OPENED = auto()
    LET_IN = auto()
    DOUBTED = auto()
    ENDED = auto()
    BROKEN = auto()
    NOTHING = auto()


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One kind of line.

    Attributes:
        why: from what the pattern found, the reason of a refusal; None where the line has none.
    """

    pattern: re.Pattern[str]
    meaning: Meaning
    why: Callable[[re.Match[str]], str] | None = None


def _row(
    pattern: str, meaning: Meaning, why: Callable[[re.Match[str]], str] | str | None = None
) -> Row:
    said = why if why is None or callable(why) else (lambda _, text=why: text)
    return Row(pattern=re.compile(pattern.replace("PEER", PEER)), meaning=meaning, why=said)


def _why_key(match: re.Match[str]) -> str:
    if match["type"].endswith("-CERT"):
        return ANOTHER_AUTHORITY
    return another_key(match["key"])


# A "user" without another word before it is one that is in.
_WHO = r"(?:(?:authenticating|invalid) user (?P<user>.*) |user .* )?"
CONNECTION_ROWS: tuple[Row, ...] = (
    _row(r"Connection from PEER on .*", Meaning.OPENED),
    _row(r"Accepted publickey for (?P<user>.*) from PEER ssh2: \S+ (?P<key>\S+).*", Meaning.LET_IN),
    _row(
        r"Failed publickey for (?:invalid user )?(?P<user>.*) from PEER ssh2:"
        r" (?P<type>\S+) (?P<key>\S+).*",
        Meaning.DOUBTED,
        _why_key,
    ),
    # From the sources alone: methods that our configuration switches off.
    _row(
        r"Failed \S+ for (?:invalid user )?(?P<user>.*) from PEER ssh2.*", Meaning.DOUBTED, NO_KEY
    ),
    _row(r"Invalid user (?P<user>.*) from PEER", Meaning.DOUBTED, USER_NOT_ALLOWED),
    _row(r"ROOT LOGIN REFUSED FROM PEER", Meaning.DOUBTED, USER_NOT_ALLOWED),
    _row(
        r"maximum authentication attempts exceeded for (?:invalid user )?(?P<user>.*) from PEER.*",
        Meaning.DOUBTED,
        TOO_MANY_ATTEMPTS,
    ),
    _row(
        r"Unable to negotiate with PEER: no matching (?P<what>.*) found\. Their offer:"
        r" (?P<offer>.*)",
        Meaning.ENDED,
        lambda match: no_common(match["what"], match["offer"]),
    ),
    # Before 9.8, from the sources alone.
    _row(r"Timeout before authentication for PEER", Meaning.ENDED, TOO_LATE),
    _row(
        rf"ssh_dispatch_run_fatal: Connection from {_WHO}PEER: (?P<how>.*)",
        Meaning.BROKEN,
        lambda match: f"{BROKEN_PROTOCOL}: {match['how']}",
    ),
    _row(rf"Connection (?:closed|reset) by {_WHO}PEER", Meaning.ENDED),
    _row(rf"Disconnected from {_WHO}PEER", Meaning.ENDED),
    _row(rf"Disconnecting {_WHO}PEER: .*", Meaning.ENDED),
    _row(r"Closing connection to PEER", Meaning.ENDED),
    _row(r"banner exchange: Connection from PEER: .*", Meaning.ENDED),
    _row(r"Read error from remote host PEER: .*", Meaning.BROKEN),
    _row(r"Timeout, client not responding from user (?P<user>.*) PEER", Meaning.BROKEN),
    _row(r"Received disconnect from PEER:.*", Meaning.NOTHING),
    _row(r"Postponed publickey for .* from PEER ssh2", Meaning.NOTHING),
    _row(r"(?:Starting|Close) session: .* from PEER id \d+", Meaning.NOTHING),
)
"""First match counts; PEER stands for "<address> port <number>"."""

NOISE = re.compile(
    r"kex_exchange_identification: .*"
    r"|send_error: write: .*"
    r"|Connection (?:closed|reset) by UNKNOWN port \d+"
    r"|Protocol major versions differ: .*"
    r"|Bad packet length \d+\."
    r"|Accepted (?:key|certificate ID) .* (?:found at|signed by) .*"
    r"|Transferred: sent \d+, received \d+ bytes"
    r"|User child is on pid \d+"
    r"|Server listening on .* port \d+\."
    r"|Received SIGHUP; restarting\."
    r"|Received signal 15; terminating\."
    r"|beginning MaxStartups throttling"
    r"|syslogin_perform_logout: logout\(\) returned an error"
    r"|Attempt to write login records by non-root user \(aborting\)"
    r"|ssh_packet_send_debug: send DEBUG: Broken pipe"
    r"|session_signal_req: (?:refusing|no pid|session signalling requires) .*"
)
DROPPED = re.compile(
    r"drop connection #\d+ from \[(?P<peer>[^\]]*)\]:\d+ on \[[^\]]*\]:\d+ (?P<how>.*)"
)
USER_REFUSED = re.compile(
    r"User (?P<user>.*?)(?: from (?P<peer>\S+))? not allowed because (?P<how>.*)"
)
LATE = re.compile(
    r"Timeout before authentication for connection from (?P<peer>\S+) to \S+, pid = \d+"
)
SIGNATURE = re.compile(
    r"userauth_pubkey: (?:signature algorithm|key type) (?P<offer>\S+) not in PubkeyAccepted.*"
)
IN_VAIN_ROWS: tuple[tuple[re.Pattern[str], Callable[[re.Match[str]], str]], ...] = (
    (
        re.compile(
            r"refused (?:local|streamlocal) port forward: originator .*, target (?P<target>.*)"
        ),
        lambda match: forwarding(f"to {match['target']}"),
    ),
    (
        re.compile(
            r"Received request from .* to remote forward to (?P<target>.*),"
            r" but the request was denied\."
        ),
        lambda match: forwarding(f"from {match['target']}"),
    ),
    (
        re.compile(r"subsystem request for (?P<name>.*) by user .* failed, subsystem not found"),
        lambda match: no_subsystem(match["name"]),
    ),
)
