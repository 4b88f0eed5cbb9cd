"""What is remembered between questions: rests of a cached "no", wildcards, what a Service lists.

Server and resolver share a clock that the tests set forward, so that nobody waits for a TTL.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import dns.rcode
import pytest

from mpi_agent.job.readiness import Obstacle
from mpi_agent.wait.dns import Lookup, NameResolver
from mpi_agent.wait.dns.service import HOLD_S
from tests.name_servers import (
    CLUSTER_ZONE,
    SEARCH,
    Answer,
    HandClock,
    Question,
    ScriptedServer,
    Silence,
    needs_port_53,
    running_server,
    wildcard,
    write_resolv_conf,
)

pytestmark = [pytest.mark.integration, needs_port_53]
DOMAIN = "svc.corp.internal"
SERVICE = f"pi.default.{DOMAIN}"
WORKER = "pi-worker-0.pi.default.svc"
WORKER_FORM = f"pi-worker-0.{SERVICE}"
PAST_THE_HOLD_S = HOLD_S + 1


@pytest.fixture
def clock() -> HandClock:
    """Provide the clock of server and resolver."""
    return HandClock()


@pytest.fixture
def script(clock: HandClock) -> Iterator[ScriptedServer]:
    """Provide the name server of a cluster that nobody else may ask."""
    with running_server(now_s=clock) as made:
        yield made


@pytest.fixture
def resolver(tmp_path: Path, script: ScriptedServer, clock: HandClock) -> NameResolver:
    """Provide a resolver with a pod's search list and, after it, the node's."""
    conf = write_resolv_conf(
        tmp_path / "resolv.conf", script.address, search=(*SEARCH, "node.example")
    )
    return NameResolver(resolv_conf=conf, now_s=clock)


def look_up(resolver: NameResolver, name: str = WORKER) -> Lookup:
    """Ask once."""
    return asyncio.run(resolver.look_up(name))


def past_the_hold(resolver: NameResolver, clock: HandClock) -> None:
    """Let the Service's time run out."""
    look_up(resolver)
    clock.pass_s(PAST_THE_HOLD_S)


def test_an_authoritys_no_is_asked_again_though_its_ttl_is_a_day(
    script: ScriptedServer, resolver: NameResolver, clock: HandClock
) -> None:
    """And the bare `....svc`, whose "no" comes from the root, is never asked."""
    past_the_hold(resolver, clock)
    rests = []
    for _ in range(3):
        rests.append(look_up(resolver).rest_s)
        clock.pass_s(2)

    script.publish(WORKER_FORM, "10.1.0.7")

    assert rests == [0, 0, 0]
    assert look_up(resolver).addresses == ("10.1.0.7",)
    assert not [question for question in script.asked() if question.name.endswith(".svc")]


def test_a_caches_no_is_left_alone_until_it_is_over(
    script: ScriptedServer, resolver: NameResolver, clock: HandClock
) -> None:
    """Asking in between would bring the same."""
    script.no_ttl_s = 20
    script.cached_zones = {CLUSTER_ZONE, "."}
    look_up(resolver, "w-0")
    clock.pass_s(1)
    missing = look_up(resolver, "w-0")
    script.records[f"w-0.{SEARCH[0]}"] = ("10.1.0.7",)
    asked = len(script.asked())
    clock.pass_s(10)
    resting = look_up(resolver, "w-0")
    asked_while_resting = len(script.asked())
    clock.pass_s(9.5)

    assert missing.rest_s == 19
    assert missing.detail == (
        f'"w-0.{SEARCH[0]}" does not exist (NXDOMAIN), may still be cached for 19 s'
    )
    assert resting.rest_s == pytest.approx(9)
    assert asked_while_resting == asked
    assert look_up(resolver, "w-0").addresses == ("10.1.0.7",)


def test_a_long_no_of_a_cache_is_believed_for_half_a_minute(
    script: ScriptedServer, resolver: NameResolver, clock: HandClock
) -> None:
    """A day's TTL must not outlast the wait; caches may be emptied."""
    script.cached_zones = {CLUSTER_ZONE, "."}
    look_up(resolver, "w-0")
    clock.pass_s(2)

    assert look_up(resolver, "w-0").rest_s == 30


def test_that_upstream_is_cached_says_nothing_about_the_clusters_own_zone(
    script: ScriptedServer, resolver: NameResolver, clock: HandClock
) -> None:
    """CoreDNS is a cache for the world and the authority of the cluster."""
    script.no_ttl_s = 20
    script.cached_zones = {"."}
    past_the_hold(resolver, clock)
    for _ in range(2):
        missing = look_up(resolver)
        clock.pass_s(2)
    asked_upstream = len(script.asked("node.example"))
    script.records[WORKER_FORM] = ("10.1.0.7",)

    assert missing.rest_s == 0
    assert look_up(resolver).addresses == ("10.1.0.7",)
    assert len(script.asked("node.example")) == asked_upstream


def test_a_wildcard_does_not_hide_the_pod_that_comes_later(
    script: ScriptedServer, resolver: NameResolver, clock: HandClock
) -> None:
    """It is told, and never remembered."""
    script.rules.append(wildcard("node.example", "10.9.9.9"))
    past_the_hold(resolver, clock)
    astray = [look_up(resolver), look_up(resolver)]
    script.publish(WORKER_FORM, "10.1.0.7")
    found = look_up(resolver)

    assert [lookup.addresses for lookup in astray] == [("10.9.9.9",)] * 2
    assert astray[1].notes == (
        '"*.pi.default.svc.node.example" is a wildcard record: every name under it resolves '
        "to 10.9.9.9",
    )
    assert (found.addresses, found.notes) == (("10.1.0.7",), ())
    assert len(script.asked("no-such-host")) == 2


def test_a_wildcard_is_told_of_where_there_is_no_search_list(
    script: ScriptedServer, tmp_path: Path
) -> None:
    """A provider may answer for every name that is misspelt."""
    conf = write_resolv_conf(tmp_path / "conf", script.address, search=())
    script.rules.append(wildcard("example", "10.9.9.9"))

    found = look_up(NameResolver(resolv_conf=conf), "w-0.example")

    assert found.notes[0].startswith('"*.example" is a wildcard record')


def test_names_without_a_domain_may_be_found_under_different_entries(
    script: ScriptedServer, tmp_path: Path
) -> None:
    """As the machines of two racks."""
    conf = write_resolv_conf(tmp_path / "conf", script.address, search=("rack1.x", "rack2.x"))
    script.records = {"n1.rack1.x": ("10.1.0.1",), "n2.rack2.x": ("10.1.0.2",)}
    resolver = NameResolver(resolv_conf=conf)

    found = [look_up(resolver, name).addresses for name in ("n1", "n2", "n1")]

    assert found == [("10.1.0.1",), ("10.1.0.2",), ("10.1.0.1",)]


def test_no_pod_is_asked_for_while_the_service_lists_nobody(
    script: ScriptedServer, resolver: NameResolver, clock: HandClock
) -> None:
    """Not even by a thousand at once; and the first that is listed is found at once."""
    names = [f"pi-worker-{number}.pi.default.svc" for number in range(1000)]

    async def look_up_all() -> list[Lookup]:
        return await asyncio.gather(*(resolver.look_up(name) for name in names))

    held = asyncio.run(look_up_all())
    asked = {question.name for question in script.asked()}
    asked_count = len(script.asked())
    script.publish(WORKER_FORM, "10.1.0.7")
    clock.pass_s(0.5)
    found = look_up(resolver)

    assert {(lookup.obstacle, lookup.detail) for lookup in held} == {
        (
            Obstacle.NAME_UNKNOWN,
            'the Service "pi.default.svc" lists no ready pod yet (NXDOMAIN)',
        )
    }
    assert asked == {SERVICE}
    assert asked_count == 2
    assert found.addresses == ("10.1.0.7",)
    assert {question.name for question in script.asked("pi-worker")} == {WORKER_FORM}


def test_the_service_is_asked_at_most_twice_a_second(
    script: ScriptedServer, resolver: NameResolver, clock: HandClock
) -> None:
    """However many ask for its pods."""
    for _ in range(10):
        look_up(resolver)
        clock.pass_s(0.1)

    assert len([question for question in script.asked() if question.kind == "A"]) == 2


def test_a_service_that_is_none_holds_nobody_up_for_ever(
    script: ScriptedServer, resolver: NameResolver, clock: HandClock
) -> None:
    """The name's second label may be something else."""
    script.records[WORKER_FORM] = ("10.1.0.7",)
    held = look_up(resolver)
    clock.pass_s(PAST_THE_HOLD_S)

    assert held.addresses == ()
    assert look_up(resolver).addresses == ("10.1.0.7",)


@pytest.mark.parametrize("trouble", [Silence.KEPT, Answer(rcode=dns.rcode.SERVFAIL)])
def test_a_server_that_fails_on_the_service_does_not_hold_up_the_pods(
    script: ScriptedServer,
    tmp_path: Path,
    clock: HandClock,
    trouble: Answer | Silence,
) -> None:
    """It says nothing about who is there."""
    script.records[WORKER_FORM] = ("10.1.0.7",)
    script.rules.append(lambda question: trouble if question.name == SERVICE else None)
    conf = write_resolv_conf(tmp_path / "conf", script.address, options="ndots:5 timeout:1")

    assert look_up(NameResolver(resolv_conf=conf, now_s=clock)).addresses == ("10.1.0.7",)


def test_the_service_says_what_it_has_when_a_pod_is_missing(
    script: ScriptedServer, resolver: NameResolver
) -> None:
    """Then the pod, and not the Service, is what is wrong."""
    for number in range(1, 6):
        script.publish(f"pi-worker-{number}.{SERVICE}", f"10.1.0.{number}")

    assert look_up(resolver).detail == (
        f'"{WORKER_FORM}" does not exist (NXDOMAIN); '
        'the Service "pi.default.svc" lists 5 ready pods'
    )


def test_a_service_that_lists_nobody_is_told_of_when_the_pods_are_asked_for(
    resolver: NameResolver, clock: HandClock
) -> None:
    """With the form under which the cluster would know the pod."""
    past_the_hold(resolver, clock)

    assert look_up(resolver).detail == (
        f'"{WORKER_FORM}" does not exist (NXDOMAIN); '
        'the Service "pi.default.svc" does not exist or selects no ready pod'
    )


def test_an_upstream_that_fails_is_no_trouble_of_a_clusters_name(
    script: ScriptedServer, resolver: NameResolver, clock: HandClock
) -> None:
    """A cluster without internet; and it is not asked again with every look-up."""
    script.rules.append(_fails_upstream)
    past_the_hold(resolver, clock)

    missing = [look_up(resolver) for _ in range(3)]

    assert {lookup.obstacle for lookup in missing} == {Obstacle.NAME_UNKNOWN}
    assert len([q for q in script.asked("node.example") if q.kind == "A"]) == 1


def _fails_upstream(question: Question) -> Answer | None:
    upstream = question.name.endswith("node.example")
    return Answer(rcode=dns.rcode.SERVFAIL) if upstream else None


def test_outside_of_a_cluster_no_service_is_asked_for(
    script: ScriptedServer, tmp_path: Path
) -> None:
    """There the second label is a domain."""
    conf = write_resolv_conf(tmp_path / "conf", script.address, search=("corp.internal",))
    script.records["w-0.pi"] = ("10.1.0.7",)

    found = look_up(NameResolver(resolv_conf=conf), "w-0.pi")

    assert found.addresses == ("10.1.0.7",)
    assert not [question for question in script.asked() if question.name.startswith("pi")]
