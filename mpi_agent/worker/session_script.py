"""How a session of OpenSSH's sshd gets its variables, its directory and a shell that stays quiet.

Small environments stand in sshd_config (`SetEnv`). Whatever cannot go that way goes by a script of
ours, which sshd runs in place of each command: it sets the variables, changes the directory, and
runs the command as sshd would have. So it is for

- values with line breaks, too many variables, or too many bytes for `SetEnv`;
- a login shell that reads start-up files even for a command, which may print, hang, or set PATH;
- a directory other than the account's home.

The login shell starts the script, so meanwhile HOME is an empty directory: no file of the account
is read. The script is for /bin/sh and needs no right to be executed, so it may lie where a mount
says noexec.

Source: bash 5.2, dash 0.5.12, busybox 1.35, mksh 59c, zsh 5.9, tcsh 6.24 and fish 3.6 of Debian 12
under OpenSSH 9.2: every byte from 1 to 255 arrives, whatever the locale; 2026-11-30.
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterable

from mpi_agent.setting_words import LoginFiles
from mpi_agent.worker.refusals import ONLY_COMMANDS
from mpi_agent.worker.sshd_config import SshdPlan

__all__ = ["arguments_of_shell", "render_session_script", "why_by_script"]

_MOST_VARIABLES, _MOST_BYTES = 900, 200_000
"""Source: OpenSSH 9.2: SetEnv takes under 1,000 variables, and a configuration under 256 KB, which
`sshd -t` does not check; measured 2026-11.
"""

_QUIET_SHELLS = frozenset("sh bash dash ash busybox ksh ksh93 mksh".split())
"""Read no file for a command; bash does under sshd, but not once SHLVL is set.

Source: bash 5.2, shell.c, run_startup_files().
"""

_WITHOUT_FILES = {
    "zsh": ("--emulate", "sh"),
    "csh": ("-f",),
    "tcsh": ("-f",),
    "fish": ("--no-config",),
}
"""Zsh reads /etc/zshenv even with -f, and Debian's may set PATH; as sh it reads no file at all.

Source: zshall(1) 5.9, "STARTUP/SHUTDOWN FILES" and "--emulate"; tcsh(1) 6.24; fish(1) 3.6.
"""

_SPECIAL_TO_SHELLS = frozenset("UID EUID GID EGID GROUPS FUNCNAME DIRSTACK SECONDS".split())
"""A shell passes these on when it finds them, but does not let itself be told them.

Source: bash 5.2 as sh, "UID: readonly variable", after which the script ends.
"""

_PLACES_OF_ENV = ("/usr/bin", "/bin")
"""Looked at before PATH, which is the session's by then and may lead anywhere or nowhere.

Source: Debian 12 and `busybox --list-full` 1.35 have it in the first; images whose busybox has all
of its applets in one directory in the second.
"""


def arguments_of_shell(shell: str, login_files: LoginFiles) -> tuple[str, ...]:
    """Return the options that keep a shell from reading start-up files for a command."""
    if login_files is LoginFiles.READ:
        return ()
    return _WITHOUT_FILES.get(posixpath.basename(shell), ())


def why_by_script(plan: SshdPlan) -> str | None:
    """Return why sessions need the script, None where SetEnv can carry everything."""
    size_bytes = sum(len(name) + len(_bytes(value)) + 8 for name, value in plan.variables)
    shell = posixpath.basename(plan.shell)
    if shell not in _QUIET_SHELLS and plan.login_files is not LoginFiles.READ:
        return f"{shell} reads start-up files for every command"
    if plan.working_directory is not None:
        return f'sessions begin in "{plan.working_directory}"'
    if any("\n" in value or "\r" in value for _, value in plan.variables):
        return "a value has a line break"
    if len(plan.variables) > _MOST_VARIABLES or size_bytes > _MOST_BYTES:
        return f"{len(plan.variables)} variables are more than sshd's SetEnv can carry"
    return None


def render_session_script(plan: SshdPlan) -> bytes:
    """Return the script that runs `$SSH_ORIGINAL_COMMAND` under the account's shell.

    Without one nothing runs, as with the built-in server. What the client sent is not touched.
    """
    exported = [(n, v) for n, v in plan.variables if n not in _SPECIAL_TO_SHELLS]
    handed_over = [(n, v) for n, v in plan.variables if n in _SPECIAL_TO_SHELLS]
    words = (plan.shell, *arguments_of_shell(plan.shell, plan.login_files))
    call = b" ".join((*(_quoted(word) for word in words), b'"$@"'))
    return b"\n".join(
        (
            b"# Written by mpi-agent: sshd runs it in place of each command.",
            b'if [ -z "$SSH_ORIGINAL_COMMAND" ]; then',
            b"  printf '%s\\n' " + _quoted(f"mpi-agent: {ONLY_COMMANDS}") + b" >&2",
            b"  exit 1",
            b"fi",
            b'set -- -c "$SSH_ORIGINAL_COMMAND"',
            b"unset SSH_ORIGINAL_COMMAND",
            b"export HOME=" + _quoted(plan.home),
            *(b"export " + assignment for assignment in _assignments(exported)),
            *([b"unset SHLVL"] if plan.login_files is LoginFiles.READ else ()),
            *([_change_directory(plan.working_directory)] if plan.working_directory else ()),
            *(_exec_by_env(handed_over, call) if handed_over else (b"exec " + call,)),
            b"",
        )
    )


def _exec_by_env(variables: Iterable[tuple[str, str]], call: bytes) -> tuple[bytes, ...]:
    """Return lines that become a command with variables that no shell would take."""
    by_env = b" ".join((b"env", *_assignments(variables), call))
    return (
        *(
            f"if [ -x {place}/env ]; then exec {place}/".encode() + by_env + b"; fi"
            for place in _PLACES_OF_ENV
        ),
        b"exec " + by_env,
    )


def _assignments(variables: Iterable[tuple[str, str]]) -> tuple[bytes, ...]:
    return tuple(name.encode() + b"=" + _quoted(value) for name, value in variables)


def _change_directory(directory: str) -> bytes:
    path = _quoted(directory)
    complaint = _quoted(f'mpi-agent: cannot change to "{directory}"; the command runs at home')
    return b"cd " + path + b" 2>/dev/null || printf '%s\\n' " + complaint + b" >&2"


def _quoted(text: str) -> bytes:
    """Return text as one word of sh; nothing counts within single quotes but their end."""
    return b"'" + _bytes(text).replace(b"'", b"'\\''") + b"'"


def _bytes(text: str) -> bytes:
    """Return what a variable of this process was, which Python keeps as text."""
    return text.encode(errors="surrogateescape")
