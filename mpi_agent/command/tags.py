"""Each rank's number in front of what it writes: asked of the launcher, and known to whoever reads.

A launcher puts a tag in front of each line, and also into the middle of one that a rank wrote in
pieces. So whoever tells the output apart by rank looks for tags everywhere, and needs one that no
program writes by itself. Open MPI's is such a one. Hydra's `-prepend-rank` is not: `[3] ` may stand
in any line; a pattern of ours takes its place where output is to be told apart.

Source: Open MPI 4.1.4 and 5.0.11, MPICH 4.0.2 and 5.0.2, Intel MPI 2021.19, measured 2026-11-30:
tags of all five, taken out of 1.4 MB of lines, pieces of lines and carriage returns, gave
each rank's bytes exactly. Open MPI 5 holds back what has no newline yet, with tags or without.
"""

from __future__ import annotations

from mpi_agent.command.choices import Choices
from mpi_agent.command.dialects import TagForm
from mpi_agent.command.plan import Choice, LaunchRequest
from mpi_agent.command.topics import Family, Topic

__all__ = ["HYDRA_PATTERN", "choose_tags"]

HYDRA_PATTERN = "rank %r| "
_OFF = frozenset({"0", "false", "no", "f", "n", "disabled"})
_TAGS = frozenset({"tag", "tag-detailed", "tag-fullname", "rank", "xml"})
"""What Open MPI 5's --output may say that tags by itself."""
_LEAVES_THE_FORM = frozenset({"tag", "merge-stderr-to-stdout", "merge"})
"""What it may say and the tags stay as they are known."""


def choose_tags(choices: Choices, request: LaunchRequest) -> TagForm | None:
    """Have output tagged, where that is asked for; return the form of the tags.

    None is returned where nothing is tagged, or not in a form by which output can be told apart;
    where it was to be, that is noted.
    """
    if not (request.tags_output or request.splits_output):
        return None
    wants_pattern = request.splits_output and choices.dialect.family is Family.HYDRA
    topic, value = (Topic.TAG_PATTERN, HYDRA_PATTERN) if wants_pattern else (Topic.TAG_OUTPUT, "")
    own = _own_tag(choices)
    if own is not None:
        choices.kept.append(own)
    elif not _is_said_for_a_variable(choices, topic):
        choices.say(topic, value, _reason(request))
    form = None if wants_pattern and own is not None else choices.dialect.tag_form
    return _usable(choices, request, form)


def _reason(request: LaunchRequest) -> str:
    asked = "--log-dir: output is told apart by rank" if request.splits_output else "--tag"
    return f"{asked}, by what stands in front"


def _own_tag(choices: Choices) -> Choice | None:
    """Return how the user tags output himself, or has it tagged otherwise."""
    for topic in (Topic.TAG_OUTPUT, Topic.TAG_PATTERN):
        if found := choices.said.by(topic):
            return found
    found = choices.said.by(Topic.OUTPUT)
    return found if found is not None and _directives(found) & _TAGS else None


def _directives(output: Choice) -> set[str]:
    """Return what `--output tag,dir=X` asks for: `tag` and `dir`."""
    return {part.partition("=")[0].partition(":")[0] for part in output.words[-1].split(",")}


def _is_said_for_a_variable(choices: Choices, topic: Topic) -> bool:
    """Return whether the words stand on the line already, for a variable that is ignored."""
    spelling = choices.dialect.spelling(topic)
    return spelling is not None and bool(set(spelling.says()) & set(choices.words))


def _usable(choices: Choices, request: LaunchRequest, form: TagForm | None) -> TagForm | None:
    """Return the form if the user's own words leave it as it is, and note what it misses."""
    spoiler = _what_spoils(choices, form)
    away = choices.said.by(Topic.OUTPUT_FILE)
    if not request.splits_output:
        return None
    if spoiler is not None:
        words = " ".join(spoiler.words)
        text = f"{words} is kept, so that output cannot be told apart by rank: all is in one file"
        choices.notes.append(f"--log-dir: {text}")
    elif away is not None:
        choices.notes.append(f"--log-dir: has nothing of what {away.words[0]} takes away")
    return form if spoiler is None else None


def _what_spoils(choices: Choices, form: TagForm | None) -> Choice | None:
    """Return what the user said that leaves output without tags, or with unknown ones."""
    own, output = _own_tag(choices), choices.said.by(Topic.OUTPUT)
    if stamped := choices.said.by(Topic.TIMESTAMP_OUTPUT):
        return stamped
    if output is not None and not _directives(output) <= _LEAVES_THE_FORM:
        return output
    is_off = own is not None and own.words[-1].rpartition("=")[2].lower() in _OFF
    return own if form is None or is_off else None
