"""Which ssh server can serve this account with these rights, and why not OpenSSH's.

OpenSSH's sshd asks more than the built-in server: as root it changes its root directory and its
account before anybody has logged in, and under any uid it looks the account up. What it would
refuse at the first login, when nobody watches, is decided here, before anything is started.

Source: OpenSSH 9.2 of Debian 12 under `setpriv --bounding-set`, each capability taken away alone,
and with each kind of password field in /etc/shadow; measured 2026-11-30.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from mpi_agent.errors import SettingsError, SshdConfigError
from mpi_agent.setting_words import Backend

__all__ = ["BackendChoice", "ServerFacts", "check_port", "choose_backend", "obstacle_to_openssh"]

NEEDED_AS_ROOT = ("CAP_SETGID", "CAP_SETUID", "CAP_SYS_CHROOT")
"""`chroot("/run/sshd")`, `setgroups` and `setresuid 102` end every login without them."""

_BIND = "CAP_NET_BIND_SERVICE"


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerFacts:
    """What the choice depends on.

    Attributes:
        shell_takes_commands: the account's shell exists and is not one that turns logins away.
        is_locked: the account's password begins with `!`; False also where it cannot be read.
        has_chroot_directory: the directory that sshd as root changes to is there or can be made.
        capabilities: those in effect, as "CAP_SETUID".
        nss_wrapper: path of the library that tells programs of further accounts; None without it.
        sshd: path of OpenSSH's sshd; None without it.
        first_free_port: the lowest port that needs no right.
    """

    uid: int
    has_passwd_entry: bool
    shell_takes_commands: bool
    is_locked: bool
    has_chroot_directory: bool
    capabilities: frozenset[str]
    nss_wrapper: str | None
    sshd: str | None
    first_free_port: int = 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class BackendChoice:
    """The server to run.

    Attributes:
        why_not_openssh: None where OpenSSH serves, or was not wanted.
        needs_nss_wrapper: OpenSSH's programs must be told of the account.
    """

    backend: Backend
    why_not_openssh: str | None = None
    needs_nss_wrapper: bool = False


def choose_backend(wanted: Backend, facts: ServerFacts) -> BackendChoice:
    """Return OpenSSH where it is installed and can serve, else the built-in server.

    Raises:
        SshdConfigError: OpenSSH is asked for and cannot serve.
    """
    if wanted is Backend.BUILTIN:
        return BackendChoice(backend=wanted)
    obstacle = obstacle_to_openssh(facts)
    if obstacle is None:
        return BackendChoice(backend=Backend.OPENSSH, needs_nss_wrapper=not facts.has_passwd_entry)
    if wanted is Backend.OPENSSH:
        raise SshdConfigError(
            f"cannot run OpenSSH's server: {obstacle}", hint=_hint(facts, obstacle)
        )
    return BackendChoice(backend=Backend.BUILTIN, why_not_openssh=obstacle)


def obstacle_to_openssh(facts: ServerFacts) -> str | None:
    """Return why OpenSSH's sshd cannot serve this account, None where it can."""
    if facts.sshd is None:
        return "there is no sshd in this image"
    if not facts.has_passwd_entry:
        return (
            None if facts.nss_wrapper else f"it refuses uid {facts.uid}, which has no passwd entry"
        )
    if not facts.shell_takes_commands:
        return "the account's login shell takes no commands"
    return _obstacle_as_root(facts) if facts.uid == 0 else None


def _obstacle_as_root(facts: ServerFacts) -> str | None:
    missing = [name for name in NEEDED_AS_ROOT if name not in facts.capabilities]
    if missing:
        return f"as root it needs {_listed(missing)}, which this container does not have"
    if facts.is_locked:
        return "as root it refuses an account that is locked with `!`, and root's is"
    if not facts.has_chroot_directory:
        return "as root it needs the directory /run/sshd, which cannot be made here"
    return None


def _hint(facts: ServerFacts, obstacle: str) -> str:
    builtin = "or leave --sshd out and the built-in one serves"
    if facts.sshd is None:
        return f"install openssh-server, {builtin}"
    if not facts.has_passwd_entry:
        return f"install libnss-wrapper, {builtin}"
    if "CAP_" in obstacle:
        return f"add them under securityContext.capabilities, {builtin}"
    if facts.is_locked and facts.shell_takes_commands:
        return f"`usermod -p '*' root` in the image unlocks it for keys, {builtin}"
    return f"change it in the image, {builtin}"


def check_port(port: int, facts: ServerFacts) -> None:
    """Check that this account may listen on a port.

    Raises:
        SettingsError: it may not.
    Source: Linux, Documentation/networking/ip-sysctl.rst, ip_unprivileged_port_start.
    """
    if port >= facts.first_free_port or _BIND in facts.capabilities:
        return
    raise SettingsError(
        f"cannot listen on port {port}: below {facts.first_free_port} it takes {_BIND}, which"
        f" uid {facts.uid} does not have here",
        hint="choose another with --ssh-port on workers and launcher, such as 2222",
    )


def _listed(names: Collection[str]) -> str:
    *others, last = names
    return f"{', '.join(others)} and {last}" if others else last
