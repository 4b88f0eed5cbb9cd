"""The user's own mpirun line, read without losing a byte.

Only the options that the agent must know are understood; all tokens stay as they were, in place.
What stands behind the first word that is no option belongs to the program and is never looked at,
except for the `:` that starts another application.

Source: mpirun(1) of Open MPI 4.1.4 and prterun(1) of PRRTE 3.0 for how many values an option
takes.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from pathlib import PurePath

__all__ = [
    "MpirunLine",
    "MpirunOption",
    "ProgramKind",
    "is_question",
    "kind_of_program",
    "moves_before_it_runs",
    "program_word",
    "read_mpirun_line",
]

_LAUNCHERS = frozenset(
    {"mpirun", "mpiexec", "orterun", "prterun", "mpiexec.hydra", "mpirun.openmpi"}
)
_OTHER_LAUNCHERS = frozenset({"horovodrun", "deepspeed", "torchrun", "accelerate"})
_SHELLS = frozenset({"sh", "bash", "dash", "zsh"})
_ALIASES = {
    "n": "np",
    "c": "np",
    "H": "host",
    "machinefile": "hostfile",
    "default-hostfile": "hostfile",
    "wd": "wdir",
    "npernode": "N",
    "gmca": "mca",
    "bynode": "map-by",
    "byslot": "map-by",
    "pernode": "N",
}
_VALUES_2 = frozenset("mca gmca omca prtemca pmixmca tune-mca".split())
_VALUES_1 = frozenset(
    "n np c H host hostfile machinefile default-hostfile x N npernode npersocket ppr map-by"
    " bind-to rank-by wdir wd path prefix output-filename output display stdin timeout"
    " report-uri tune am app max-restarts rankfile rf cpu-list cpu-set slot-list dvm-uri"
    " dvm ompi-server personality pset preload-files preload-files-dest-dir runtime-options"
    " launch-agent spawn-timeout with-ft memory-alloc-kind num-nodes debugger host-list"
    " add-host add-hostfile".split()
)


class ProgramKind(Enum):
    """What stands behind `--`."""

    MPIRUN_LINE = "an mpirun command"
    OTHER_LAUNCHER = "a launcher or shell of its own"
    BARE = "a program"


@dataclass(frozen=True, slots=True, kw_only=True)
class MpirunOption:
    """One option of the line.

    Attributes:
        name: without dashes, aliases folded (`n` and `c` are `np`, `H` is `host`).
        spelling: as written, dashes included.
        at: index of its token; its values follow it unless `is_joined`.
        is_joined: written as `--name=value`, one token.
    """

    name: str
    spelling: str
    values: tuple[str, ...]
    at: int
    is_joined: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class MpirunLine:
    """An mpirun command: what it starts with, every later token, and the options found.

    Attributes:
        called_as: the first word, such as `mpirun` or `/usr/bin/mpirun`.
        tokens: everything behind it, unchanged.
        options: those in front of each program, in order.
        np_counts: processes of each application, None where the line does not say.
        program: first word of the first program, None when only options stand there.
    """

    called_as: str
    tokens: tuple[str, ...]
    options: tuple[MpirunOption, ...]
    np_counts: tuple[str | None, ...]
    program: str | None

    def values_of(self, name: str) -> tuple[str, ...]:
        """Return the first value of each occurrence of an option."""
        return tuple(o.values[0] if o.values else "" for o in self.options if o.name == name)

    def has(self, *names: str) -> bool:
        """Return whether one of the options stands in the line."""
        return any(option.name in names for option in self.options)

    def parameter(self, name: str) -> MpirunOption | None:
        """Return the option that sets an MCA parameter, None when the line does not."""
        for option in self.options:
            if option.name in _VALUES_2 and option.values[:1] == (name,):
                return option
        return None


def kind_of_program(program: tuple[str, ...]) -> ProgramKind:
    """Return what the program is, judged by its first word, and for a shell by what it runs.

    A shell with a script is taken for one that calls a launcher itself; with `-c` its text tells.
    """
    name = PurePath(program[0]).name
    if name in _LAUNCHERS:
        return ProgramKind.MPIRUN_LINE
    if name in _OTHER_LAUNCHERS:
        return ProgramKind.OTHER_LAUNCHER
    if name not in _SHELLS:
        return ProgramKind.BARE
    text = _shell_text(program)
    words = set(re.split(r"[^\w.]+", text or ""))
    calls_launcher = text is None or bool(words & (_LAUNCHERS | _OTHER_LAUNCHERS))
    return ProgramKind.OTHER_LAUNCHER if calls_launcher else ProgramKind.BARE


def _shell_text(program: tuple[str, ...]) -> str | None:
    """Return what a shell is given with -c, also among others as in `-ec`; None for a script."""
    for option, word in itertools.pairwise(program[1:]):
        if not option.startswith("-"):
            return None
        if option.endswith("c") and not option.startswith("--"):
            return word
    return None


def is_question(program: tuple[str, ...]) -> bool:
    """Return whether a line asks mpirun something and runs nothing, as `mpirun --version` does."""
    is_mpirun = bool(program) and kind_of_program(program) is ProgramKind.MPIRUN_LINE
    return is_mpirun and program[1:2] in (("--version",), ("-V",), ("--help",), ("-h",))


def program_word(program: tuple[str, ...]) -> str:
    """Return the first word of what the ranks run: for an mpirun line, what stands in it."""
    if kind_of_program(program) is ProgramKind.MPIRUN_LINE:
        return read_mpirun_line(program).program or program[0]
    return program[0]


def moves_before_it_runs(program: tuple[str, ...]) -> bool:
    """Return whether an mpirun line changes directory or PATH before it looks for the program."""
    if kind_of_program(program) is not ProgramKind.MPIRUN_LINE:
        return False
    return read_mpirun_line(program).has("wdir", "path", "set-cwd-to-session-dir")


def read_mpirun_line(program: tuple[str, ...]) -> MpirunLine:
    """Return the parts of an mpirun command whose first word is the launcher."""
    tokens = program[1:]
    options: list[MpirunOption] = []
    counts: list[str | None] = []
    program_word: str | None = None
    at = 0
    while at < len(tokens):
        found = list(_read_options(tokens, at))
        options += found
        counts.append(next((o.values[0] for o in found if o.name == "np" and o.values), None))
        at = _end_of_options(found, at)
        if at < len(tokens) and tokens[at] == "--":
            at += 1
        if program_word is None and at < len(tokens):
            program_word = tokens[at]
        while at < len(tokens) and tokens[at] != ":":
            at += 1
        at += 1
    return MpirunLine(
        called_as=program[0],
        tokens=tokens,
        options=tuple(options),
        np_counts=tuple(counts) or (None,),
        program=program_word,
    )


def _end_of_options(found: list[MpirunOption], start: int) -> int:
    if not found:
        return start
    last = found[-1]
    return last.at + 1 + (0 if last.is_joined else len(last.values))


def _read_options(tokens: tuple[str, ...], at: int) -> Iterator[MpirunOption]:
    while at < len(tokens) and tokens[at].startswith("-") and tokens[at] not in {"-", "--"}:
        spelling, equals, joined = tokens[at].partition("=")
        bare = spelling.lstrip("-")
        name = _ALIASES.get(bare, bare)
        if equals:
            yield MpirunOption(
                name=name, spelling=spelling, values=(joined,), at=at, is_joined=True
            )
            at += 1
            continue
        count = 2 if bare in _VALUES_2 else 1 if bare in _VALUES_1 else 0
        values = tokens[at + 1 : at + 1 + count]
        if not count:
            values = {"bynode": ("node",), "byslot": ("slot",), "pernode": ("1",)}.get(bare, ())
        yield MpirunOption(name=name, spelling=spelling, values=values, at=at, is_joined=not count)
        at += 1 + count
