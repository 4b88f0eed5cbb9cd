"""What one launcher takes in place of an option that it does not: another family's, or its own.

Between families an option is said by its topic; within a family versions refuse spellings.
"""

from __future__ import annotations

import re
import shlex

from mpi_agent.command.arguments import MpirunLine, MpirunOption
from mpi_agent.command.dialects import Dialect, Spelling
from mpi_agent.command.hiding import shown_words
from mpi_agent.command.topics import Family, Topic
from mpi_agent.errors import SettingsError

__all__ = ["contradicts", "equivalent", "is_foreign_value", "refusal", "taken", "words_for"]

_MAPPINGS_OF_OPEN_MPI = frozenset({"slot", "node", "ppr"})
_BINDING_OF_HYDRA = re.compile(r"[a-z0-9]+:[0-9]+", re.IGNORECASE)
_FALSE = frozenset({"", "0", "false", "no", "off"})


def is_foreign_value(option: MpirunOption, dialect: Dialect) -> bool:
    """Return whether an option that both families have is given a value of the other's.

    Source: MPICH 4.0.2 passes over `-map-by ppr:1:node` and fills the first host, unless it
    binds: then its proxy fails; Open MPI 4.1.4 and 5.0.11 end at `--bind-to core:2`.
    """
    value = _value_of(option).lower()
    if dialect.family is Family.HYDRA:
        return option.topic is Topic.MAP_BY and value.split(":")[0] in _MAPPINGS_OF_OPEN_MPI
    return option.topic is Topic.BIND_TO and bool(_BINDING_OF_HYDRA.fullmatch(value))


def contradicts(option: MpirunOption, line: MpirunLine, dialect: Dialect) -> bool:
    """Return whether a mapping stands beside a count per host, and it is this one that must go.

    Source: `--npernode 2 --map-by slot`: Open MPI 4.1.4 obeys the mapping alone and starts a
    rank per slot, 5.0.11 ends with 213; measured 2026-11-30. For Hydra both become -ppn, of
    which MPICH 4.0.2 and Intel MPI take one; -map-by core beside it is Hydra's own.
    """
    beside = [o for o in line.options if o.application == option.application]
    mappings = [o.values[0].lower() for o in beside if o.topic is Topic.MAP_BY and o.values]
    has_count = any(o.topic is Topic.PER_HOST for o in beside)
    if option.topic is Topic.PER_HOST:
        return any("ppr:" in mapping for mapping in mappings)
    plain = {"slot", "node"} | ({"core"} if dialect.family is Family.OPEN_MPI else set())
    return option.topic is Topic.MAP_BY and has_count and not plain.isdisjoint(mappings[:1])


def equivalent(option: MpirunOption, dialect: Dialect) -> tuple[str, ...] | None:
    """Return a launcher's words for an option of another family.

    None where it has none; no words where what is asked for happens anyway.
    """
    topic, value = option.topic, _value_of(option)
    if topic is Topic.MAP_BY:
        return _mapping(value, dialect)
    if topic is None or _is_nothing_to_say(option, dialect):
        return None
    spelling = dialect.spelling(topic)
    return (spelling.says(value) or None) if spelling else None


def refusal(option: MpirunOption, written: str, dialect: Dialect) -> SettingsError:
    """Return the error for an option of another family that has no equivalent word.

    Args:
        written: the option as it may be shown.
    """
    keys = {option.bare, *option.values[:1]}
    instead = next((v for k, v in dialect.equivalents.items() if k in keys), None)
    if option.topic is Topic.BIND_TO and _is_nothing_to_say(option, dialect):
        count = _value_of(option).rpartition(":")[2]
        instead = f"PE={count} behind a mapping, as in --map-by socket:PE={count},"
    whose = next(family.value for family in Family if family is not dialect.family)
    return SettingsError(
        f'cannot give "{written}" to {dialect.name.value}: it is an option of {whose}',
        hint=f"write {instead} in its place" if instead else "leave it out",
    )


def taken(option: MpirunOption, written: tuple[str, ...], dialect: Dialect) -> tuple[str, ...]:
    """Return an option of the launcher's own family as this version takes it.

    Args:
        written: its tokens.

    Raises:
        SettingsError: this version has nothing in its place.
    """
    bare, word = option.bare, _value_of(option).lower()
    if bare in dialect.refuses:
        return _instead(option, written, dialect)
    if (bare, word) in dialect.needless_values:
        return ()
    if (bare, word) in dialect.instead_of_words:
        return dialect.instead_of_words[bare, word]
    needs_two = bare in dialect.needs_two_words
    needs_one = bare in dialect.needs_one_dash
    spelling, rest = option.spelling, written[1:]
    if option.is_joined and (not dialect.takes_equals or needs_two or needs_one):
        rest = option.values
    elif option.is_joined:
        return written
    if needs_one:
        spelling = f"-{bare}"
    elif needs_two or (dialect.one_dash is not None and bare not in dialect.one_dash):
        spelling = f"--{bare}"
    return (spelling, *rest)


def words_for(words: tuple[str, ...], value: str) -> tuple[str, ...]:
    """Return words with a value in them; words without a place for it are said when it is true."""
    has_place = any("{}" in word for word in words)
    return Spelling(words=words).says(value) if has_place or value.lower() not in _FALSE else ()


def _value_of(option: MpirunOption) -> str:
    return option.values[0] if option.values else ""


def _is_nothing_to_say(option: MpirunOption, dialect: Dialect) -> bool:
    """Return whether Open MPI has no word for what Hydra can say.

    Its plm is called rsh in 4, which ends at `--mca plm ssh`, and dials with ssh anyway.
    """
    binds_many = option.topic is Topic.BIND_TO and bool(
        _BINDING_OF_HYDRA.fullmatch(_value_of(option))
    )
    is_for_hydra = dialect.family is Family.HYDRA
    return not is_for_hydra and (option.topic is Topic.LAUNCHER or binds_many)


def _mapping(mapping: str, dialect: Dialect) -> tuple[str, ...] | None:
    """Return the words for another family's mapping; nothing for what happens anyway."""
    words = mapping.lower().split(":")
    if words[0] == "ppr" and words[2:3] in (["node"], ["host"]):
        return dialect.spellings[Topic.PER_HOST].says(words[1])
    return dialect.mappings.get(words[0])


def _instead(option: MpirunOption, written: tuple[str, ...], dialect: Dialect) -> tuple[str, ...]:
    """Return what this version takes in place of an option that it refuses."""
    bare = option.bare
    if bare in dialect.instead:
        words = dialect.instead[bare]
        return (*words, *option.values) if words and not option.is_implied else words
    parts = [(bare, word) for value in option.values for word in value.split(",")]
    if parts and all(part in dialect.instead_of_words for part in parts):
        return tuple(word for part in parts for word in dialect.instead_of_words[part])
    shown = shlex.join(shown_words(written))
    raise SettingsError(
        f'cannot give "{shown}" to {dialect.name.value}: it has no such option',
        hint="leave it out",
    )
