"""The text of sshd_config: keys only, one account, nothing forwarded, our variables set.

Everything that OpenSSH would take from the image's own configuration is said here, because `-f`
replaces that file. Directives that only newer versions know are written only for them: an unknown
word makes sshd refuse the whole file, and there is no `IgnoreUnknown` on this side.

Source: sshd_config(5) of OpenSSH 9.2 and 10.0.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from mpi_agent.setting_words import LoginFiles
from mpi_agent.variable_names import RUN_ID_VARIABLE

__all__ = ["ForcedScript", "SshdPlan", "announcement_of", "quote_argument", "render_sshd_config"]

_UNFIT_FOR_A_BANNER = re.compile(r"[^A-Za-z0-9._-]")
_PENALTIES_SINCE = (9, 8)


@dataclass(frozen=True, slots=True, kw_only=True)
class ForcedScript:
    """What OpenSSH's sshd runs in place of each command.

    Attributes:
        path: of a script for /bin/sh.
        home: an empty directory, HOME of the login shell that starts it.
    """

    path: str
    home: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SshdPlan:
    """Everything an ssh server of this worker needs to know; both back ends take it.

    Attributes:
        listen_address: None to listen on every address.
        account: the one account that may log in.
        home: of the account.
        shell: the account's login shell, which runs each command.
        host_certificate: None when the job's private key is not here to sign one.
        strict_modes: False where a directory above our files is writable for others, as /tmp is.
        variables: environment of every session, sorted by name; values may hold line breaks.
        accepted_variables: names that a client may send.
        working_directory: of every session; None for the account's home.
        login_files: whether a session reads the login shell's start-up files.
        script: carries the variables for OpenSSH; None where its configuration can.
        own_directives: the user's, keyword and value, for OpenSSH alone.
        server_environment: set for OpenSSH's own programs, not for sessions.
    """

    port: int
    listen_address: str | None
    account: str
    worker_name: str
    host_key: str
    host_certificate: str | None
    authorized_keys: str
    strict_modes: bool
    variables: tuple[tuple[str, str], ...]
    home: str = "/"
    shell: str = "/bin/sh"
    accepted_variables: tuple[str, ...] = (RUN_ID_VARIABLE,)
    working_directory: str | None = None
    login_files: LoginFiles = LoginFiles.SKIP
    script: ForcedScript | None = None
    own_directives: tuple[tuple[str, str], ...] = ()
    server_environment: tuple[tuple[str, str], ...] = ()

    @property
    def dial_address(self) -> str:
        """Where this worker reaches its own port."""
        return self.listen_address or "127.0.0.1"


def announcement_of(worker_name: str) -> str:
    """Return what stands at the end of the ssh banner: whose worker answers here.

    The launcher knows by it that a worker runs the agent, the worker that its own port is its own.
    """
    return f"mpi-agent {_UNFIT_FOR_A_BANNER.sub('_', worker_name)[:100]}"


def render_sshd_config(plan: SshdPlan, *, version: tuple[int, int]) -> str:
    """Return sshd_config for an OpenSSH of this version, such as (9, 2).

    The user's own directives stand first, because sshd takes the first value that it meets.

    Raises:
        ValueError: a variable has a line break and no script carries it.
    """
    lines = [
        "# Written by mpi-agent at every start of the worker.",
        *(f"{keyword} {value}" for keyword, value in plan.own_directives),
        f"Port {plan.port}",
        *([f"ListenAddress {plan.listen_address}"] if plan.listen_address else []),
        f"VersionAddendum {announcement_of(plan.worker_name)}",
        "PidFile none",
        *_identity_lines(plan),
        *_login_lines(plan),
        *_room_lines(version),
        *_session_lines(plan),
        "",
    ]
    return "\n".join(lines)


def _identity_lines(plan: SshdPlan) -> tuple[str, ...]:
    certificate = plan.host_certificate
    return (
        f"HostKey {quote_argument(plan.host_key)}",
        *([f"HostCertificate {quote_argument(certificate)}"] if certificate else []),
    )


def _login_lines(plan: SshdPlan) -> tuple[str, ...]:
    """Return who may log in, and how.

    StrictModes has no mercy for the sticky bit: with a key file below /tmp (mode 1777) it refuses
    every login, so there the agent's own check of its directory (0700, our uid, no symlink) has
    to do. Measured with OpenSSH 9.2: "bad ownership or modes for directory /tmp".
    """
    return (
        f"AuthorizedKeysFile {quote_argument(plan.authorized_keys.replace('%', '%%'))}",
        f"StrictModes {'yes' if plan.strict_modes else 'no'}",
        f"AllowUsers {plan.account}",
        "PermitRootLogin prohibit-password",
        "AuthenticationMethods publickey",
        "PubkeyAuthentication yes",
        "PasswordAuthentication no",
        "KbdInteractiveAuthentication no",
        "HostbasedAuthentication no",
        "UsePAM no",
    )


def _room_lines(version: tuple[int, int]) -> tuple[str, ...]:
    """Return limits that a whole job dialling at once does not meet.

    The default MaxStartups, 10:30:100, drops some of 60 logins that come together. Since 9.8 sshd
    also shuts out an address whose connections ended without a login, as our probes' do.
    """
    penalties = ("PerSourcePenalties no",) if version >= _PENALTIES_SINCE else ()
    return (
        "MaxStartups 1024",
        "MaxSessions 1024",
        "MaxAuthTries 10",
        "LoginGraceTime 30",
        *penalties,
    )


def _session_lines(plan: SshdPlan) -> tuple[str, ...]:
    """Return what a session may and has: commands and pipes, no terminal.

    sshd has no word against a login without a command. Where no script of ours refuses it, the
    shell reads commands from its input, which is no more than the command `sh -s` may.
    """
    return (
        "PermitTTY no",
        "DisableForwarding yes",
        "PermitTunnel no",
        "PermitUserRC no",
        "PermitUserEnvironment no",
        "PrintMotd no",
        "UseDNS no",
        "TCPKeepAlive yes",
        "ClientAliveInterval 15",
        "ClientAliveCountMax 4",
        "LogLevel VERBOSE",
        *(f"AcceptEnv {name}" for name in plan.accepted_variables),
        *_variable_lines(plan),
    )


def _variable_lines(plan: SshdPlan) -> tuple[str, ...]:
    """Return what gives each session its variables: one line with all, or the script.

    Only the first SetEnv line counts (OpenSSH 9.2). The line of ForceCommand is the shell's, and
    single quotes mean the same to sh, csh and fish.
    """
    if plan.script is None:
        pairs = (quote_argument(f"{name}={value}") for name, value in plan.variables)
        return (f"SetEnv {' '.join(pairs)}",)
    quoted = plan.script.path.replace("'", "'\\''")
    return (
        f"SetEnv {quote_argument(f'HOME={plan.script.home}')} {quote_argument('SHLVL=1')}",
        f"ForceCommand exec /bin/sh '{quoted}'",
    )


def quote_argument(text: str) -> str:
    """Return text as one argument of sshd_config, to arrive byte for byte.

    Within double quotes a backslash counts only before a quote or a backslash; `$`, `#` and blanks
    are plain. A line break cannot be written at all.

    Source: OpenSSH 9.2, misc.c, argv_split(); every printable character tried against sshd.
    """
    if "\n" in text or "\0" in text:
        raise ValueError("sshd_config cannot carry a line break")
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"').replace("'", "\\'") + '"'
