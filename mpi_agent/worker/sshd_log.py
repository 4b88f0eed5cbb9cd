"""What OpenSSH's sshd says of itself, read line by line, as events of ours.

sshd tells one login in several lines, and the lines of many connections come mixed. So a reader
remembers the connections that are open, and tells each of them once: who logged in, or who was not
let in, and why. What was refused to somebody who is in is told besides. Noise is dropped: what
probes of the port cause, and what a good session says on its way. Any other line is worth keeping.

A client can write much of a line: the name of its user, the comment of its certificate. Control
characters arrive escaped, and an address is believed only when it is that of an open connection.

Refused without a word of sshd at any level up to VERBOSE, so without an event: forwarding of remote
ports and sockets, X11, the agent, a tunnel, and variables that are not accepted. Of passwords and
other methods that are switched off it tells only that such a client left.

Source: OpenSSH 9.2p1 and 10.0p2, measured 2026-11-30; the rows stand in `sshd_lines`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from mpi_agent.job.events import Event
from mpi_agent.job.worker_events import LoginAccepted, LoginRefused, SshServerSpoke
from mpi_agent.worker.refusals import (
    NO_KEY,
    TOO_LATE,
    TOO_MANY_ATTEMPTS,
    TOO_MANY_WAITING,
    no_common,
    only_user,
)
from mpi_agent.worker.sshd_lines import (
    CONNECTION_ROWS,
    DROPPED,
    IN_VAIN_ROWS,
    LATE,
    NOISE,
    PEER,
    SIGNATURE,
    USER_REFUSED,
    Meaning,
    Row,
)

__all__ = ["SshdLog"]

_KEPT = 4096
_ADDRESS_AND_PORT = re.compile(r"([0-9A-Fa-f.:]+(?:%\w+)?) port (\d+)")
_Place = tuple[str, str]


@dataclass(slots=True)
class _Connection:
    """What is known of one that is open."""

    user: str = ""
    why: str = ""
    is_in: bool = False


class SshdLog:
    """Reads the lines of one sshd in their order.

    Args:
        account: the one that may log in.
    """

    def __init__(self, account: str) -> None:
        self._account = account
        self._open: dict[_Place, _Connection] = {}
        self._users_refused: dict[tuple[str, str], str] = {}

    @property
    def remembered(self) -> int:
        """How many connections and users are remembered."""
        return len(self._open) + len(self._users_refused)

    def read(self, line: str) -> Event | None:
        """Return what a line tells, None when it tells nothing that is not told elsewhere."""
        text = line.removesuffix(" [preauth]")
        if NOISE.fullmatch(text):
            return None
        for pattern, why in IN_VAIN_ROWS:
            if match := pattern.fullmatch(text):
                return self._refuse(self._account, self._only_peer(), why(match))
        if match := DROPPED.fullmatch(text):
            is_crowd = "maxstartups" in match["how"].lower()
            return self._refuse("", match["peer"], TOO_MANY_WAITING if is_crowd else match["how"])
        if match := LATE.fullmatch(text):
            return self._refuse("", match["peer"], TOO_LATE)
        if match := USER_REFUSED.fullmatch(text):
            self._note_user(match["user"], match["peer"] or "", match["how"])
            return None
        if match := SIGNATURE.fullmatch(text):
            return self._doubt_someone(no_common("signature", match["offer"]))
        return self._read_of_a_connection(text, line)

    def _read_of_a_connection(self, text: str, line: str) -> Event | None:
        """Return what a line with a connection's address and port tells."""
        found = self._find_place(text)
        if found is not None:
            place = (found[1], found[2])
            placed = text[: found.start()] + PEER + text[found.end() :]
            for row in CONNECTION_ROWS:
                if match := row.pattern.fullmatch(placed):
                    return self._apply(row, match, place, line)
        return SshServerSpoke(line=line)

    def _find_place(self, text: str) -> re.Match[str] | None:
        """Return where in a line the address of its connection stands; a client may write others.

        A connection that was not seen to open, as with LogLevel INFO, is the first in the line.
        """
        found = list(_ADDRESS_AND_PORT.finditer(text))
        known = (match for match in found if (match[1], match[2]) in self._open)
        return next(known, found[0] if found else None)

    def _apply(self, row: Row, match: re.Match[str], place: _Place, line: str) -> Event | None:
        """Note what a line says of a connection; return what there is to tell."""
        user = match.groupdict().get("user") or ""
        why = row.why(match) if row.why else ""
        match row.meaning:
            case Meaning.OPENED:
                self._remember(place, _Connection())
            case Meaning.LET_IN:
                self._remember(place, _Connection(user=user, is_in=True))
                return LoginAccepted(user=user, peer=place[0], key_fingerprint=match["key"])
            case Meaning.DOUBTED:
                self._doubt(self._open.get(place, _Connection()), place, user, why)
            case Meaning.ENDED:
                return self._end(place, user, why)
            case Meaning.BROKEN:
                return self._end(place, user, why, broken=line)
            case Meaning.NOTHING:
                pass
        return None

    def _doubt(self, connection: _Connection, place: _Place, user: str, why: str) -> None:
        """Note why a connection may not be let in; the first reason counts, except for the last."""
        connection.user = user
        if not connection.why or why == TOO_MANY_ATTEMPTS:
            connection.why = why
        self._remember(place, connection)

    def _end(self, place: _Place, user: str, why: str, *, broken: str = "") -> Event | None:
        """Forget a connection; return why it was not let in, unless it was or never asked to be.

        Args:
            why: known by the line itself.
            broken: the line, when it tells of a connection that was not closed as it should be.
        """
        connection = self._open.pop(place, _Connection(is_in=not (user or why)))
        if connection.is_in:
            return SshServerSpoke(line=broken) if broken else None
        who = user or connection.user
        if not (who or why):
            return None
        known = self._users_refused.get((who, place[0])) or self._users_refused.get((who, ""))
        return self._refuse(who, place[0], why or known or connection.why or NO_KEY)

    def _note_user(self, user: str, peer: str, how: str) -> None:
        """Keep why an account may not log in, to be told when the connection ends."""
        if "not listed in AllowUsers" in how:
            why = only_user(self._account)
        else:
            why = f"its {how}" if how.startswith(("account", "shell")) else how
        self._users_refused[user, peer] = why
        _trim(self._users_refused)

    def _doubt_someone(self, why: str) -> Event | None:
        """Note a reason for the one connection that is not in yet, else tell it of nobody."""
        waiting = [connection for connection in self._open.values() if not connection.is_in]
        if len(waiting) != 1:
            return self._refuse("", "", why)
        waiting[0].why = waiting[0].why or why
        return None

    def _only_peer(self) -> str:
        """Return the address from which all who are in came; empty when there are several."""
        peers = {place[0] for place, connection in self._open.items() if connection.is_in}
        return peers.pop() if len(peers) == 1 else ""

    def _remember(self, place: _Place, connection: _Connection) -> None:
        self._open.pop(place, None)
        self._open[place] = connection
        _trim(self._open)

    @staticmethod
    def _refuse(user: str, peer: str, why: str) -> LoginRefused:
        return LoginRefused(user=user, peer=peer, why=why)


def _trim(kept: dict[tuple[str, str], _Connection] | dict[tuple[str, str], str]) -> None:
    """Throw the oldest away; a client may come back under ever new names and ports."""
    while len(kept) > _KEPT:
        del kept[next(iter(kept))]
