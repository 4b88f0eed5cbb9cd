"""Is there room on the hosts for the processes that the slots let in, and how many fit.

Slots are a number that somebody wrote; nothing compares it with the GPUs and CPUs that the hosts
have. What does not fit is told and used as it is: one process may well drive eight GPUs.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace

from mpi_agent.discover.slots import SLOT_VARIABLES, slots_of_variable
from mpi_agent.job.host_facts import HostFacts
from mpi_agent.job.hosts import Host, HostList, SlotsOrigin, fold_names

__all__ = ["compare", "slots_from_facts", "with_found_slots"]


def slots_from_facts(facts: HostFacts) -> int | None:
    """Return how many processes fit on a host: one for each GPU, else for each CPU it may use.

    None where it tells neither. A limit below one CPU leaves room for one process.
    """
    if facts.gpus:
        return facts.gpus
    if facts.cpu_limit is not None:
        return max(1, math.floor(facts.cpu_limit))
    return facts.cpus


def with_found_slots(hosts: HostList, facts: Mapping[str, HostFacts]) -> HostList:
    """Return the hosts with the slots that were found where nobody else gives a number.

    A host that does not tell keeps the one slot that stood in.

    Args:
        facts: by the hosts' names; some may be missing.
    """

    def found(host: Host) -> Host:
        fitting = slots_from_facts(facts[host.name]) if host.name in facts else None
        if host.slots_from is not SlotsOrigin.WANTED or fitting is None:
            return host
        return replace(host, slots=fitting, slots_from=SlotsOrigin.FOUND)

    return replace(hosts, hosts=tuple(found(host) for host in hosts.hosts))


def compare(
    hosts: HostList, facts: Mapping[str, HostFacts], environ: Mapping[str, str]
) -> tuple[str, ...]:
    """Return a sentence for each way in which slots do not fit what the hosts have, or were told.

    Args:
        facts: by the hosts' names; of a host without them nothing is said.
        environ: the launcher's, in which an operator may give another number than the hostfile.
    """
    return (
        *_folded(hosts.hosts, lambda host: _misfit(host, facts.get(host.name))),
        *_folded(hosts.hosts, lambda host: _contradiction(host, hosts.source, environ)),
    )


def _folded(hosts: Iterable[Host], sentence_of: Callable[[Host], str]) -> tuple[str, ...]:
    """Return each sentence once, with all hosts of which it is true in place of `{}`."""
    names_of: dict[str, list[str]] = {}
    for host in hosts:
        if sentence := sentence_of(host):
            names_of.setdefault(sentence, []).append(host.name)
    return tuple(
        sentence.replace("{}", fold_names(tuple(names)), 1) for sentence, names in names_of.items()
    )


def _misfit(host: Host, facts: HostFacts | None) -> str:
    if host.slots_from is SlotsOrigin.WANTED:
        return "how many slots fit on {} is unknown: 1 each"
    if facts is None:
        return ""
    if facts.gpus:
        return _misfit_of_gpus(host, facts.gpus)
    if facts.cpu_limit is not None and host.slots > max(1.0, facts.cpu_limit):
        return f"{_count(host.slots, 'slot')} but a CPU limit of {facts.cpu_limit:g} on {{}}"
    return ""


def _misfit_of_gpus(host: Host, gpus: int) -> str:
    told = f"{_count(gpus, 'GPU')} but {_count(host.slots, 'slot')} on {{}}"
    if host.slots > gpus:
        return f"{told}: {host.slots} ranks share {'it' if gpus == 1 else 'them'}"
    if host.slots < gpus:
        is_asked_for = host.slots_from is SlotsOrigin.SETTING
        why = "as --slots says" if is_asked_for else "is slotsPerWorker beside mpiReplicaSpecs?"
        return f"{told}: {why}"
    return ""


def _contradiction(host: Host, source: str, environ: Mapping[str, str]) -> str:
    """Return where a list of hosts and an operator's variable give two numbers.

    The list counts, as it does for every mpirun that reads both.
    """
    if host.slots_from is not SlotsOrigin.SOURCE or source.startswith("--"):
        return ""
    given = {name: slots_of_variable(environ, name) for name in SLOT_VARIABLES}
    others = [f"{name}={n}" for name, n in given.items() if n is not None and n != host.slots]
    if not others:
        return ""
    told = f"{_count(host.slots, 'slot')} on {{}} by {source}"
    return f"{told}, which counts, not {', '.join(others)}"


def _count(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"
