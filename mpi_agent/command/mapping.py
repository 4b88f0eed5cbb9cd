"""Says where ranks go: hostfile, mapping, binding, and how many there are."""

from __future__ import annotations

from mpi_agent.command.choices import Choices
from mpi_agent.command.equivalents import words_for
from mpi_agent.command.placement import Placement
from mpi_agent.command.plan import LaunchRequest
from mpi_agent.command.topics import Topic
from mpi_agent.command.variables import is_users_own
from mpi_agent.job.hosts import HostList

__all__ = [
    "choose_hosts_and_mapping",
    "choose_np",
    "say_renamed_variables",
]

_PARAMETER_OPTIONS = ("--mca", "--prtemca", "--pmixmca")
_TOPICS_OF_OPTIONS = {
    "--map-by": (Topic.MAP_BY, Topic.PER_HOST, Topic.OTHER_MAPPING),
    "--bind-to": (Topic.BIND_TO,),
    "--oversubscribe": (Topic.OVERSUBSCRIBE, Topic.NO_OVERSUBSCRIBE),
    "--tag-output": (Topic.TAG_OUTPUT,),
    "--timestamp-output": (Topic.TIMESTAMP_OUTPUT,),
}
_BINDS = ("cpus-per-proc", "cpus-per-rank", "cpu-set", "cpu-list", "slot-list", "rankfile", "rf")


def choose_hosts_and_mapping(
    choices: Choices, request: LaunchRequest, hosts: HostList, placement: Placement
) -> None:
    """Name the hostfile, and make mapping and binding explicit."""
    keeps_hosts = request.keeps_host_option and not choices.dialect.passes_everything
    if not keeps_hosts:
        choices.say(Topic.HOSTFILE, request.hostfile_path, f"rendered from {hosts.source}")
    if not request.sets_defaults:
        return
    if placement.map_by is not None:
        reason = "explicit, so that every version does the same"
        choices.add(reason, *choices.dialect.mappings[placement.map_by])
    if not _binds_by_itself(choices):
        reason = "binding to cores fails where a container has fewer than slots"
        choices.say(Topic.BIND_TO, "none", reason)


def choose_np(choices: Choices, hosts: HostList, placement: Placement) -> None:
    """Say how many processes there are."""
    total = (
        "as asked"
        if placement.np != hosts.total_slots
        else f"the sum of slots, {len(hosts.hosts)} host(s)"
    )
    choices.say(Topic.NP, str(placement.np), f"{placement.np} = {total}")


def _binds_by_itself(choices: Choices) -> bool:
    """Return whether the line gives ranks CPUs in a way that "none" contradicts."""
    line = choices.said.line
    if line is None:
        return False
    mappings = [value.lower() for value in line.values_of(Topic.MAP_BY)]
    return any("pe=" in m or "pe-list" in m for m in mappings) or choices.said.on_line(*_BINDS)


def say_renamed_variables(choices: Choices) -> None:
    """Say what the user set by variables that this version ignores in silence."""
    dialect, environ = choices.dialect, choices.said.environ
    for name, words in dialect.renamed_variables.items():
        if not is_users_own(name, environ):
            continue
        if not _is_said_otherwise(choices, name.removeprefix("OMPI_MCA_"), words):
            said = words_for(words, environ[name])
            choices.add(f"{dialect.name.value} ignores the variable", *said, said_by=name)


def _is_said_otherwise(choices: Choices, parameter: str, words: tuple[str, ...]) -> bool:
    """Return whether the user says on the line, or by a newer variable, what a variable says.

    Source: Open MPI 5.0.11 ends with 213 at two mappings, and at PE= beside a binding.
    """
    option, *rest = words
    said = choices.said
    if said.on_line(parameter, *rest[:1]):
        return True
    if option in _PARAMETER_OPTIONS:
        return bool(said.environ.get(f"PRTE_MCA_{rest[0]}"))
    says = said.line is not None and said.line.has(*_TOPICS_OF_OPTIONS[option])
    chooses = option == "--map-by" and said.chooses_cpus
    return says or chooses or (option == "--bind-to" and _binds_by_itself(choices))
