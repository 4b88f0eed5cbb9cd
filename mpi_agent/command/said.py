"""What the user has said already: on the line, by a parameter, or by a variable of his own."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping

from mpi_agent.command.arguments import MpirunLine
from mpi_agent.command.dialects import Dialect, DialectName, Knob
from mpi_agent.command.plan import COMMAND_LINE, Choice
from mpi_agent.command.topics import Family, Topic
from mpi_agent.command.variables import users_own

__all__ = ["Said"]

_CHOOSE_CPUS = ("cpu-set", "cpu-list", "slot-list")
_COUNT_CPUS = ("cpus-per-proc", "cpus-per-rank")


class Said:
    """Knows what one user said, in the words of one launcher or of another.

    Args:
        line: None for a bare program.
    """

    def __init__(
        self, line: MpirunLine | None, environ: Mapping[str, str], dialect: Dialect
    ) -> None:
        self.line = line
        self.environ = environ
        self.dialect = dialect

    def by(self, topic: Topic) -> Choice | None:
        """Return what the user said about a topic, None where it is for us to say."""
        if self.line is not None:
            for option in self.line.options_of(topic):
                words = (option.spelling, *option.values)
                return Choice(words=words, reason=topic.value, said_by=COMMAND_LINE)
        spelling = self.dialect.spelling(topic)
        if spelling is None:
            return None
        if spelling.knob is not None and (found := self.by_knob(spelling.knob)):
            return found
        own = next((name for name in spelling.variables if self.environ.get(name)), None)
        return self._by_variable(own, topic.value) if own is not None else None

    @property
    def chooses_cpus(self) -> bool:
        """Whether the line chooses CPUs with an option beside which no mapping may stand.

        Source: --cpu-set and --cpu-list with --map-by slot: 4.1.4 "conflicting directives", 5.0.11
        "too many directives"; --cpus-per-proc with it: 4.1.4 binds, 5.0.11 leaves the ranks
        unbound in silence; measured 2026-11-30.
        """
        if self.dialect.family is not Family.OPEN_MPI:
            return False
        is_5 = self.dialect.name is DialectName.OPEN_MPI_5
        return self.on_line(*_CHOOSE_CPUS) or (is_5 and self.on_line(*_COUNT_CPUS))

    def by_knob(self, knob: Knob) -> Choice | None:
        """Return how the user turned a knob, None where he did not."""
        for name in (knob.name, *knob.aliases):
            if found := self._parameter(name):
                return found
        if knob.option is None and self._names_variable(knob.variable):
            return Choice(words=(knob.variable,), reason=knob.name, said_by=COMMAND_LINE)
        own = users_own(knob, self.environ)
        return self._by_variable(own, knob.name) if own is not None else None

    def value_of(self, knob: Knob) -> str | None:
        """Return the value that the user gave to a knob, None where he gave none."""
        found = self.by_knob(knob)
        return None if found is None else found.words[-1].rpartition("=")[2]

    def _by_variable(self, name: str, reason: str) -> Choice:
        return Choice(words=(f"{name}={self.environ[name]}",), reason=reason, said_by=name)

    def _names_variable(self, name: str) -> bool:
        """Return whether the line gives a variable to the ranks, as `-genv I_MPI_PIN 1` does."""
        given = self.line.values_of(Topic.VARIABLE) if self.line is not None else ()
        return name in {value.partition("=")[0] for value in given}

    def decides(self, names: Iterable[str]) -> Choice | None:
        """Return how the user set one of some parameters or variables."""
        for name in names:
            if found := self._parameter(name):
                return found
            for variable in (name, f"OMPI_MCA_{name}", f"PRTE_MCA_{name}"):
                if self.environ.get(variable):
                    return Choice(words=(variable,), reason=name, said_by=variable)
        return None

    def on_line(self, *names: str) -> bool:
        """Return whether the line has an option, or sets a parameter, of one of these names."""
        if self.line is None:
            return False
        bare = {option.spelling.lstrip("-") for option in self.line.options}
        return any(name in bare or self.line.parameter(name) is not None for name in names)

    def _parameter(self, name: str) -> Choice | None:
        option = self.line.parameter(name) if self.line is not None else None
        if option is None:
            return None
        words = tuple(shlex.quote(word) for word in (option.spelling, *option.values))
        return Choice(words=words, reason=name, said_by=COMMAND_LINE)
