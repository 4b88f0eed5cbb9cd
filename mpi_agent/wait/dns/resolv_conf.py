"""What resolv.conf says, as far as it changes how names are asked.

Limits are those of libc, so that a name found here is found by mpirun's ssh as well. Options that
steer libc's sockets (`single-request`, `single-request-reopen`, `inet6`, `trust-ad`) have nothing
to steer here.

Source: resolv.conf(5), Linux man-pages 6.03; glibc 2.36 `resolv/res_init.c` and `resolv.h`.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from mpi_agent.ssh.trust import is_address

__all__ = ["ResolverSettings", "parse_resolv_conf"]

_MOST_SERVERS = 3
_LARGEST = {"ndots": 15, "timeout": 30, "attempts": 5}


@dataclass(frozen=True, slots=True, kw_only=True)
class ResolverSettings:
    """Whom to ask for names, and how.

    Attributes:
        timeout_s: seconds until one server counts as silent. libc waits 5 s where nothing is
            said; a lost datagram would then be the whole limit of a look-up.
        attempts: how often each server is asked.
        rotates: True when a question may go to any server first.
        extended: True for EDNS, that is larger datagrams.
        tcp_only: True when no datagram is sent at all.
        asks_ipv6: False when AAAA records are not asked for.
    """

    servers: tuple[str, ...] = ()
    search: tuple[str, ...] = field(default=())
    ndots: int = 1
    timeout_s: float = 2.0
    attempts: int = 2
    rotates: bool = False
    extended: bool = False
    tcp_only: bool = False
    asks_ipv6: bool = True


def parse_resolv_conf(text: str) -> ResolverSettings:
    """Return what a resolv.conf says; lines that libc would skip are skipped."""
    servers: list[str] = []
    search: tuple[str, ...] = ()
    options: list[str] = []
    for line in text.splitlines():
        keyword, *values = line.split() or [""]
        if not values or line[0] in "#; \t":
            continue
        if keyword == "nameserver" and is_address(values[0]):
            servers.append(values[0])
        elif keyword == "search":
            search = tuple(values)
        elif keyword == "domain":
            search = (values[0],)
        elif keyword == "options":
            options += values
    settings = ResolverSettings(servers=tuple(servers[:_MOST_SERVERS]), search=search)
    for option in options:
        settings = _with_option(settings, option)
    return settings


def _with_option(settings: ResolverSettings, option: str) -> ResolverSettings:
    name, _, text = option.partition(":")
    number = min(int(text), _LARGEST[name]) if name in _LARGEST and text.isdecimal() else None
    match name, number:
        case "ndots", int():
            return replace(settings, ndots=number)
        case "timeout", int():
            return replace(settings, timeout_s=float(max(number, 1)))
        case "attempts", int():
            return replace(settings, attempts=max(number, 1))
        case "rotate", None:
            return replace(settings, rotates=True)
        case "edns0", None:
            return replace(settings, extended=True)
        case "use-vc", None:
            return replace(settings, tcp_only=True)
        case "no-aaaa", None:
            return replace(settings, asks_ipv6=False)
    return settings
