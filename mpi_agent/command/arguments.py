"""The user's own mpirun line, read without losing a byte.

All tokens stay as they were, in place; the options among them are found and their topics told. The
first word that is neither an option nor the value of one is the program: what stands behind it is
never looked at, except for the `:` that starts another application. Where an option that nobody
knows stands right in front of it, that is said as a doubt.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import PurePath

from mpi_agent.command.hiding import shown_words
from mpi_agent.command.topics import Family, Topic
from mpi_agent.command.vocabulary import DIFFERS_WITHIN_FAMILY, Meaning, meaning_of

__all__ = [
    "LAUNCHERS",
    "LAUNCHERS_WITHOUT_DIALECT",
    "MpirunLine",
    "MpirunOption",
    "family_of_name",
    "read_mpirun_line",
]

_FAMILIES = {
    "orterun": Family.OPEN_MPI,
    "prterun": Family.OPEN_MPI,
    "mpirun.openmpi": Family.OPEN_MPI,
    "mpiexec.openmpi": Family.OPEN_MPI,
    "mpiexec.hydra": Family.HYDRA,
    "mpirun.mpich": Family.HYDRA,
    "mpiexec.mpich": Family.HYDRA,
}
LAUNCHERS_WITHOUT_DIALECT = frozenset({"mpirun_rsh"})
"""Names of launchers that are recognised and then refused: mpirun_rsh is MVAPICH's."""
LAUNCHERS = frozenset({"mpirun", "mpiexec", *_FAMILIES, *LAUNCHERS_WITHOUT_DIALECT})


@dataclass(frozen=True, slots=True, kw_only=True)
class MpirunOption:
    """One option of the line.

    Attributes:
        topic: what it is about; None where only its number of values matters, or nobody knows it.
        family: in whose table it was found, the line's own before the other; None in neither.
        spelling: as written, dashes included, without a joined value.
        values: fewer than it needs at the end of the line.
        at: index of its token; its values follow it.
        application: which of the programs separated by `:` it stands in front of, from 0.
        is_joined: its first value is in its own token, behind `=`.
        is_implied: the values stand nowhere in the line, as `node` of `--bynode`.
    """

    topic: Topic | None
    family: Family | None
    spelling: str
    values: tuple[str, ...]
    at: int
    application: int
    is_joined: bool = False
    is_implied: bool = False

    @property
    def bare(self) -> str:
        """The spelling without dashes."""
        return self.spelling.lstrip("-")

    @property
    def end(self) -> int:
        """Index of the first token behind the option and its values."""
        return self.at + 1 + (0 if self.is_implied else len(self.values) - self.is_joined)

    @property
    def is_local(self) -> bool:
        """Whether it counts for its own application alone."""
        meaning = meaning_of(self.bare, self.family) if self.family is not None else None
        return meaning is not None and meaning.is_local


@dataclass(frozen=True, slots=True, kw_only=True)
class MpirunLine:
    """An mpirun command: what it starts with, every later token, and the options found.

    Attributes:
        called_as: the first word, such as `mpirun` or `/usr/bin/mpirun`.
        tokens: everything behind it, unchanged.
        options: those in front of each program, in order.
        np_counts: processes of each application, None where the line does not say.
        program: first word of the first program, None when only options stand there.
        program_words: for each application the index of its program's first word, or where it
            would stand when it is missing.
        ends_of_options: index of each `--` between options and a program.
        doubts: one sentence for each word that may have been misunderstood.
    """

    called_as: str
    tokens: tuple[str, ...]
    options: tuple[MpirunOption, ...]
    np_counts: tuple[str | None, ...]
    program: str | None
    program_words: tuple[int, ...]
    ends_of_options: tuple[int, ...] = ()
    doubts: tuple[str, ...] = ()

    def options_of(self, topic: Topic) -> tuple[MpirunOption, ...]:
        """Return the options about a topic, in order."""
        return tuple(option for option in self.options if option.topic is topic)

    def values_of(self, topic: Topic) -> tuple[str, ...]:
        """Return the first value of each option about a topic, "" where it has none."""
        return tuple((*option.values, "")[0] for option in self.options_of(topic))

    def has(self, *topics: Topic) -> bool:
        """Return whether an option about one of the topics stands in the line."""
        return any(option.topic in topics for option in self.options)

    def parameter(self, name: str) -> MpirunOption | None:
        """Return the option that sets an MCA parameter, None when the line does not."""
        found = (o for o in self.options_of(Topic.PARAMETER) if o.values[:1] == (name,))
        return next(found, None)


def family_of_name(called_as: str) -> Family | None:
    """Return the family that a launcher's name gives away, None for `mpirun` and `mpiexec`."""
    return _FAMILIES.get(PurePath(called_as).name)


def read_mpirun_line(program: tuple[str, ...], family: Family | None = None) -> MpirunLine:
    """Return the parts of an mpirun command whose first word is the launcher.

    Args:
        family: whose line it is, its options are looked up there first. None: as the launcher's
            name tells, otherwise Open MPI.
    """
    tokens = program[1:]
    own = family or family_of_name(program[0]) or Family.OPEN_MPI
    options: list[MpirunOption] = []
    starts: list[int] = []
    ends: list[int] = []
    counts: list[str | None] = []
    doubts: list[str] = []
    at = 0
    while at < len(tokens) or not starts:
        found = tuple(_read_options(tokens, at, own, application=len(starts)))
        at = found[-1].end if found else at
        doubts += _doubts_about(found, tokens[at : at + 1])
        if tokens[at : at + 1] == ("--",):
            ends.append(at)
            at += 1
        options += found
        counts.append(next((o.values[0] for o in found if o.topic is Topic.NP and o.values), None))
        starts.append(at)
        while at < len(tokens) and tokens[at] != ":":
            at += 1
        at += 1
    first = tokens[starts[0] : starts[0] + 1]
    return MpirunLine(
        called_as=program[0],
        tokens=tokens,
        options=tuple(options),
        np_counts=tuple(counts),
        program=first[0] if first and first != (":",) else None,
        program_words=tuple(starts),
        ends_of_options=tuple(ends),
        doubts=tuple(doubts),
    )


def _read_options(
    tokens: tuple[str, ...], at: int, own: Family, *, application: int
) -> Iterator[MpirunOption]:
    while at < len(tokens) and tokens[at].startswith("-") and tokens[at] not in {"-", "--"}:
        spelling, equals, joined = tokens[at].partition("=")
        family, meaning = _look_up(spelling.lstrip("-"), own)
        values = ((joined,) if equals else ()) + tokens[at + 1 :]
        count = _count_of(meaning, values, has_joined_value=bool(equals))
        implied = meaning.implied if meaning is not None and not count else ()
        option = MpirunOption(
            topic=meaning.topic if meaning is not None else None,
            family=family,
            spelling=spelling,
            values=values[:count] or implied,
            at=at,
            application=application,
            is_joined=bool(equals),
            is_implied=bool(implied),
        )
        yield option
        at = option.end


def _look_up(bare: str, own: Family) -> tuple[Family | None, Meaning | None]:
    """Return what an option means to its own family, or else to the other."""
    for family in (own, *(other for other in Family if other is not own)):
        if meaning := meaning_of(bare, family):
            return family, meaning
    return None, None


def _count_of(meaning: Meaning | None, values: tuple[str, ...], *, has_joined_value: bool) -> int:
    """Return how many words are values, a joined one always among them."""
    count = meaning.value_count if meaning is not None else 0
    first = values[0] if values else ""
    if meaning is not None and meaning.takes_pair and "=" in first:
        count = 1
    if meaning is not None and meaning.may_take_library and ".so" in first:
        count = 1
    return max(count, int(has_joined_value))


def _doubts_about(found: tuple[MpirunOption, ...], behind: tuple[str, ...]) -> Iterator[str]:
    for option in found:
        if option.family is not None and (option.bare, option.family) in DIFFERS_WITHIN_FAMILY:
            said = DIFFERS_WITHIN_FAMILY[option.bare, option.family]
            yield f"option {option.spelling} {said}"
    last = found[-1] if found else None
    if last is None or last.family is not None or last.is_joined or behind in ((), ("--",), (":",)):
        return
    word = shown_words(behind)[0]
    yield (
        f'option {last.spelling} is not known; "{word}" behind it is taken for the program '
        f"(write {last.spelling}={word} if it is its value)"
    )
