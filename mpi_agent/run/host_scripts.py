"""What a host without our agent is asked to run: one line of POSIX sh for each errand.

A login takes each line whatever its shell is, so it holds neither quote nor newline within the
quotes around it. `sh` itself, `cat`, `tr`, `grep` and `sleep` do the work, which every image with
an sshd has. The answer of `list_line` is read by `host_listing`.

Source: tried with dash 0.5.12, bash 5.2.15 and busybox 1.35.0 as sh, 2026-11-30.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable
from dataclasses import dataclass

from mpi_agent.mpi_processes import RANK_VARIABLES
from mpi_agent.run_id import RunId
from mpi_agent.ssh.errands import ANSWER_BEGINS, ANSWER_ENDS
from mpi_agent.ssh.worker_protocol import render_call
from mpi_agent.ssh.worker_words import Call, Verb
from mpi_agent.variable_names import RUN_ID_VARIABLE, WORKER_CALL_VARIABLE

__all__ = [
    "CLEANED_MARK",
    "ENVIRONMENT_MARK",
    "MOST_TARGETS",
    "READ_VARIABLES",
    "SHARED_MEMORY",
    "Target",
    "clean_line",
    "end_line",
    "list_line",
    "remove_line",
    "segments_line",
    "signal_line",
]

READ_VARIABLES = (RUN_ID_VARIABLE, *RANK_VARIABLES, "SSH_CONNECTION")
ENVIRONMENT_MARK = "/environ:"
"""between the directory of a process below /proc and one of its variables"""

CLEANED_MARK = "cleaned="
"""before an agent's answer"""

MOST_TARGETS = 2000
"""Source: execve(2): one argument, as which a login's command is handed on, has 131,072 bytes."""

SHARED_MEMORY = "/dev/shm"

_NAMES = "|".join(READ_VARIABLES)
_LIST = (
    'echo "self=$SSH_CONNECTION"; '
    f'n="^({_NAMES})="; '
    # a grep that knows zero bytes reads all processes at once; busybox's does not
    'if printf "a\\0b\\0" | grep -zq "^b"; then '
    'grep -zsaHE "$n" /proc/[0-9]*/environ | tr "\\0" "\\n"; '
    "else for d in /proc/[0-9]*; do "
    'tr "\\0" "\\n" <$d/environ | grep -E "$n" | '
    f'while read -r v; do printf "%s{ENVIRONMENT_MARK}%s\\n" "$d" "$v"; done; done; fi; '
    "cat /proc/[0-9]*/stat; "
)
_IS_TARGET = (
    "p=${t%%:*}; r=${t#*:}; s=; read -r s </proc/$p/stat; s=${s##*) }; set -- $s; "
    'case "$1.${20}" in [ZX].*) continue;; *".${r%%:*}") :;; *) continue;; esac; '
)
"""Goes on only with a target that lives and is the process that was meant, by its start."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """A process that is to get a signal.

    Attributes:
        started_ticks: field 22 of its /proc/[pid]/stat; a pid with another start is spared.
        is_group: its whole process group gets it, which it leads.
    """

    pid: int
    started_ticks: int
    is_group: bool = False

    @property
    def word(self) -> str:
        """The process, its start, and what kill(1) is told."""
        return f"{self.pid}:{self.started_ticks}:{'-' if self.is_group else ''}{self.pid}"


def list_line() -> str:
    """Return the command that prints the processes of a host, and what of them tells their run."""
    return _command(_LIST)


def signal_line(targets: Iterable[Target], signal_name: str) -> str:
    """Return the command that sends a signal, and prints `sent=N`.

    Args:
        signal_name: without `SIG`.
    """
    return _command(
        f'n=0; for t in {_words(targets)}; do {_IS_TARGET}kill -{signal_name} "${{r#*:}}" && '
        'n=$((n+1)); done; echo "sent=$n"; '
    )


def end_line(targets: Iterable[Target], *, grace_s: float) -> str:
    """Return the command that ends processes: TERM, and KILL for what is left after the grace.

    It prints `killed=PID` for each process that got KILL, and returns once all are gone or shortly
    after. Where sleep(1) knows no fractions, it counts in whole seconds.
    """
    most = max(1, round(grace_s * 10))
    return _command(
        f'l="{_words(targets)}"; '
        f"S() {{ g=$1; for t in $l; do {_IS_TARGET}kill -$g $p && "
        'case $g in KILL) echo "killed=$p";; esac; done; }; '
        f"L() {{ for t in $l; do {_IS_TARGET}return 0; done; return 1; }}; "
        f"W() {{ i=0; while L && [ $i -lt $1 ]; do sleep $q; i=$((i+1)); done; }}; "
        f"if sleep 0.1; then q=0.1; m={most}; k=10; else q=1; m={max(1, round(grace_s))}; k=1; fi; "
        "S TERM; W $m; S KILL; W $k; "
    )


def clean_line(run_id: RunId) -> str:
    """Return the command that has a host's agent end what former runs of a job left.

    It prints a mark and the agent's answer, nothing on a host without an agent, and the mark alone
    where the agent is gone.

    Args:
        run_id: of the run that begins.
    """
    call = render_call(Call(verb=Verb.CLEAN, run_id=str(run_id))).decode().strip()
    words = call.replace('"', '\\"')
    return _command(
        f'w="${WORKER_CALL_VARIABLE}"; '
        f'[ -n "$w" ] && [ -r "$w" ] && echo "{CLEANED_MARK}$(/bin/sh "$w" clean "{words}")"; '
    )


def segments_line() -> str:
    """Return the command that prints the segments of shared memory of our account, and all users.

    `own=PATH` is a segment of this account. The rest are mappings, as `/proc/PID/maps:PATH`, and
    open files, as a line `/proc/PID/fd:` with paths behind it.
    """
    return _command(
        f'for f in {SHARED_MEMORY}/*; do [ -f "$f" ] && [ -O "$f" ] && '
        'printf "own=%s\n" "$f"; done; '
        f'grep -Hos "{SHARED_MEMORY}/.*" /proc/[0-9]*/maps; '
        f'ls -l /proc/[0-9]*/fd | grep -o -e "^/proc/[0-9]*/fd:" -e "{SHARED_MEMORY}/.*"; '
    )


def remove_line(paths: Iterable[str]) -> str:
    """Return the command that removes files, and prints `removed=1` for each that is gone.

    Args:
        paths: without quotes, blanks and what else a shell would read.
    """
    return _command(
        f'for f in {" ".join(paths)}; do rm -f "$f" && [ ! -e "$f" ] && echo removed=1; done; '
    )


def _words(targets: Iterable[Target]) -> str:
    return " ".join(target.word for target in targets)


def _command(script: str) -> str:
    whole = f"echo {ANSWER_BEGINS}; exec 2>/dev/null; LC_ALL=C; export LC_ALL; {script}"
    return f"/bin/sh -c {shlex.quote(f'{whole}echo {ANSWER_ENDS}')}"
