"""Names asked of real name servers: which answer comes, which kind of "no", and how soon."""

from __future__ import annotations

import asyncio
import contextlib
import resource
import time
from collections.abc import Iterator
from pathlib import Path

import dns.rcode
import pytest

from mpi_agent.job.readiness import Obstacle
from mpi_agent.wait.dns import Lookup, NameResolver
from mpi_agent.wait.dns.name_server import NameServers, RecordKind
from mpi_agent.wait.dns.resolv_conf import ResolverSettings
from tests.name_servers import (
    Answer,
    Dnsmasq,
    Question,
    Rule,
    ScriptedServer,
    Silence,
    needs_port_53,
    running_dnsmasq,
    running_server,
    write_resolv_conf,
)
from tests.waiting import wait_until
from tests.workers import free_address

pytestmark = [pytest.mark.integration, needs_port_53]
DOMAIN = "svc.corp.internal"


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Dnsmasq]:
    """Provide a dnsmasq that is up."""
    with running_dnsmasq(tmp_path) as made:
        yield made


@pytest.fixture
def script() -> Iterator[ScriptedServer]:
    """Provide a name server that can be made to say anything."""
    with running_server() as made:
        yield made


@pytest.fixture
def resolv_conf(tmp_path: Path, script: ScriptedServer) -> Path:
    """Provide a resolv.conf without a search list that names the scripted server."""
    return write_resolv_conf(tmp_path / "resolv.conf", script.address, search=())


def look_up(resolver: NameResolver, name: str) -> Lookup:
    """Ask once."""
    return asyncio.run(resolver.look_up(name))


def always(answer: Answer | Silence, *, kind: str = "") -> Rule:
    """Return a rule that gives one answer to every question, or to those of one kind."""

    def rule(question: Question) -> Answer | Silence | None:
        return answer if kind in ("", question.kind) else None

    return rule


def test_a_name_of_the_operator_resolves_in_a_cluster_with_another_domain(
    server: Dnsmasq,
) -> None:
    """Completed with the search entry that answers, found once and kept."""
    server.publish(f"pi-worker-0.pi.default.{DOMAIN}", "10.1.0.7")
    server.publish(f"pi-worker-1.pi.default.{DOMAIN}", "10.1.0.8")
    resolver = NameResolver(resolv_conf=server.resolv_conf)
    wait_until("the name", lambda: bool(look_up(resolver, "pi-worker-0.pi.default.svc").addresses))

    second = look_up(resolver, "pi-worker-1.pi.default.svc")

    assert second.addresses == ("10.1.0.8",)
    assert second.absolute == f"pi-worker-1.pi.default.{DOMAIN}."
    assert f"pi-worker-1.pi.default.svc.default.{DOMAIN}" not in server.asked()
    assert "pi-worker-1.pi.default.svc is" not in server.asked()


def test_a_name_that_is_missing_heals_when_it_is_published(server: Dnsmasq) -> None:
    """Nothing of the "no" is remembered."""
    resolver = NameResolver(resolv_conf=server.resolv_conf)
    missing = look_up(resolver, "pi-worker-0.pi.default.svc")

    server.publish(f"pi-worker-0.pi.default.{DOMAIN}", "10.1.0.7")

    assert missing.obstacle is Obstacle.NAME_UNKNOWN
    assert "NXDOMAIN" in missing.detail
    wait_until("the name", lambda: bool(look_up(resolver, "pi-worker-0.pi.default.svc").addresses))


def test_a_replaced_pod_is_found_at_its_new_address(server: Dnsmasq) -> None:
    """Every question is asked anew."""
    resolver = NameResolver(resolv_conf=server.resolv_conf)
    server.publish(f"w-0.{DOMAIN}", "10.1.0.7")
    wait_until("the old", lambda: look_up(resolver, "w-0").addresses == ("10.1.0.7",))

    server.hosts.write_text("")
    server.publish(f"w-0.{DOMAIN}", "10.1.0.9")

    wait_until("the new", lambda: look_up(resolver, "w-0").addresses == ("10.1.0.9",))


def test_a_name_server_that_is_down_is_another_no_than_a_missing_name(server: Dnsmasq) -> None:
    """The remedy is another one; and nobody waits for a port at which nobody listens."""
    resolver = NameResolver(resolv_conf=server.resolv_conf)
    server.process.terminate()
    server.process.wait(timeout=10)
    started_s = time.monotonic()

    missing = look_up(resolver, "w-0")

    assert missing.obstacle is Obstacle.NAME_SERVER_SILENT
    assert "refused" in missing.detail
    assert time.monotonic() - started_s < 2


def test_a_thousand_names_at_once_need_few_descriptors(server: Dnsmasq) -> None:
    """A job is not lost because a container may open 1,024 files."""
    names = [f"w-{number}.{DOMAIN}" for number in range(1000)]
    server.hosts.write_text("".join(f"10.1.0.7 {name}\n" for name in names))
    server.process.send_signal(1)
    resolver = NameResolver(resolv_conf=server.resolv_conf)
    wait_until("the last", lambda: bool(look_up(resolver, names[-1]).addresses))

    async def look_up_all() -> list[Lookup]:
        return await asyncio.gather(*(resolver.look_up(name) for name in names))

    with few_descriptors(300):
        found = asyncio.run(look_up_all())

    assert {lookup.addresses for lookup in found} == {("10.1.0.7",)}


@contextlib.contextmanager
def few_descriptors(most: int) -> Iterator[None]:
    """Lower the limit of open files for a while."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.mark.parametrize("code", [dns.rcode.SERVFAIL, dns.rcode.REFUSED])
def test_a_server_that_fails_says_nothing_about_the_name(
    script: ScriptedServer, resolv_conf: Path, code: dns.rcode.Rcode
) -> None:
    """The sentence names the form, the server and its words."""
    script.rules.append(always(Answer(rcode=code)))

    failed = look_up(NameResolver(resolv_conf=resolv_conf), "w-0.pi")

    assert failed.obstacle is Obstacle.NAME_SERVER_FAILED
    assert failed.detail == (
        f'no answer for "w-0.pi": name server {script.address} failed ({code.name})'
    )


def test_a_silent_server_holds_nobody_up_beyond_the_limit(
    script: ScriptedServer, resolv_conf: Path
) -> None:
    """Whatever the number of forms."""
    script.rules.append(always(Silence.KEPT))
    started_s = time.monotonic()

    silent = look_up(NameResolver(resolv_conf=resolv_conf, limit_s=0.3), "w-0.pi")

    assert silent.obstacle is Obstacle.NAME_SERVER_SILENT
    assert silent.detail == f'no answer for "w-0.pi": name server {script.address} is silent'
    assert time.monotonic() - started_s < 2


def test_a_form_that_was_not_asked_in_time_is_not_said_to_be_missing(
    script: ScriptedServer,
) -> None:
    """A machine that is too busy to ask must not send anybody looking for a misspelt name."""
    servers = NameServers(ResolverSettings(servers=(script.address,)), limit_s=5)

    late = asyncio.run(servers.ask("w-0.pi.", RecordKind.A, until_s=time.monotonic() - 1))

    assert late.obstacle is Obstacle.NAME_SERVER_SILENT
    assert script.asked() == []


def test_without_a_name_server_the_sentence_says_so(tmp_path: Path) -> None:
    """An image may come without resolv.conf."""
    missing = look_up(NameResolver(resolv_conf=tmp_path / "none"), "w-0.pi")

    assert missing.obstacle is Obstacle.NAME_SERVER_SILENT
    assert missing.detail == 'no answer for "w-0.pi": no name server is configured'


def test_a_lost_datagram_is_sent_again(script: ScriptedServer, tmp_path: Path) -> None:
    """As often as `attempts` says."""
    conf = write_resolv_conf(
        tmp_path / "resolv.conf", script.address, search=(), options="timeout:1 attempts:2"
    )
    script.records["w-0.pi"] = ("10.1.0.7",)
    script.rules.append(lambda _: Silence.KEPT if len(script.questions) <= 2 else None)

    found = look_up(NameResolver(resolv_conf=conf), "w-0.pi")

    assert found.addresses == ("10.1.0.7",)


@pytest.mark.parametrize("trouble", [Silence.KEPT, Answer(rcode=dns.rcode.SERVFAIL)])
def test_the_next_server_answers_for_one_that_does_not(
    script: ScriptedServer, tmp_path: Path, trouble: Answer | Silence
) -> None:
    """And one that was silent does not cost its time again with the next name."""
    script.rules.append(always(trouble))
    with running_server() as second:
        second.records = {"w-0.pi": ("10.1.0.7",), "w-1.pi": ("10.1.0.8",)}
        conf = write_resolv_conf(
            tmp_path / "resolv.conf", script.address, second.address, search=()
        )
        resolver = NameResolver(resolv_conf=conf, limit_s=1)
        found = [look_up(resolver, name).addresses for name in ("w-0.pi", "w-1.pi")]

    assert found == [("10.1.0.7",), ("10.1.0.8",)]
    assert not isinstance(trouble, Silence) or not script.asked("w-1")


def test_an_answer_that_was_cut_short_is_fetched_by_tcp(
    script: ScriptedServer, resolv_conf: Path
) -> None:
    """A Service with a hundred pods does not fit into a datagram."""
    addresses = tuple(f"10.1.{number // 250}.{number % 250}" for number in range(2000))
    script.records["pi.default"] = addresses
    script.rules.append(lambda question: None if question.over_tcp else Answer(truncated=True))

    found = look_up(NameResolver(resolv_conf=resolv_conf), "pi.default")

    assert sorted(found.addresses) == sorted(addresses)
    assert [q.over_tcp for q in script.asked() if q.kind == "A"][:2] == [False, True]


def test_use_vc_means_tcp_from_the_start(script: ScriptedServer, tmp_path: Path) -> None:
    """Somebody wrote it because datagrams do not come through."""
    conf = write_resolv_conf(tmp_path / "conf", script.address, search=(), options="use-vc")
    script.records["w-0.pi"] = ("10.1.0.7",)

    assert look_up(NameResolver(resolv_conf=conf), "w-0.pi").addresses == ("10.1.0.7",)
    assert all(question.over_tcp for question in script.asked())


def test_a_host_with_nothing_but_ipv6_is_found(script: ScriptedServer, resolv_conf: Path) -> None:
    """Both kinds are asked for."""
    script.records["w-0.pi"] = ("fd00::7",)

    assert look_up(NameResolver(resolv_conf=resolv_conf), "w-0.pi").addresses == ("fd00::7",)


@pytest.mark.parametrize(
    ("silent", "address"), [("AAAA", "10.1.0.7"), ("A", "fd00::7")], ids=["A", "AAAA"]
)
def test_one_kind_of_address_does_not_wait_for_the_other(
    script: ScriptedServer, resolv_conf: Path, silent: str, address: str
) -> None:
    """There are balancers that drop every question for AAAA."""
    script.records["w-0.pi"] = (address,)
    script.rules.append(always(Silence.KEPT, kind=silent))
    started_s = time.monotonic()

    found = look_up(NameResolver(resolv_conf=resolv_conf), "w-0.pi")

    assert found.addresses == (address,)
    assert time.monotonic() - started_s < 1


def test_a_name_that_exists_without_addresses_is_a_no_of_its_own(
    script: ScriptedServer, resolv_conf: Path
) -> None:
    """It is misspelt in another way than one that does not exist."""
    script.rules.append(always(Answer(ttl_s=30)))

    empty = look_up(NameResolver(resolv_conf=resolv_conf), "w-0.pi")

    assert empty.obstacle is Obstacle.NAME_EMPTY
    assert empty.detail == '"w-0.pi" exists and has no address'


def test_what_dns_cannot_hold_is_unknown_and_no_failure(resolv_conf: Path) -> None:
    """Nobody needs to look at the name server."""
    missing = look_up(NameResolver(resolv_conf=resolv_conf), f"{'w' * 64}.pi")

    assert missing.obstacle is Obstacle.NAME_UNKNOWN
    assert "cannot be asked for" in missing.detail


def test_a_name_server_may_have_an_ipv6_address(tmp_path: Path) -> None:
    """As in a cluster without IPv4."""
    try:
        asking = running_server("::1")
        script = asking.__enter__()
    except OSError as error:
        pytest.skip(f"[::1]:53 cannot be used: {error}")
    with contextlib.ExitStack() as stack:
        stack.push(asking)
        script.records["w-0.pi"] = ("fd00::7",)
        conf = write_resolv_conf(tmp_path / "resolv.conf", "::1", search=())

        assert look_up(NameResolver(resolv_conf=conf), "w-0.pi").addresses == ("fd00::7",)


def test_the_hosts_file_is_seen_when_it_changes(resolv_conf: Path, tmp_path: Path) -> None:
    """The kubelet writes it while the pod starts."""
    hosts = tmp_path / "etc-hosts"
    resolver = NameResolver(resolv_conf=resolv_conf, hosts_file=hosts)
    before = look_up(resolver, "w-0.pi")
    hosts.write_text("10.1.0.7 W-0.pi\n")
    found = look_up(resolver, "w-0.pi")
    hosts.write_text("10.1.0.7 w-0.pi\n10.1.0.8 w-1.pi\n")

    assert before.obstacle is Obstacle.NAME_UNKNOWN
    assert found == Lookup(addresses=("10.1.0.7",))
    assert look_up(resolver, "w-1.pi").addresses == ("10.1.0.8",)


def test_an_address_is_its_own_answer(tmp_path: Path) -> None:
    """Nobody is asked."""
    resolver = NameResolver(resolv_conf=tmp_path / "none")

    assert look_up(resolver, "[fd00::7]") == Lookup(addresses=("fd00::7",))


@pytest.mark.parametrize(
    ("search", "claim"),
    [((f"default.{DOMAIN}", DOMAIN), True), ((DOMAIN,), True), (("corp.internal",), False)],
)
def test_the_search_list_tells_whether_the_cluster_is_searched(
    tmp_path: Path, search: tuple[str, ...], claim: bool
) -> None:
    """On the host's network it is not, unless the pod says ClusterFirstWithHostNet."""
    conf = write_resolv_conf(tmp_path / "resolv.conf", free_address()[0], search=search)

    assert NameResolver(resolv_conf=conf).searches_cluster() is claim
