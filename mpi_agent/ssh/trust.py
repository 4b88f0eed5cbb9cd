"""Who is trusted and how ssh is told: text of ssh_config and known_hosts, names in certificates.

A worker that runs the agent signs its host key with the job's own key, so one line of known_hosts
(`@cert-authority`) stands for every worker there will ever be. A plain operator image may present
the job's key itself as its host key; the second line accepts that. Nothing else is accepted.

Source: OpenSSH 9.2 ssh_config(5) and sshd(8) "SSH_KNOWN_HOSTS FILE FORMAT"; certificate hosts
tried with OpenSSH 9.2, asyncssh 2.24 and Open MPI 4.1.4 and 5.0.11, 2026-11.
"""

from __future__ import annotations

import base64
import contextlib
import hashlib
import ipaddress
import itertools
import shlex
from collections.abc import Collection
from dataclasses import dataclass

from mpi_agent.variable_names import RUN_ID_VARIABLE

__all__ = [
    "BUILTIN_CIPHERS",
    "BUILTIN_KEY_EXCHANGES",
    "SshTarget",
    "SshTerms",
    "cheap_key_exchanges",
    "fingerprint_of",
    "fingerprints_in",
    "host_key_alias",
    "is_address",
    "principals_of",
    "render_known_hosts",
    "render_ssh_config",
]

BUILTIN_KEY_EXCHANGES = "^curve25519-sha256,ecdh-sha2-nistp256"
BUILTIN_CIPHERS = "^aes128-gcm@openssh.com,aes128-ctr"
"""What the built-in client and the probes prefer, in front of all else that they know.

A server that allows neither is dialled too, as OpenSSH's client would.

Source: asyncssh 2.24, `kex_algs` and `encryption_algs`, "^" as in ssh_config(5); its own first
cipher, chacha20-poly1305, took twice the CPU of a whole probe with AES-GCM (2026-11-30).
"""

_KEEPALIVES = 3
_CHEAP_KEY_EXCHANGES = ("mlkem768x25519-sha256", "curve25519-sha256")
_KEY_TYPE_PREFIXES = ("ssh-", "ecdsa-", "sk-")


@dataclass(frozen=True, slots=True, kw_only=True)
class SshTarget:
    """One host as ssh is to dial it.

    Attributes:
        address: dialled instead of the name; None to resolve the name at that moment, so that a
            replaced pod is found at its new address.
    """

    name: str
    port: int
    address: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SshTerms:
    """The terms on which every ssh of this job dials.

    Attributes:
        checks_host_keys: False only when the user gave up on it.
        key_exchanges: put in front of the client's own; empty to leave those alone.
        own_config_path: the account's own configuration, None where there is none.
        own_options: keywords and values of the user's, which win over all of ours.
        marks_directory: where, if it is there, a file with the name of each host is made once the
            login succeeded; None to leave no marks.
        port: of every host that is no target of its own; None to leave it to the client.
        worker_timeout_s: silence after which a host is lost; None for never.
    """

    key_path: str
    known_hosts_path: str
    user: str
    checks_host_keys: bool
    connect_timeout_s: int = 10
    key_exchanges: tuple[str, ...] = ()
    port: int | None = None
    worker_timeout_s: float | None = 15.0
    own_config_path: str | None = None
    own_options: tuple[tuple[str, str], ...] = ()
    marks_directory: str | None = None


def is_address(name: str) -> bool:
    """Return whether a host is given by its address."""
    try:
        ipaddress.ip_address(name.strip("[]"))
    except ValueError:
        return False
    return True


def host_key_alias(name: str) -> str:
    """Return the name under which a host's key is checked: its first label, or its address.

    The first label is what a pod knows of itself without any DNS.
    """
    return name if is_address(name) else name.split(".", 1)[0]


def principals_of(own_names: tuple[str, ...], addresses: tuple[str, ...]) -> tuple[str, ...]:
    """Return the names a worker's host certificate is valid for, without wildcards.

    Each name counts with all its leading parts, because the launcher may know the pod by any of
    them: `pi-worker-0.pi.default` also as `pi-worker-0.pi` and `pi-worker-0`.
    """
    names: dict[str, None] = {}
    for own_name in own_names:
        labels = own_name.rstrip(".").split(".")
        for count in range(1, len(labels) + 1):
            names.setdefault(".".join(labels[:count]))
    for address in addresses:
        names.setdefault(address)
    return tuple(name for name in names if name and "," not in name)


def cheap_key_exchanges(allowed: Collection[str]) -> tuple[str, ...]:
    """Return the key exchanges to prefer, of those that the client's configuration allows.

    Source: CPU time of `ssh HOST true`, OpenSSH 9.2: 82 ms by its own choice, sntrup761x25519, and
    15 ms by curve25519-sha256; measured 2026-11. docs/reference/ssh.md tells the trade.
    """
    return tuple(name for name in _CHEAP_KEY_EXCHANGES if name in allowed)


def fingerprint_of(public_key: str) -> str:
    """Return the fingerprint of `TYPE BASE64 [comment]`, as `ssh-keygen -lf` prints it.

    Raises:
        ValueError: the key is not base64.
    """
    blob = base64.b64decode(public_key.split()[1], validate=True)
    digest = base64.b64encode(hashlib.sha256(blob).digest()).decode()
    return f"SHA256:{digest.rstrip('=')}"


def fingerprints_in(authorized_keys: str) -> tuple[str, ...]:
    """Return the fingerprint of each key in an authorized_keys file; what is no key is left out.

    Source: sshd(8) of OpenSSH 9.2, "AUTHORIZED_KEYS FILE FORMAT": options may stand before the
    type.
    """
    found: dict[str, None] = {}
    for line in authorized_keys.splitlines():
        words = [] if line.lstrip().startswith("#") else line.split()
        for kind, encoded in itertools.pairwise(words):
            if kind.startswith(_KEY_TYPE_PREFIXES):
                with contextlib.suppress(ValueError):
                    found.setdefault(fingerprint_of(f"{kind} {encoded}"))
                    break
    return tuple(found)


def render_known_hosts(job_public_key: str) -> str:
    """Return known_hosts for a job whose public key is `TYPE BASE64 [comment]`."""
    key = " ".join(job_public_key.split()[:2])
    return f"@cert-authority * {key}\n* {key}\n"


def render_ssh_config(terms: SshTerms, targets: tuple[SshTarget, ...]) -> str:
    """Return an ssh_config in which every host of the job has its port and its alias.

    The account's and the image's own configurations are included last, where they can add but not
    override: ssh takes the first value it meets, and -F alone would switch these files off. What
    SendEnv names adds up, so the run's id is sent beside whatever they send.

    Source: ssh_config(5) of OpenSSH 9.2, SendEnv, and asyncssh 2.24; both tried 2026-11.
    """
    lines = ["# Written by mpi-agent for this job; made anew at every launch."]
    lines += [f"{keyword} {value}" for keyword, value in terms.own_options]
    for target in targets:
        lines += [f"Host {target.name}", f"  Port {target.port}"]
        lines += [f"  HostKeyAlias {host_key_alias(target.name)}"]
        if target.address is not None:
            lines += [f"  HostName {target.address}"]
    lines += [
        "Host *",
        *([f"  Port {terms.port}"] if terms.port is not None else []),
        f"  User {terms.user}",
        f"  IdentityFile {_quoted(terms.key_path)}",
        "  IdentitiesOnly yes",
        "  IdentityAgent none",
        "  BatchMode yes",
        "  PreferredAuthentications publickey",
        "  PasswordAuthentication no",
        "  KbdInteractiveAuthentication no",
        "  GSSAPIAuthentication no",
        "  ForwardAgent no",
        "  ForwardX11 no",
        "  ControlMaster no",
        "  ControlPath none",
        f"  SendEnv {RUN_ID_VARIABLE}",
        "  UpdateHostKeys no",
        "  CheckHostIP no",
        f"  ConnectTimeout {terms.connect_timeout_s}",
        "  LogLevel ERROR",
        *_mark_lines(terms),
        *_key_exchange_lines(terms),
        *_host_key_lines(terms),
        *([f"  Include {_quoted(terms.own_config_path)}"] if terms.own_config_path else []),
        "  Include /etc/ssh/ssh_config",
        *_keepalive_lines(terms),
        "",
    ]
    return "\n".join(lines)


def _keepalive_lines(terms: SshTerms) -> tuple[str, ...]:
    """Return what ends an ssh whose host is silent, unless a configuration that was included says.

    It is the second way in which a lost worker is noticed, and helps Open MPI alone. A `Host` of
    its own makes the lines count wherever the files before them end.

    Source: ssh_config(5) of OpenSSH 9.2 and asyncssh 2.24; a worker whose packets were dropped
    ended Open MPI 4.1.4 and 5.0.11 after 17.5 and 20.3 s with 5 and 3, Hydra not; 2026-11.
    """
    if terms.worker_timeout_s is None:
        return ()
    interval_s = max(1, round(terms.worker_timeout_s / _KEEPALIVES))
    return (
        "Host *",
        f"  ServerAliveInterval {interval_s}",
        f"  ServerAliveCountMax {_KEEPALIVES}",
    )


def _mark_lines(terms: SshTerms) -> tuple[str, ...]:
    """Return what leaves a mark of each host that was logged in to.

    Source: ssh_config(5) of OpenSSH 9.2, LocalCommand and TOKENS: `%n` is the name as given.
    """
    if terms.marks_directory is None:
        return ()
    directory = shlex.quote(terms.marks_directory.replace("%", "%%"))
    command = f"test -d {directory} && : >{directory}/%n"
    return ("  PermitLocalCommand yes", f"  LocalCommand {command}")


def _key_exchange_lines(terms: SshTerms) -> tuple[str, ...]:
    """Return the preferred ones before the client's own, from which both sides may still choose.

    Source: ssh_config(5) of OpenSSH 9.2, KexAlgorithms: a list that begins with `^` is placed at
    the head of the default set.
    """
    if not terms.key_exchanges:
        return ()
    return (f"  KexAlgorithms ^{','.join(terms.key_exchanges)}",)


def _host_key_lines(terms: SshTerms) -> tuple[str, ...]:
    if terms.checks_host_keys:
        known_hosts, strict = _quoted(terms.known_hosts_path), "yes"
    else:
        known_hosts, strict = "/dev/null", "no"
    return (
        f"  UserKnownHostsFile {known_hosts}",
        "  GlobalKnownHostsFile /dev/null",
        f"  StrictHostKeyChecking {strict}",
    )


def _quoted(path: str) -> str:
    """Return a path as ssh_config takes it: `%` doubled, in quotes when it has blanks."""
    path = path.replace("%", "%%")
    return f'"{path}"' if any(c in path for c in " \t") else path
