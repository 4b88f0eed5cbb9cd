"""What a dialect is: how one launcher says each topic, and how it differs from the others."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum

from mpi_agent.command.hostfile import HostfileForm
from mpi_agent.command.topics import Family, Topic

__all__ = ["Dialect", "DialectName", "Knob", "Spelling", "TagForm", "mca", "prte", "variable"]


class DialectName(Enum):
    """The dialects there are."""

    OPEN_MPI_4 = "Open MPI 4"
    OPEN_MPI_5 = "Open MPI 5"
    MPICH = "MPICH"
    INTEL_MPI = "Intel MPI"


class TagForm(Enum):
    """What a launcher writes in front of a rank's output; each is a regular expression.

    Its one group is the rank. The first character of a tag stands in it only once.
    """

    OPEN_MPI_4 = r"\[1,(\d{1,7})\]<std(?:out|err|diag)>:"
    OPEN_MPI_5 = r"\[1,(\d{1,7})\]<std(?:out|err|diag)>: "
    HYDRA = r"rank (\d{1,7})\| "
    """not what `-prepend-rank` writes: see `command.tags`"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Knob:
    """Something that a launcher or an MPI library reads from a parameter or a variable.

    Attributes:
        option: sets it on the command line, in front of its name; None where only a variable does.
        variable: sets it in the launcher's environment.
        aliases: other names under which a user may have set it on the line.
    """

    name: str
    option: str | None
    variable: str
    aliases: tuple[str, ...] = ()


def mca(name: str, *aliases: str) -> Knob:
    """Return a parameter of Open MPI, which in Open MPI 4 includes its launcher."""
    return Knob(name=name, option="--mca", variable=f"OMPI_MCA_{name}", aliases=aliases)


def prte(name: str, *aliases: str) -> Knob:
    """Return a parameter of PRRTE, the launcher of Open MPI 5."""
    return Knob(name=name, option="--prtemca", variable=f"PRTE_MCA_{name}", aliases=aliases)


def variable(name: str) -> Knob:
    """Return something that only a variable sets."""
    return Knob(name=name, option=None, variable=name)


@dataclass(frozen=True, slots=True, kw_only=True)
class Spelling:
    """How one launcher says one topic; `{}` in a word stands for the value.

    Attributes:
        words: on the command line; empty where a knob says it.
        knob: by which it is said where the line has no word, or by which a user may have said it.
        variables: further ones by which a user may have said it.
    """

    words: tuple[str, ...] = ()
    knob: Knob | None = None
    variables: tuple[str, ...] = ()

    def says(self, value: str = "") -> tuple[str, ...]:
        """Return the words for a value; none where only a variable says it."""
        if self.words:
            return tuple(word.replace("{}", value) for word in self.words)
        if self.knob is None or self.knob.option is None:
            return ()
        return (self.knob.option, self.knob.name, value)


@dataclass(frozen=True, slots=True, kw_only=True)
class Dialect:
    """The language of one launcher.

    Attributes:
        spellings: how it says what can be said in it.
        tag_form: what stands in front of a rank's output where tags are asked of it.
        mappings: words that spread ranks by `slot` (one host after the other) and by `node`.
        needless: topics that other launchers must be told and this one need not, with the reason.
        equivalents: what to write for another family's parameters, by a part of their name.
        refuses: options of its own family that it ends at.
        instead: what it takes in place of some of them; their values follow, and no words leave
            the option out.
        instead_of_words: what it says for one word of the list that is a refused option's value.
        needless_values: options with a value that it refuses and that only decide an order.
        takes_equals: `--map-by=slot` counts as `--map-by slot`.
        needs_two_words: options that count as `--map-by slot` alone: two dashes, and no `=`.
        needs_one_dash: options that it refuses with two dashes, or with `=`.
        one_dash: options that may have one dash; None for all of them.
        passes_to_one_application: a variable counts only for the application it stands in.
        called_by_path: finds its daemon by the path it is called by, so argv[0] must have it.
        takes_ipv6_addresses: a host may be given by its IPv6 address; a name is always taken.
        hostfile_variable, ssh_agent_variable: by which a launcher is told that somebody else calls.
        daemon: what it starts on each host.
        shares_its_streams: the ssh that it starts has its own stdout and stderr.
        finds_its_daemon: sends the daemon's full path by itself, so needs no prefix.
        counts_win_over_per_host: a count in the hostfile wins over processes per host on the line.
        passes_everything: hands the launcher's whole environment to the ranks unless told names.
        renamed_variables: variables of an earlier generation that it ignores in silence, as it
            does their parameters on the line, and the words that say the same; words without `{}`
            are said when the value is true.
    """

    name: DialectName
    family: Family
    hostfile_form: HostfileForm
    spellings: Mapping[Topic, Spelling]
    tag_form: TagForm
    mappings: Mapping[str, tuple[str, ...]]
    hostfile_variable: str
    ssh_agent_variable: str
    daemon: str
    finds_its_daemon: bool
    takes_ipv6_addresses: bool
    needless: Mapping[Topic, str] = field(default_factory=dict)
    equivalents: Mapping[str, str] = field(default_factory=dict)
    refuses: frozenset[str] = frozenset()
    instead: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    instead_of_words: Mapping[tuple[str, str], tuple[str, ...]] = field(default_factory=dict)
    needless_values: frozenset[tuple[str, str]] = frozenset()
    takes_equals: bool = True
    needs_two_words: frozenset[str] = frozenset()
    needs_one_dash: frozenset[str] = frozenset()
    one_dash: frozenset[str] | None = None
    passes_to_one_application: bool = False
    called_by_path: bool = False
    counts_win_over_per_host: bool = False
    passes_everything: bool = False
    shares_its_streams: bool = False
    renamed_variables: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    @property
    def ssh_arguments(self) -> Knob:
        """The knob by which ssh is given arguments; no launcher has an option for it."""
        knob = self.spellings[Topic.SSH_ARGUMENTS].knob
        assert knob is not None, self.name
        return knob

    def spelling(self, topic: Topic) -> Spelling | None:
        """Return how it says a topic, None where it cannot."""
        return self.spellings.get(topic)
