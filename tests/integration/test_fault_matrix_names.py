"""Faults of names and of where they lead: told as what they are, and used as soon as they heal."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator
from pathlib import Path

import dns.rcode
import pytest

from mpi_agent.job.readiness import Obstacle, Stage
from mpi_agent.ssh.trust import SshTarget
from mpi_agent.wait.dns import NameResolver
from tests.fault_matrix import (
    Cure,
    Fault,
    assert_healed,
    assert_told,
    probe_of,
    terms_of,
    wait_for,
)
from tests.name_servers import (
    SEARCH,
    Answer,
    Question,
    ScriptedServer,
    Silence,
    needs_port_53,
    running_dnsmasq,
    running_server,
    wildcard,
    write_resolv_conf,
)
from tests.plain_sshd import running_sshd
from tests.workers import JobKeys, free_address, make_job_keys, running_worker

pytestmark = [pytest.mark.integration, needs_port_53]

SERVICE = f"pi.default.{SEARCH[1]}"
NAMES = tuple(f"w-{number}.pi.default.svc" for number in range(3))
FAULTS = {
    "no such name": (None, Obstacle.NAME_UNKNOWN, "does not exist (NXDOMAIN)"),
    "no address": (Answer(ttl_s=30), Obstacle.NAME_EMPTY, "exists and has no address"),
    "failing": (
        Answer(rcode=dns.rcode.SERVFAIL),
        Obstacle.NAME_SERVER_FAILED,
        "failed (SERVFAIL)",
    ),
    "silent": (Silence.KEPT, Obstacle.NAME_SERVER_SILENT, "is silent"),
}


@pytest.fixture
def server() -> Iterator[ScriptedServer]:
    """Provide a name server whose answers a test decides."""
    with running_server() as made:
        yield made


def resolver_of(
    server: ScriptedServer, root: Path, *, search: tuple[str, ...] = SEARCH
) -> NameResolver:
    """Return what asks this server as a pod would."""
    conf = write_resolv_conf(root / "resolv.conf", server.address, search=search)
    return NameResolver(resolv_conf=conf, limit_s=2.0)


def told_as(obstacle: Obstacle, says: str) -> Fault:
    """Return a fault of a name."""
    return Fault(stage=Stage.UNKNOWN, obstacle=obstacle, says=says, code=200)


def at(port: int, *names: str) -> tuple[SshTarget, ...]:
    """Return hosts whose addresses only the name server knows."""
    return tuple(SshTarget(name=name, port=port) for name in names)


def test_a_name_that_comes_late_is_used_at_its_first_moment(root: Path, keys: JobKeys) -> None:
    """A pod's name appears when the pod is Ready; nothing of the "no" before is remembered."""
    with running_dnsmasq(root) as server, running_worker(keys, root, name="w-0") as worker:
        names = NameResolver(resolv_conf=server.resolv_conf)
        waited = wait_for(
            probe_of(terms_of(keys, root), *at(worker.port, NAMES[0]), names=names),
            NAMES[0],
            timeout_s=60,
            cure=Cure(
                of=Obstacle.NAME_UNKNOWN,
                how=lambda: server.publish(f"w-0.{SERVICE}", worker.address),
                after=4,
            ),
        )

    assert_healed(waited, Obstacle.NAME_UNKNOWN)
    assert "lists no ready pod yet" in waited.results[0].detail


@pytest.mark.parametrize(("answer", "obstacle", "says"), FAULTS.values(), ids=FAULTS.keys())
def test_each_no_about_a_name_is_told_apart_at_the_deadline(
    root: Path,
    keys: JobKeys,
    server: ScriptedServer,
    answer: Answer | Silence | None,
    obstacle: Obstacle,
    says: str,
) -> None:
    """Another pod of the job is there, so it is not the whole job that is late."""
    server.publish(f"w-1.{SERVICE}", free_address()[0])
    server.rules.append(lambda q: answer if q.name.startswith("w-0") else None)
    probe = probe_of(terms_of(keys, root), names=resolver_of(server, root))
    timeout_s = 2.3 if answer is Silence.KEPT else 1.0

    waited = wait_for(probe, NAMES[0], timeout_s=timeout_s)

    assert_told(waited, told_as(obstacle, says), after_s=timeout_s)


def test_a_name_server_that_is_down_is_told_at_the_deadline(root: Path, keys: JobKeys) -> None:
    """Nobody listens on port 53 of that address."""
    conf = write_resolv_conf(root / "resolv.conf", free_address()[0])
    probe = probe_of(terms_of(keys, root), names=NameResolver(resolv_conf=conf))

    waited = wait_for(probe, NAMES[0], timeout_s=1.0)

    fault = told_as(Obstacle.NAME_SERVER_SILENT, "cannot be reached (Connection refused)")
    assert_told(waited, fault, after_s=1.0)


def test_a_job_whose_service_lists_nobody_is_told_so(
    root: Path, keys: JobKeys, server: ScriptedServer
) -> None:
    """One cause for all hosts is one row."""
    probe = probe_of(terms_of(keys, root), names=resolver_of(server, root))

    waited = wait_for(probe, *NAMES, timeout_s=1.0)

    fault = told_as(Obstacle.NAME_UNKNOWN, 'the Service "pi.default.svc" lists no ready pod yet')
    assert_told(waited, fault, after_s=1.0, name=NAMES[2])
    assert '"w-[0-2].pi.default.svc": name does not exist' in waited.error.summary
    assert len(waited.error.evidence) == 2


def test_a_wrong_address_where_nobody_listens_heals_with_the_record(
    root: Path, keys: JobKeys, server: ScriptedServer
) -> None:
    """The address of a pod that is gone, until the name server has the new one."""
    server.publish(f"w-0.{SERVICE}", free_address()[0])
    with running_worker(keys, root, name="w-0") as worker:
        names = resolver_of(server, root)
        waited = wait_for(
            probe_of(terms_of(keys, root), *at(worker.port, NAMES[0]), names=names),
            NAMES[0],
            timeout_s=60,
            cure=Cure(
                of=Obstacle.PORT_REFUSED,
                how=lambda: server.publish(f"w-0.{SERVICE}", worker.address),
            ),
        )

    assert_healed(waited, Obstacle.PORT_REFUSED)
    assert waited.host().address == worker.address


def test_a_wrong_address_where_another_job_listens_heals_with_the_record(
    root: Path, keys: JobKeys, server: ScriptedServer
) -> None:
    """Addresses are used again; a refusal is asked about every two seconds, not more often."""
    (root / "other").mkdir()
    others = make_job_keys(root / "other" / "mount")
    with contextlib.ExitStack() as stack:
        worker = stack.enter_context(running_worker(keys, root, name="w-0"))
        port = ("--ssh-port", str(worker.port))
        stranger = stack.enter_context(running_worker(others, root / "other", *port, name="w-0"))
        server.publish(f"w-0.{SERVICE}", stranger.address)
        names = resolver_of(server, root)
        waited = wait_for(
            probe_of(terms_of(keys, root), *at(worker.port, NAMES[0]), names=names),
            NAMES[0],
            timeout_s=60,
            cure=Cure(
                of=Obstacle.HOST_KEY_UNKNOWN,
                how=lambda: server.publish(f"w-0.{SERVICE}", worker.address),
                after=1,
            ),
        )

    assert_healed(waited, Obstacle.HOST_KEY_UNKNOWN, within_s=2.5 + 2.0)
    assert waited.host().address == worker.address


def test_a_wildcard_record_is_not_taken_for_the_pods_of_a_cluster(
    root: Path, keys: JobKeys, server: ScriptedServer
) -> None:
    """A load balancer's address for every name, though an sshd that takes the key is behind it."""
    with running_sshd(keys, root) as sshd:
        server.rules.append(wildcard(SEARCH[1], sshd.addresses[0]))
        names = resolver_of(server, root)
        probe = probe_of(terms_of(keys, root), *at(sshd.port, *NAMES), names=names)
        waited = wait_for(probe, *NAMES, timeout_s=1.0)

    fault = told_as(Obstacle.NAME_UNKNOWN, "(a wildcard record)")
    assert_told(waited, fault, after_s=1.0, name=NAMES[0])


def test_names_that_all_lead_to_one_sshd_are_one_host(
    root: Path, keys: JobKeys, server: ScriptedServer
) -> None:
    """On plain images every sshd shows the job's own key; the job would run on one host."""
    with running_sshd(keys, root) as sshd:
        server.rules.append(wildcard("rack", sshd.addresses[0]))
        hosts = ("w-0.rack", "w-1.rack", "w-2.rack")
        names = resolver_of(server, root, search=())
        probe = probe_of(terms_of(keys, root), *at(sshd.port, *hosts), names=names)
        waited = wait_for(probe, *hosts, timeout_s=1.0)

    (ready,) = (host for host in waited.report.hosts if host.is_ready)
    laggard = waited.report.laggards[0].host
    fault = Fault(
        stage=Stage.ANSWERING,
        obstacle=Obstacle.ADDRESS_SHARED,
        says=f"port {sshd.port} is {ready.host} already",
        code=78,
    )
    assert_told(waited, fault, after_s=1.0, name=laggard)
    assert "2 of 3 hosts" in waited.error.summary


def test_a_host_that_stood_at_the_address_of_another_gives_it_back(
    root: Path, keys: JobKeys, server: ScriptedServer
) -> None:
    """An old record leads w-1 to the new pod of w-0; w-1 is let in there before w-0 has a name."""
    with running_sshd(keys, root, addresses=2) as sshd:
        here, there = sshd.addresses
        server.records["w-1.rack"] = (here,)

        def w_0_comes_later(question: Question) -> Answer | None:
            asked_at_s = min((q.at_s for q in server.asked("w-1")), default=math.inf)
            is_there = question.name == "w-0.rack" and question.at_s > asked_at_s + 0.3
            return Answer(addresses=(here,)) if is_there and question.kind == "A" else None

        server.rules.append(w_0_comes_later)
        names = resolver_of(server, root, search=())
        probe = probe_of(terms_of(keys, root), *at(sshd.port, "w-0.rack", "w-1.rack"), names=names)
        waited = wait_for(
            probe,
            *("w-0.rack", "w-1.rack"),
            timeout_s=60,
            cure=Cure(
                of=Obstacle.ADDRESS_SHARED,
                how=lambda: server.records.update({"w-1.rack": (there,)}),
                after=1,
            ),
        )

    assert_healed(waited, Obstacle.ADDRESS_SHARED, within_s=2.5 + 2.0)
    assert [host.address for host in waited.report.hosts] == [here, there]
