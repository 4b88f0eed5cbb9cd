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
from mpi_agent.command.equivalents import (
    contradicts,
    equivalent,
    is_foreign_value,
    refusal,
    taken,
    words_for,
)
from mpi_agent.command.hiding import shown_words
from mpi_agent.command.ssh_arguments import read_ssh_arguments
from mpi_agent.command.topics import Family, Topic
from mpi_agent.variable_names import is_secret, variables_that_fit

__all__ = ["Translation", "translate"]


@dataclass(slots=True, kw_only=True)
class Translation:
    """What became of the user's words.

    Attributes:
        tokens: everything behind the launcher's name.
        names: variables that the ranks are to get by name, beside those still in the tokens.
        values: variables whose value moved from the line into the launcher's environment.
        ssh_options: keyword and value for our ssh_config.
        ssh_rest: ssh arguments that no file can say.
        names_only: nothing but these names may travel, as the line says.
    """

    tokens: tuple[str, ...]
    notes: list[str] = field(default_factory=list)
    names: list[str] = field(default_factory=list)
    values: list[tuple[str, str]] = field(default_factory=list)
    ssh_options: list[tuple[str, str]] = field(default_factory=list)
    ssh_rest: list[str] = field(default_factory=list)
    names_only: bool = False


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
        self._edits: list[tuple[range, tuple[str, ...]]] = []

    def translate(self) -> Translation:
        """Return what became of the line."""
        for option in self._line.options:
            self._look_at(option)
        self._pass_names_only()
        self._end_options()
        tokens = list(self._line.tokens)
        for place, words in sorted(self._edits, key=lambda edit: -edit[0].start):
            tokens[place.start : place.stop] = words
        self._found.tokens = tuple(tokens)
        return self._found

    def _look_at(self, option: MpirunOption) -> None:
        is_foreign = option.family is not None and option.family is not self._dialect.family
        if option.topic is Topic.HOSTFILE:
            self._point_to_our_hostfile(option)
        elif option.topic is Topic.HOSTS and (is_foreign or self._is_for_hydra):
            self._replace_hosts(option)
        elif option.topic in {Topic.VARIABLE, Topic.VARIABLES}:
            self._pass_variables(option, is_foreign=is_foreign)
        elif self._is_ssh_arguments(option):
            self._read_ssh_arguments(option)
        elif contradicts(option, self._line, self._dialect):
            note = f"{self._written(option)} is left out: the line gives the ranks per host too"
            self._replace(option, (), note)
        elif is_foreign or is_foreign_value(option, self._dialect):
            self._say_in_own_words(option)
        elif option.topic is Topic.PARAMETER and self._renamed(option):
            self._rename(option)
        elif option.family is not None:
            self._correct_spelling(option)

    def _pass_names_only(self) -> None:
        """Have Hydra's -genvnone said by a list, where names moved out of the line.

        Source: MPICH 4.0.2 ends at -genvnone beside -genvlist, "duplicate environment setting".
        """
        nothing = [o for o in self._line.options_of(Topic.NO_VARIABLES) if not o.is_local]
        if self._dialect.family is not Family.HYDRA or not self._found.names or not nothing:
            return
        self._found.names_only = True
        for option in nothing:
            note = f"{option.spelling} became a list of {', '.join(self._found.names)}"
            self._replace(option, (), note)

    def _end_options(self) -> None:
        """Leave out what ends the options in front of a program, which only Open MPI takes.

        Source: `mpiexec -n 2 -- ./a` is an "unrecognized argument --" for MPICH 4.0.2, 5.0.2 and
        Intel MPI 2021.18, and ends with 255; tried 2026-11.
        """
        if not self._is_for_hydra:
            return
        for at in self._line.ends_of_options:
            self._edits.append((range(at, at + 1), ()))
            self._found.notes.append(f"-- is left out, as {self._title} does not take it")

    def _renamed(self, option: MpirunOption) -> tuple[str, ...] | None:
        """Return what says a parameter that this version ignores in silence."""
        name = f"OMPI_MCA_{option.values[0]}" if option.values else ""
        return self._dialect.renamed_variables.get(name)

    def _rename(self, option: MpirunOption) -> None:
        words = words_for(self._renamed(option) or (), option.values[-1])
        said = f"is written {shlex.join(shown_words(words))}" if words else "is left out"
        self._replace(option, words, f"{self._written(option)} {said}, as {self._title} wants it")

    def _replace(self, option: MpirunOption, words: tuple[str, ...], note: str | None) -> None:
        self._edits.append((range(option.at, option.end), words))
        if note:
            self._found.notes.append(note)

    def _written(self, option: MpirunOption) -> str:
        """Return an option as the user wrote it, for a note; values of variables are left out."""
        words = self._line.tokens[option.at : option.end]
        if option.topic is Topic.VARIABLE:
            words = (option.spelling, _name_and_value(option)[0])
        return shlex.join(shown_words(words))

    def _point_to_our_hostfile(self, option: MpirunOption) -> None:
        spelling = self._dialect.spellings[Topic.HOSTFILE]
        words = spelling.says(self._hostfile_path)
        if not option.values or words in {w for _, w in self._edits}:
            self._replace(option, (), None)
            return
        note = f"hostfile {option.values[0]} was read and rendered anew"
        self._replace(option, words, note)

    @property
    def _is_for_hydra(self) -> bool:
        return self._dialect.family is Family.HYDRA

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
        if value is None and name.endswith("*"):
            self._pass_all_that_fit(option, name)
        elif value is None and name not in self._environ:
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

    def _pass_all_that_fit(self, option: MpirunOption, pattern: str) -> None:
        """Name each variable that is set here for a pattern such as `LAB_*`.

        Source: Open MPI 5.0.11 expands it, 4.1.4 warns that it is not set, and Hydra takes its
        lists literally.
        """
        fitting = variables_that_fit(pattern, self._environ)
        note = f"{self._written(option)} stands for {', '.join(fitting.names)}"
        if not fitting.names:
            note = f"{self._written(option)} is left out: it fits no variable that may travel"
        if fitting.left_out:
            note += f"; left out: {', '.join(fitting.left_out)}, as each host has its own"
        words: tuple[str, ...] = ()
        if self._is_for_hydra or len(self._line.np_counts) == 1:
            self._found.names += fitting.names
        else:
            says = self._dialect.spellings[Topic.VARIABLE].says
            words = tuple(word for name in fitting.names for word in says(name))
        self._replace(option, words, note)

    def _pass_in_own_words(self, option: MpirunOption, name: str, value: str | None) -> None:
        words: tuple[str, ...] = ()
        has_several = len(self._line.np_counts) > 1
        if self._is_for_hydra and value is not None:
            words = ("-env" if option.is_local and has_several else "-genv", name, value)
        elif not self._is_for_hydra and (option.is_local or not has_several):
            word = name if value is None else f"{name}={value}"
            words = self._dialect.spellings[Topic.VARIABLE].says(word)
        else:
            self._found.names.append(name)
            if value is not None:
                self._found.values.append((name, value))
        said = f"is written {words[0]} {name}" if words else "is passed by name"
        self._replace(option, words, f"{self._written(option)} {said}, as {self._title} wants it")

    def _pass_by_names(self, option: MpirunOption, *, is_foreign: bool) -> None:
        """Pass a list of names; Hydra's own list means these and no others."""
        self._found.names_only = self._found.names_only or not is_foreign
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
        knob = self._dialect.ssh_arguments
        names = {knob.name, *knob.aliases}
        return option.topic is Topic.PARAMETER and any(v in names for v in option.values[:1])

    def _read_ssh_arguments(self, option: MpirunOption) -> None:
        read = read_ssh_arguments(option.values[-1] if option.values else "")
        self._found.ssh_options += read.options
        self._found.ssh_rest += read.rest
        self._replace(option, (), f"{self._written(option)} was read into the job's ssh_config")

    def _say_in_own_words(self, option: MpirunOption) -> None:
        """Replace an option of another family."""
        topic, dialect = option.topic, self._dialect
        words = equivalent(option, dialect)
        if words == ():
            self._replace(option, (), f"{self._written(option)} is left out: it is so anyway")
        elif words is not None:
            said = f"is written {shlex.join(shown_words(words))}, as {self._title} wants it"
            self._replace(option, words, f"{self._written(option)} {said}")
        elif topic is not None and topic in dialect.needless:
            reason = dialect.needless[topic]
            self._replace(option, (), f"{self._written(option)} is left out: {reason}")
        else:
            raise refusal(option, self._written(option), dialect)

    def _correct_spelling(self, option: MpirunOption) -> None:
        """Replace a spelling of this family that this version refuses."""
        written = self._line.tokens[option.at : option.end]
        words = taken(option, written, self._dialect)
        if words == written:
            return
        said = f"is written {shlex.join(shown_words(words))}" if words else "is left out"
        self._replace(option, words, f"{self._written(option)} {said}, as {self._title} wants it")

    @property
    def _title(self) -> str:
        return self._dialect.name.value


def _name_and_value(option: MpirunOption) -> tuple[str, str | None]:
    """Return a variable's name and value: `NAME=VALUE` is one word, Hydra's `NAME VALUE` two."""
    first = option.values[0] if option.values else ""
    if len(option.values) > 1:
        return first, option.values[1]
    name, equals, value = first.partition("=")
    return name, value if equals else None
