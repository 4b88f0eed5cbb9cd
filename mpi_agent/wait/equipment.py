"""The question that a login is asked: has this host what the launch needs.

Is the MPI daemon where this launcher will call it, does it fit, is the program linked with the same
MPI, can the host connect back to the launcher, and what does it have? One POSIX shell line, so that
it works over any login shell and in the barest image; it starts with a word of ours, because
start-up files may print before it, and ends with another. What it cannot find out passes with a
note. A worker whose agent knows of runs is asked, last of all, to end those that are nobody's: it
keeps a file while there are any, so that no process is started where there are none. The daemons
themselves do not tell their version: a daemon that is byte for byte the
launcher's own fits, otherwise the launcher beside it is asked, under the name that is its alone: a
plain `mpirun` there may be another MPI's, or a script that calls whatever is in PATH.

Source: Open MPI 4.1.4 and 5.0.11, MPICH 4.0.2/5.0.2 and Intel MPI 2021.18/19, measured 2026-11:
what each launcher calls on a host, and how it goes wrong when that is missing or another version;
Debian 12, where MPICH's hydra_pmi_proxy, Open MPI's orted and one mpirun lie in one directory.
"""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass, replace

from mpi_agent.job.host_facts import HostFacts
from mpi_agent.job.readiness import Obstacle
from mpi_agent.job.stacks import MpiStack, implementation_of_library, recognise_version
from mpi_agent.ssh.worker_protocol import RUN_MARK, ProtocolError, parse_line, render_call
from mpi_agent.ssh.worker_words import Call, Cleaned, LauncherId, Verb
from mpi_agent.variable_names import WORKER_CALL_VARIABLE
from mpi_agent.wait.host_facts import FACTS_SCRIPT, Answer, read_facts, values_in

__all__ = [
    "ANSWER_ENDS",
    "CLEANING",
    "Equipment",
    "EquipmentAnswer",
    "LauncherAddress",
    "judge_answer",
    "question_line",
]

ANSWER_ENDS = "mpi-agent-answer-ends"
CLEANING = "cleaning=yes"
"""said before a worker ends what is left, which may take longer than any other answer"""

_ANSWER_BEGINS = "mpi-agent-answer-begins"
_LONGEST_QUOTE = 60
_SCRIPT = (
    f"echo {_ANSWER_BEGINS}; exec 2>/dev/null; "
    'd=$(command -v "$1"); echo "daemon=$d"; '
    'if [ -n "$d" ]; then if [ "$(sha256sum <"$d")" = "$2  -" ]; then echo build=same; else '
    'l="mpirun.openmpi mpirun"; '
    'case "${d##*/}" in hydra_*) l="mpiexec.hydra mpiexec mpirun";; esac; '
    'for l in $l; do [ -x "${d%/*}/$l" ] && break; done; '
    'MPI_AGENT_SHIM=off "${d%/*}/$l" --version </dev/null | sed -n "1,12s/^/version=/p"; '
    "fi; fi; "
    'if [ -n "$3" ] && p=$(command -v "$3") && [ -f "$p" ]; then '
    'timeout 5 grep -aoh "libmpi[a-z]*[.]so[.][0-9]*" "$p" | sed -n "1,20s/^/links=/p"; fi; '
    f"{FACTS_SCRIPT}"
    'if [ -n "$4" ]; then '
    "if command -v bash >/dev/null && command -v timeout >/dev/null; then "
    's=$(timeout 5 bash -c "exec 3<>/dev/tcp/\\$0/\\$1" "$4" "$5" 2>&1); '
    'echo "back=$? $s"; '
    "else echo back=unknown; fi; fi; "
    f"w=${WORKER_CALL_VARIABLE}; "
    f'if [ -n "$7" ] && [ -n "$w" ] && [ -e "${{w%/*}}/{RUN_MARK}" ]; then '
    f'echo {CLEANING}; echo "cleaned=$(/bin/sh "$w" clean "$7")"; fi; '
    f"echo {ANSWER_ENDS}"
)
"""Arguments: daemon, sha256 of the launcher's own, program, address, port, ssh configuration, call.

All but the first two may be empty.
"""

_NO_DEV_TCP = "No such file or directory"
"""what a bash says that was built without /dev/tcp"""


@dataclass(frozen=True, slots=True, kw_only=True)
class LauncherAddress:
    """Where a host is to connect back to, as the daemons are told: at an address, not by a name."""

    address: str
    port: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Equipment:
    """What a host must have.

    Attributes:
        stack: the launcher's own MPI.
        daemon: absolute path, or a bare name that the login's PATH must find.
        daemon_sha256: of the launcher's own daemon, empty when it has none.
        program: absolute path or bare name of what the ranks run, None when it cannot be told.
        ssh_config: path of the launcher's ssh configuration, None when nobody wants to know
            whether hosts have it too.
        launcher: who it is for whom runs that are nobody's are ended; None to end none.
    """

    stack: MpiStack
    daemon: str
    daemon_sha256: str
    program: str | None
    ssh_config: str | None = None
    launcher: LauncherId | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class EquipmentAnswer:
    """Whether a host has it; detail is set exactly when there is an obstacle.

    Attributes:
        connects_back: whether it reached the launcher; None when it was not asked or cannot tell.
        facts: what the host has; None exactly when there is an obstacle.
    """

    obstacle: Obstacle | None = None
    detail: str = ""
    notes: tuple[str, ...] = ()
    connects_back: bool | None = None
    facts: HostFacts | None = None


def question_line(equipment: Equipment, back: LauncherAddress | None) -> str:
    """Return the command line for a login; `back` is left out where nobody needs to connect."""
    arguments = (
        equipment.daemon,
        equipment.daemon_sha256 or "none",
        equipment.program or "",
        back.address if back else "",
        str(back.port) if back else "",
        equipment.ssh_config or "",
        _call_to_clean(equipment.launcher),
    )
    words = " ".join(shlex.quote(argument) for argument in arguments)
    return f"/bin/sh -c '{_SCRIPT}' sh {words}"


def _call_to_clean(launcher: LauncherId | None) -> str:
    if launcher is None:
        return ""
    return render_call(Call(verb=Verb.CLEAN, launcher=launcher)).decode().strip()


def judge_answer(
    equipment: Equipment, back: LauncherAddress | None, said: str, *, ended: bool, limit_s: float
) -> EquipmentAnswer:
    """Return what the answer means.

    Args:
        said: everything the login printed.
        ended: the login's command ended by itself, or said all it had to say.
    """
    before, begins, rest = said.partition(_ANSWER_BEGINS)
    if not begins:
        return _no_answer(before, ended=ended, limit_s=limit_s)
    notes = [_noise_note(before)] if before.strip() else []
    answer, ends, _ = rest.partition(ANSWER_ENDS)
    if not ends:
        notes.append("the question about its MPI was not answered to the end")
    values = values_in(answer)
    notes += _cleaning_notes(values)
    for judge in (_judge_daemon, _judge_program):
        verdict = judge(equipment, values)
        if verdict.obstacle is not None:
            return verdict
        notes += verdict.notes
    verdict = EquipmentAnswer() if back is None else _judge_back(back, values)
    facts = read_facts(values) if verdict.obstacle is None else None
    return replace(verdict, notes=(*notes, *verdict.notes), facts=facts)


def _no_answer(said: str, *, ended: bool, limit_s: float) -> EquipmentAnswer:
    quoted = f" after printing {_quote(said)}" if said.strip() else ""
    if ended:
        return EquipmentAnswer(
            obstacle=Obstacle.SHELL_BROKEN,
            detail=f"the login ended{quoted} before it ran a command",
        )
    return EquipmentAnswer(
        obstacle=Obstacle.SHELL_SILENT,
        detail=f"a command was not run within {limit_s:g} s of the login{quoted}",
    )


def _judge_daemon(equipment: Equipment, values: Answer) -> EquipmentAnswer:
    stack, daemon = equipment.stack, equipment.daemon
    if "daemon" not in values:
        return EquipmentAnswer(notes=("whether the MPI daemon is there is unknown",))
    if not values["daemon"][0]:
        where = f'there is no "{daemon}"' if "/" in daemon else f'"{daemon}" is not in PATH'
        return EquipmentAnswer(
            obstacle=Obstacle.DAEMON_MISSING, detail=f"{where}, which {stack.title} calls there"
        )
    if "build" in values:
        return EquipmentAnswer()
    found = recognise_version("\n".join(values.get("version", [])))
    if found is None:
        return EquipmentAnswer(notes=(f'the version of "{values["daemon"][0]}" is unknown',))
    implementation, version = found
    title = f"{implementation.value} {'.'.join(str(number) for number in version)}"
    if implementation is not stack.implementation or version[0] != stack.version[0]:
        return EquipmentAnswer(
            obstacle=Obstacle.DAEMON_DIFFERS,
            detail=f'"{values["daemon"][0]}" is of {title}, the launcher runs {stack.title}',
        )
    if version != stack.version:
        return EquipmentAnswer(notes=(f"it has {title}, the launcher {stack.title}",))
    return EquipmentAnswer()


def _judge_program(equipment: Equipment, values: Answer) -> EquipmentAnswer:
    """Refuse a program of another MPI: mpirun would start singletons and end with 0."""
    libraries = tuple(dict.fromkeys(values.get("links", [])))
    families = {library: implementation_of_library(library) for library in libraries}
    known = {library: family for library, family in families.items() if family is not None}
    if not known or any(equipment.stack.runs_with(family) for family in known.values()):
        return EquipmentAnswer()
    library, family = next(iter(known.items()))
    return EquipmentAnswer(
        obstacle=Obstacle.PROGRAM_DIFFERS,
        detail=f'"{equipment.program}" is linked with {library} of {family.value}, '
        f"mpirun is of {equipment.stack.title}",
    )


def _judge_back(back: LauncherAddress, values: Answer) -> EquipmentAnswer:
    code, _, said = values.get("back", ["unknown"])[0].partition(" ")
    if code == "0":
        return EquipmentAnswer(connects_back=True)
    if code == "unknown" or _NO_DEV_TCP in said:
        return EquipmentAnswer(notes=("whether it can connect back to the launcher is unknown",))
    why = "no answer within 5 s" if code == "124" else said.rpartition(": ")[2] or f"code {code}"
    return EquipmentAnswer(
        obstacle=Obstacle.LAUNCHER_UNREACHABLE,
        connects_back=False,
        detail=f"it cannot connect to the launcher at {back.address} port {back.port}: {why}",
    )


def _cleaning_notes(values: Answer) -> tuple[str, ...]:
    """Return what became of processes that are nobody's, where there were any."""
    if "cleaning" not in values:
        return ()
    try:
        answer = parse_line(values.get("cleaned", [""])[0].encode())
    except ProtocolError:
        answer = None
    if not isinstance(answer, Cleaned):
        return ("whether an earlier launch has left processes there is unknown",)
    hard = f", {answer.killed} of them with KILL" if answer.killed else ""
    notes = []
    if answer.ended:
        many = _processes(answer.ended)
        notes.append(f"ended {many} that an earlier launch had left there{hard}")
    if answer.left:
        many = _processes(answer.left)
        notes.append(f"{many} that an earlier launch had left there could not be ended")
    return tuple(notes)


def _processes(count: int) -> str:
    return "1 process" if count == 1 else f"{count} processes"


def _noise_note(said: str) -> str:
    return f"start-up files print {_quote(said)} at every login"


def _quote(said: str) -> str:
    text = re.sub(r"\s+", " ", said.strip())
    cut = text if len(text) <= _LONGEST_QUOTE else f"{text[:_LONGEST_QUOTE]}..."
    return f'"{cut}"'
