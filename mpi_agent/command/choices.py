"""What is said to one launcher so far: the user's words stay, ours are added with their reasons."""

from __future__ import annotations

from mpi_agent.command.arguments import read_mpirun_line
from mpi_agent.command.dialects import Dialect, Knob
from mpi_agent.command.plan import AGENT, Choice, PlannedVariable
from mpi_agent.command.said import Said
from mpi_agent.command.topics import Topic
from mpi_agent.command.translate import Translation

__all__ = ["Choices"]


class Choices:
    """Collects what is added to one mpirun command; says nothing that the user has said.

    Args:
        said: what the user said, in the dialect of the launcher.
        translation: what became of the words on his line.
    """

    def __init__(
        self, said: Said, translation: Translation, variables: tuple[PlannedVariable, ...]
    ) -> None:
        self.said = said
        self.translation = translation
        self.added: list[Choice] = []
        self.kept: list[Choice] = []
        self.notes: list[str] = []
        self.variables = [*variables]
        self.said_in_the_end = self._read_again()

    @property
    def dialect(self) -> Dialect:
        """The language of the launcher."""
        return self.said.dialect

    @property
    def words(self) -> tuple[str, ...]:
        """Everything that was added to the line, in order."""
        return tuple(word for choice in self.added for word in choice.words)

    def _read_again(self) -> Said:
        """Return what the line says now that it is translated, parameters instead of options too.

        Both Open MPIs end where a parameter stands on the line twice with different values.
        """
        line = self.said.line
        if line is not None:
            line = read_mpirun_line((line.called_as, *self.translation.tokens), self.dialect.family)
        return Said(line, self.said.environ, self.dialect)

    def add(self, reason: str, *words: str, said_by: str = AGENT) -> None:
        """Add words to the line."""
        if words:
            self.added.append(Choice(words=words, reason=reason, said_by=said_by))

    def say(self, topic: Topic, value: str, reason: str) -> None:
        """Say something that the user has not said, if this launcher can say it."""
        spelling = self.dialect.spelling(topic)
        if spelling is None:
            return
        if found := self.said.by(topic):
            self.kept.append(found)
        elif words := spelling.says(value):
            self.add(reason, *words)
        elif spelling.knob is not None:
            self.set(spelling.knob, value, reason)

    def set(self, knob: Knob, value: str, reason: str) -> None:
        """Turn a knob, on the line where there is an option for it."""
        if knob.option is not None:
            self.add(reason, knob.option, knob.name, value)
        else:
            self.variables.append(PlannedVariable(name=knob.variable, value=value, reason=reason))
