"""What the user has said already: on the line, by a parameter, or by a variable of his own."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping

from mpi_agent.command.arguments import MpirunLine
from mpi_agent.command.dialects import Dialect, Knob
from mpi_agent.command.plan import COMMAND_LINE, Choice
from mpi_agent.command.topics import Topic
from mpi_agent.command.variables import users_own

__all__ = ["Said"]


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
        return self.by_knob(spelling.knob) if spelling and spelling.knob else None

    def by_knob(self, knob: Knob) -> Choice | None:
        """Return how the user turned a knob, None where he did not."""
        for name in (knob.name, *knob.aliases):
            if found := self._parameter(name):
                return found
        own = users_own(knob, self.environ)
        if own is None:
            return None
        return Choice(words=(f"{own}={self.environ[own]}",), reason=knob.name, said_by=own)

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
