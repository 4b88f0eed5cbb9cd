"""What stands behind `--`: an mpirun command, a launcher of its own, or a program for the ranks."""

from __future__ import annotations

import re
from collections.abc import Iterator
from enum import Enum
from pathlib import PurePath

from mpi_agent.command.arguments import LAUNCHERS, read_mpirun_line
from mpi_agent.command.topics import Family, Topic

__all__ = [
    "ProgramKind",
    "is_question",
    "kind_of_program",
    "module_place",
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
_SHELL_OPTIONS_WITH_A_VALUE = frozenset({"--rcfile", "--init-file"})
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
    if name in _OTHER_LAUNCHERS or _module_of(program) in _LAUNCHING_MODULES:
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


def module_place(program: tuple[str, ...]) -> int | None:
    """Return the index of the word with the module that Python runs with -m; None without one."""
    if not _PYTHON.fullmatch(PurePath(program[0]).name):
        return None
    words = iter(enumerate(program[1:], start=1))
    for at, word in words:
        if word == "-m":
            return at + 1 if at + 1 < len(program) else None
        if word.startswith("-m"):
            return at
        if word in _PYTHON_OPTIONS_WITH_A_VALUE:
            next(words, None)
        elif not word.startswith("-") or word in {"-c", "-"}:
            return None
    return None


def _module_of(program: tuple[str, ...]) -> str | None:
    at = module_place(program)
    return None if at is None else program[at].removeprefix("-m")


def _shell_text(program: tuple[str, ...]) -> str | None:
    """Return what a shell is given with -c, also among others as in `-ec`; None for a script.

    The text is the first word that is neither an option nor the value of one: `o` and `O` among
    the letters have one each, as in `bash -eo pipefail -c TEXT`.
    """
    words = iter(program[1:])
    has_text = False
    for word in words:
        if not word.startswith(("-", "+")) or word in {"-", "--"}:
            return _text_behind(word, words) if has_text else None
        is_long = word.startswith("--")
        has_text = has_text or (not is_long and word.startswith("-") and "c" in word)
        letters = 0 if is_long else word.count("o") + word.count("O")
        for _ in range(letters + (word in _SHELL_OPTIONS_WITH_A_VALUE)):
            next(words, None)
    return None


def _text_behind(word: str, words: Iterator[str]) -> str | None:
    return next(words, None) if word in {"-", "--"} else word


def is_question(program: tuple[str, ...], family: Family | None = None) -> bool:
    """Return whether a line asks the launcher something and runs nothing.

    Besides `--version` and `--help` these are Hydra's `-info` and `-bootstrap -help`.

    Args:
        family: of the installed launcher; None as its name tells.
    """
    if not program or kind_of_program(program) is not ProgramKind.MPIRUN_LINE:
        return False
    line = read_mpirun_line(program, family)
    return line.has(Topic.QUESTION) or any(
        o.values[:1] and o.values[0] in _HELP for o in line.options
    )


def program_word(program: tuple[str, ...], family: Family | None = None) -> str:
    """Return the first word of what the ranks run: for an mpirun line, what stands in it.

    Args:
        family: of the installed launcher; None as its name tells.
    """
    if kind_of_program(program) is ProgramKind.MPIRUN_LINE:
        return read_mpirun_line(program, family).program or program[0]
    return program[0]


def moves_before_it_runs(program: tuple[str, ...], family: Family | None = None) -> bool:
    """Return whether an mpirun line changes directory or PATH before it looks for the program.

    Args:
        family: of the installed launcher; None as its name tells.
    """
    if kind_of_program(program) is not ProgramKind.MPIRUN_LINE:
        return False
    line = read_mpirun_line(program, family)
    return line.has(Topic.WORKING_DIRECTORY, Topic.SEARCH_PATH)
