"""What horovodrun and deepspeed leave open on their command lines, said in their own words.

Source: horovod 0.28, runner/launch.py (-p, -i, --network-interfaces, --hostfile, -np; its ssh is
found in PATH and given `-o StrictHostKeyChecking=no`); deepspeed 0.15, launcher/runner.py
(--hostfile, of which --include and --num_nodes take a part, --ssh_port; pdsh, whose ssh is found
in PATH).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import PurePath

from mpi_agent.command.plan import Choice, LaunchRequest
from mpi_agent.command.program_kind import module_place

__all__ = ["launcher_name", "own_words", "with_words", "words_left_open"]

_LETTER_OPTION = len("-p")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Word:
    """One thing that such a launcher can be told.

    Attributes:
        options: by which it is told, the one that we write first.
        value: None where there is nothing to tell.
    """

    options: tuple[str, ...]
    value: Callable[[LaunchRequest, int], str | None]
    reason: str


def _port(request: LaunchRequest, _np: int) -> str | None:
    port = request.ssh.port if request.ssh is not None else None
    return str(port) if port is not None else None


def _key(request: LaunchRequest, _np: int) -> str | None:
    return request.ssh.key_path if request.ssh is not None else None


def _interface(request: LaunchRequest, _np: int) -> str | None:
    return request.surroundings.launcher_interface


def _hostfile(request: LaunchRequest, _np: int) -> str | None:
    return request.hostfile_path


def _np(_request: LaunchRequest, np: int) -> str | None:
    return str(np)


_WORDS: Mapping[str, tuple[_Word, ...]] = {
    "horovodrun": (
        _Word(
            options=("-np", "--num-proc", "--min-np"), value=_np, reason="the number of processes"
        ),
        _Word(
            options=("--hostfile", "-hostfile", "-H", "--hosts", "--host-discovery-script"),
            value=_hostfile,
            reason="the rendered hostfile",
        ),
        _Word(
            options=("-p", "--ssh-port"), value=_port, reason="the port of the hosts' ssh servers"
        ),
        _Word(options=("-i", "--ssh-identity-file"), value=_key, reason="the job's key"),
        _Word(
            options=("--network-interfaces", "--network-interface"),
            value=_interface,
            reason="the interface that has the launcher's address",
        ),
    ),
    "deepspeed": (
        _Word(
            options=("--hostfile", "-H"),
            value=_hostfile,
            reason="the rendered hostfile",
        ),
        _Word(options=("--ssh_port",), value=_port, reason="the port of the hosts' ssh servers"),
    ),
}

_SWITCHES: Mapping[str, frozenset[str]] = {
    "horovodrun": frozenset(
        "--gloo --mpi --jsrun --verbose --disable-cache --tcp -prefix-timestamp"
        " --prefix-output-with-timestamp --log-with-timestamp --log-without-timestamp"
        " --log-hide-timestamp --no-log-hide-timestamp --autotune --no-autotune"
        " --hierarchical-allreduce --no-hierarchical-allreduce --hierarchical-allgather"
        " --no-hierarchical-allgather --timeline-mark-cycles --no-timeline-mark-cycles"
        " --stall-check --no-stall-check --mpi-threads-disable --no-mpi-threads-disable".split()
    ),
    "deepspeed": frozenset(
        "--module --no_python --no_local_rank --no_ssh --no_ssh_check --force_multi --save_pid"
        " --elastic_training --bind_cores_to_rank".split()
    ),
}
"""Options without a value: the word behind one may be the program."""

_MODULES: Mapping[str, str] = {
    "horovod.runner": "horovodrun",
    "horovod.runner.launch": "horovodrun",
    "horovod.run": "horovodrun",
    "deepspeed.launcher.runner": "deepspeed",
}
"""Which launcher a module is, as in `python -m horovod.runner`."""


def launcher_name(program: tuple[str, ...]) -> str:
    """Return which launcher a line calls, also as a module of Python; else the program's name."""
    return _launcher(program)[0]


def words_left_open(request: LaunchRequest, np: int) -> tuple[Choice, ...]:
    """Return what to add to the line of a launcher that is known here; nothing for another."""
    name, _ = _launcher(request.program)
    given = own_words(request.program)
    values = ((word, word.value(request, np)) for word in _WORDS.get(name, ()))
    return tuple(
        Choice(words=(word.options[0], value), reason=word.reason)
        for word, value in values
        if value is not None and not _is_given(word.options, given)
    )


def with_words(program: tuple[str, ...], choices: tuple[Choice, ...]) -> tuple[str, ...]:
    """Return a launcher's line with the words that it left open behind its name."""
    _, place = _launcher(program)
    added = tuple(word for choice in choices for word in choice.words)
    return (*program[:place], *added, *program[place:])


def _launcher(program: tuple[str, ...]) -> tuple[str, int]:
    """Return which launcher a line calls, and the index of the first word behind its name."""
    at = module_place(program)
    if at is None:
        return PurePath(program[0]).name, 1
    return _MODULES.get(program[at].removeprefix("-m"), ""), at + 1


def own_words(program: tuple[str, ...]) -> tuple[str, ...]:
    """Return the words of a launcher, up to its program: the first that can be no value of its own.

    What stands behind an option that is not known here may be its value, so words of the program
    may be among them.
    """
    name, place = _launcher(program)
    switches = _SWITCHES.get(name, frozenset())
    words, may_be_value = program[place:], False
    for at, word in enumerate(words):
        if word == "--" or not (word.startswith("-") or may_be_value):
            return words[:at]
        may_be_value = _may_have_value_behind(word, switches)
    return words


def _may_have_value_behind(word: str, switches: frozenset[str]) -> bool:
    has_it = "=" in word or word[_LETTER_OPTION:].isdigit()
    return word.startswith("-") and not has_it and word not in switches


def _is_given(options: tuple[str, ...], given: tuple[str, ...]) -> bool:
    """Return whether one of the options is among the words, also as `--port=22` or `-p22`."""
    letters = tuple(option for option in options if len(option) == _LETTER_OPTION)
    return any(
        word.partition("=")[0] in options or (word[2:].isdigit() and word.startswith(letters))
        for word in given
    )
