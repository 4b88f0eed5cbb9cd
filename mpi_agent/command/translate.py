"""The user's own words, changed only where the launcher would refuse them or miss us.

Kept in place and untouched is everything that the installed launcher takes. Changed are: options of
another family, which are said in this launcher's words or refused with the equivalent; spellings
that this version refuses; the hostfile, which is read as the source of hosts and rendered anew;
ssh arguments, which move into our ssh_config; and variables that are not set or must not be seen.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field

from mpi_agent.command.arguments import MpirunLine, MpirunOption
from mpi_agent.command.dialects import Dialect
from mpi_agent.command.ssh_arguments import read_ssh_arguments
from mpi_agent.command.topics import Family, Topic
from mpi_agent.environment import is_secret
from mpi_agent.errors import SettingsError

__all__ = ["Translation", "translate", "words_for"]

_FALSE = frozenset({"", "0", "false", "no", "off"})


@dataclass(slots=True, kw_only=True)
class Translation:
    """What became of the user's words.

    Attributes:
        tokens: everything behind the launcher's name.
        names: variables that the ranks are to get by name, beside those still in the tokens.
        values: variables whose value moved from the line into the launcher's environment.
        ssh_options: keyword and value for our ssh_config.
        ssh_rest: ssh arguments that no file can say.
    """

    tokens: tuple[str, ...]
    notes: list[str] = field(default_factory=list)
    names: list[str] = field(default_factory=list)
    values: list[tuple[str, str]] = field(default_factory=list)
    ssh_options: list[tuple[str, str]] = field(default_factory=list)
    ssh_rest: list[str] = field(default_factory=list)


def translate(
    line: MpirunLine, dialect: Dialect, *, hostfile_path: str, environ: Mapping[str, str]
) -> Translation:
    """Return the line's tokens as this launcher takes them, and what was changed.

    Raises:
        SettingsError: an option of another family has no equivalent.
    """
    translator = _Translator(line, dialect, hostfile_path, environ)
    return translator.translate()


class _Translator:
    """Goes through the options of one line; edits are made from the end, so places stay true."""

    def __init__(
        self, line: MpirunLine, dialect: Dialect, hostfile_path: str, environ: Mapping[str, str]
    ) -> None:
        self._line = line
        self._dialect = dialect
        self._hostfile_path = hostfile_path
        self._environ = environ
        self._found = Translation(tokens=line.tokens)
        self._edits: list[tuple[MpirunOption, tuple[str, ...]]] = []

    def translate(self) -> Translation:
        """Return what became of the line."""
        for option in self._line.options:
            self._look_at(option)
        tokens = list(self._line.tokens)
        for option, words in sorted(self._edits, key=lambda edit: -edit[0].at):
            tokens[option.at : option.end] = words
        self._found.tokens = tuple(tokens)
        return self._found

    def _look_at(self, option: MpirunOption) -> None:
        is_foreign = option.family is not None and option.family is not self._dialect.family
        if option.topic is Topic.HOSTFILE:
            self._point_to_our_hostfile(option)
        elif option.topic is Topic.HOSTS and self._dialect.family is Family.HYDRA:
            self._replace_hosts(option)
        elif option.topic in {Topic.VARIABLE, Topic.VARIABLES}:
            self._pass_variables(option, is_foreign=is_foreign)
        elif self._is_ssh_arguments(option):
            self._read_ssh_arguments(option)
        elif is_foreign:
            self._say_in_own_words(option)
        elif option.topic is Topic.PARAMETER and self._renamed(option):
            self._rename(option)
        elif self._contradicts(option):
            note = f"{self._written(option)} is left out: the line gives the ranks per host too"
            self._replace(option, (), note)
        elif option.family is not None:
            self._correct_spelling(option)

    def _renamed(self, option: MpirunOption) -> tuple[str, ...] | None:
        """Return what says a parameter that this version ignores in silence."""
        name = f"OMPI_MCA_{option.values[0]}" if option.values else ""
        return self._dialect.renamed_variables.get(name)

    def _rename(self, option: MpirunOption) -> None:
        words = words_for(self._renamed(option) or (), option.values[-1])
        said = f"is written {shlex.join(words)}" if words else "is left out"
        self._replace(option, words, f"{self._written(option)} {said}, as {self._title} wants it")

    def _contradicts(self, option: MpirunOption) -> bool:
        """Return whether a mapping stands beside a count per host, of which one must go.

        Source: `--npernode 2 --map-by slot`: Open MPI 4.1.4 obeys the mapping alone and starts a
        rank per slot, 5.0.11 ends with 213; measured 2026-11-30.
        """
        if self._dialect.family is not Family.OPEN_MPI:
            return False
        beside = [o for o in self._line.options if o.application == option.application]
        mappings = [o.values[0].lower() for o in beside if o.topic is Topic.MAP_BY and o.values]
        has_count = any(o.topic is Topic.PER_HOST for o in beside)
        if option.topic is Topic.PER_HOST:
            return any("ppr:" in mapping for mapping in mappings)
        is_plain = option.topic is Topic.MAP_BY and mappings[:1] in (["slot"], ["node"], ["core"])
        return is_plain and has_count

    def _replace(self, option: MpirunOption, words: tuple[str, ...], note: str | None) -> None:
        self._edits.append((option, words))
        if note:
            self._found.notes.append(note)

    def _written(self, option: MpirunOption) -> str:
        """Return an option as the user wrote it, for a note; values of variables are left out."""
        words = self._line.tokens[option.at : option.end]
        if option.topic is Topic.VARIABLE:
            words = (option.spelling, _name_and_value(option)[0])
        return shlex.join(words)

    def _point_to_our_hostfile(self, option: MpirunOption) -> None:
        spelling = self._dialect.spellings[Topic.HOSTFILE]
        words = spelling.says(self._hostfile_path)
        if not option.values or words in {w for _, w in self._edits}:
            self._replace(option, (), None)
            return
        note = f"hostfile {option.values[0]} was read and rendered anew"
        self._replace(option, words, note)

    def _replace_hosts(self, option: MpirunOption) -> None:
        if len(self._line.np_counts) > 1:
            return
        self._replace(option, (), f"{self._written(option)} became the hostfile")

    def _pass_variables(self, option: MpirunOption, *, is_foreign: bool) -> None:
        if option.topic is Topic.VARIABLES and option.is_local and not is_foreign:
            return
        if option.topic is Topic.VARIABLES:
            self._pass_by_names(option, is_foreign=is_foreign)
            return
        name, value = _name_and_value(option)
        if value is None and name not in self._environ and "*" not in name:
            note = f"{self._written(option)} is left out: the variable is not set here"
            self._replace(option, (), note)
        elif value is not None and is_secret(name):
            self._found.values.append((name, value))
            self._found.names.append(name)
            self._replace(option, (), f"the value of {name} moved out of the command line")
        elif is_foreign:
            self._pass_in_own_words(option, name, value)
        else:
            self._correct_spelling(option)

    def _pass_in_own_words(self, option: MpirunOption, name: str, value: str | None) -> None:
        words: tuple[str, ...] = ()
        if self._dialect.family is Family.OPEN_MPI:
            word = name if value is None else f"{name}={value}"
            words = self._dialect.spellings[Topic.VARIABLE].says(word)
        else:
            self._found.names.append(name)
            if value is not None:
                self._found.values.append((name, value))
        said = f"is written {words[0]} {name}" if words else "is passed by name"
        self._replace(option, words, f"{self._written(option)} {said}, as {self._title} wants it")

    def _pass_by_names(self, option: MpirunOption, *, is_foreign: bool) -> None:
        """Add a list of names to the one list that is passed."""
        names = [name for value in option.values for name in value.split(",") if name]
        unset = [name for name in names if name not in self._environ]
        self._found.names += [name for name in names if name not in unset]
        note = f"{option.spelling}: {', '.join(unset)} not set here, left out" if unset else None
        if is_foreign and note is None:
            note = f"{option.spelling} is passed by name, as {self._title} wants it"
        self._replace(option, (), note)

    def _is_ssh_arguments(self, option: MpirunOption) -> bool:
        if option.topic is Topic.SSH_ARGUMENTS:
            return True
        knob = self._dialect.spellings[Topic.SSH_ARGUMENTS].knob
        names = {knob.name, *knob.aliases} if knob else set()
        return option.topic is Topic.PARAMETER and any(v in names for v in option.values[:1])

    def _read_ssh_arguments(self, option: MpirunOption) -> None:
        read = read_ssh_arguments(option.values[-1] if option.values else "")
        self._found.ssh_options += read.options
        self._found.ssh_rest += read.rest
        self._replace(option, (), f"{self._written(option)} was read into the job's ssh_config")

    def _say_in_own_words(self, option: MpirunOption) -> None:
        """Replace an option of another family."""
        topic, dialect = option.topic, self._dialect
        words = self._equivalent(option)
        if words == ():
            self._replace(option, (), f"{self._written(option)} is left out: it is so anyway")
        elif words is not None:
            said = f"is written {shlex.join(words)}, as {self._title} wants it"
            self._replace(option, words, f"{self._written(option)} {said}")
        elif topic is not None and topic in dialect.needless:
            reason = dialect.needless[topic]
            self._replace(option, (), f"{self._written(option)} is left out: {reason}")
        else:
            raise self._refusal(option)

    def _equivalent(self, option: MpirunOption) -> tuple[str, ...] | None:
        """Return this launcher's words for an option of another family, None where it has none."""
        topic, value = option.topic, option.values[0] if option.values else ""
        if topic is Topic.MAP_BY:
            return self._mapping(value)
        if topic is None:
            return None
        spelling = self._dialect.spelling(topic)
        return (spelling.says(value) or None) if spelling else None

    def _mapping(self, mapping: str) -> tuple[str, ...] | None:
        """Return the words for another family's mapping; nothing for what happens anyway."""
        words = mapping.lower().split(":")
        if words[0] == "ppr" and words[2:3] in (["node"], ["host"]):
            return self._dialect.spellings[Topic.PER_HOST].says(words[1])
        return self._dialect.mappings.get(words[0])

    def _refusal(self, option: MpirunOption) -> SettingsError:
        written = self._written(option)
        keys = {option.spelling.lstrip("-"), *option.values[:1]}
        instead = next((v for k, v in self._dialect.equivalents.items() if k in keys), None)
        family = option.family.value if option.family else "nobody"
        return SettingsError(
            f'cannot give "{written}" to {self._title}: it is an option of {family}',
            hint=f"write {instead} in its place" if instead else "leave it out",
        )

    def _correct_spelling(self, option: MpirunOption) -> None:
        """Replace a spelling of this family that this version refuses."""
        written = self._line.tokens[option.at : option.end]
        words = self._taken(option, written)
        if words == written:
            return
        said = f"is written {shlex.join(words)}" if words else "is left out"
        self._replace(option, words, f"{self._written(option)} {said}, as {self._title} wants it")

    def _taken(self, option: MpirunOption, written: tuple[str, ...]) -> tuple[str, ...]:
        """Return an option as this version takes it."""
        dialect, bare = self._dialect, option.bare
        value = option.values[0] if option.values else ""
        if bare in dialect.refuses:
            return self._instead(option)
        if (bare, value.lower()) in dialect.needless_values:
            return ()
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

    def _instead(self, option: MpirunOption) -> tuple[str, ...]:
        """Return what this version takes in place of an option that it refuses."""
        dialect, bare = self._dialect, option.bare
        if bare in dialect.instead:
            words = dialect.instead[bare]
            return (*words, *option.values) if words and not option.is_implied else words
        parts = [(bare, word) for value in option.values for word in value.split(",")]
        if parts and all(part in dialect.instead_of_words for part in parts):
            return tuple(word for part in parts for word in dialect.instead_of_words[part])
        raise SettingsError(
            f'cannot give "{self._written(option)}" to {self._title}: it has no such option',
            hint="leave it out",
        )

    @property
    def _title(self) -> str:
        return self._dialect.name.value


def words_for(words: tuple[str, ...], value: str) -> tuple[str, ...]:
    """Return words with a value in them; words without a place for it are said when it is true."""
    if any("{}" in word for word in words):
        return tuple(word.replace("{}", value) for word in words)
    return () if value.lower() in _FALSE else words


def _name_and_value(option: MpirunOption) -> tuple[str, str | None]:
    """Return a variable's name and value: `NAME=VALUE` is one word, Hydra's `NAME VALUE` two."""
    first = option.values[0] if option.values else ""
    if len(option.values) > 1:
        return first, option.values[1]
    name, equals, value = first.partition("=")
    return name, value if equals else None
