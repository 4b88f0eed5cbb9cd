"""What stands behind `--`: an mpirun command, a launcher of its own, or a program for the ranks."""

from __future__ import annotations

import itertools
import re
from enum import Enum
from pathlib import PurePath

from mpi_agent.command.arguments import LAUNCHERS, read_mpirun_line
from mpi_agent.command.topics import Topic

__all__ = [
    "ProgramKind",
    "is_question",
    "kind_of_program",
    "moves_before_it_runs",
    "program_word",
]

_OTHER_LAUNCHERS = frozenset(
    {"horovodrun", "deepspeed", "torchrun", "accelerate", "pdsh", "parallel-ssh", "pssh"}
)
_LAUNCHING_MODULES = frozenset(
    "torch.distributed.run torch.distributed.launch horovod.runner horovod.runner.launch"
    " horovod.run horovod.runner.run_task accelerate.commands.launch"
    " deepspeed.launcher.runner deepspeed.launcher.launch".split()
)
_ALL_LAUNCHERS = LAUNCHERS | _OTHER_LAUNCHERS
_IN_FRONT_OF_A_PROGRAM = frozenset(
    "env exec time timeout nice ionice nohup stdbuf setsid taskset numactl sudo strace tini"
    " dumb-init".split()
)
_SHELLS = frozenset({"sh", "bash", "dash", "zsh"})
_PYTHON = re.compile(r"(?:python|pypy)[\d.]*")
_PYTHON_OPTIONS_WITH_A_VALUE = frozenset({"-W", "-X", "--check-hash-based-pycs"})
_HELP = frozenset({"-h", "-help", "--help"})


class ProgramKind(Enum):
    """What stands behind `--`."""

    MPIRUN_LINE = "an mpirun command"
    OTHER_LAUNCHER = "a launcher or shell of its own"
    BARE = "a program"


def kind_of_program(program: tuple[str, ...]) -> ProgramKind:
    """Return what the program is, judged by its first word, and for a shell by what it runs.

    A shell with a script is taken for one that calls a launcher itself; with `-c` its text tells.
    Python counts as a launcher when it runs the module of one with `-m`, and so does what people
    put in front of an mpirun: our own mpirun around theirs would run theirs once for each rank.
    """
    name = PurePath(program[0]).name
    if name in LAUNCHERS:
        return ProgramKind.MPIRUN_LINE
    if name in _OTHER_LAUNCHERS or _module_of(name, program) in _LAUNCHING_MODULES:
        return ProgramKind.OTHER_LAUNCHER
    if name in _IN_FRONT_OF_A_PROGRAM:
        names = {PurePath(word).name for word in program[1:]}
        return ProgramKind.OTHER_LAUNCHER if names & _ALL_LAUNCHERS else ProgramKind.BARE
    if name not in _SHELLS:
        return ProgramKind.BARE
    text = _shell_text(program)
    words = set(re.split(r"[^\w.]+", text or ""))
    calls_launcher = text is None or bool(words & _ALL_LAUNCHERS)
    calls_module = bool(words & _LAUNCHING_MODULES)
    return ProgramKind.OTHER_LAUNCHER if calls_launcher or calls_module else ProgramKind.BARE


def _module_of(name: str, program: tuple[str, ...]) -> str | None:
    """Return the module that Python runs with -m, None for a script or another program."""
    if not _PYTHON.fullmatch(name):
        return None
    words = iter(program[1:])
    for word in words:
        if word == "-m":
            return next(words, None)
        if word.startswith("-m"):
            return word[2:]
        if word in _PYTHON_OPTIONS_WITH_A_VALUE:
            next(words, None)
        elif not word.startswith("-") or word in {"-c", "-"}:
            return None
    return None


def _shell_text(program: tuple[str, ...]) -> str | None:
    """Return what a shell is given with -c, also among others as in `-ec`; None for a script."""
    for option, word in itertools.pairwise(program[1:]):
        if not option.startswith("-"):
            return None
        if option.endswith("c") and not option.startswith("--"):
            return word
    return None


def is_question(program: tuple[str, ...]) -> bool:
    """Return whether a line asks the launcher something and runs nothing.

    Besides `--version` and `--help` these are Hydra's `-info` and `-bootstrap -help`.
    """
    if not program or kind_of_program(program) is not ProgramKind.MPIRUN_LINE:
        return False
    line = read_mpirun_line(program)
    return line.has(Topic.QUESTION) or any(
        o.values[:1] and o.values[0] in _HELP for o in line.options
    )


def program_word(program: tuple[str, ...]) -> str:
    """Return the first word of what the ranks run: for an mpirun line, what stands in it."""
    if kind_of_program(program) is ProgramKind.MPIRUN_LINE:
        return read_mpirun_line(program).program or program[0]
    return program[0]


def moves_before_it_runs(program: tuple[str, ...]) -> bool:
    """Return whether an mpirun line changes directory or PATH before it looks for the program."""
    if kind_of_program(program) is not ProgramKind.MPIRUN_LINE:
        return False
    return read_mpirun_line(program).has(Topic.WORKING_DIRECTORY, Topic.SEARCH_PATH)
