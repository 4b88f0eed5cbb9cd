"""From entries to the job's hosts, and which names can belong to the job."""

from __future__ import annotations

import pytest

from mpi_agent.discover.hostfile import parse_hostfile
from mpi_agent.discover.mpi_operator import (
    JobIdentity,
    job_identity,
    no_source_error,
    separate_strangers,
)
from mpi_agent.discover.script import parse_script_output
from mpi_agent.discover.slots import DefaultSlots, OwnNames, default_slots, to_host_list
from mpi_agent.discover.static import parse_host_list
from mpi_agent.errors import HostSourceInvalidError
from mpi_agent.job.hosts import DiscoveredHosts, Role, SlotsOrigin
from mpi_agent.setting_words import Slots

LAUNCHER = OwnNames(host_name="pi-launcher", names=("pi-launcher",), addresses=("10.0.0.9",))


def found(text: str) -> DiscoveredHosts:
    """Return what a source with these lines tells."""
    return DiscoveredHosts(entries=parse_hostfile(text), source="test")


def test_twelve_workers_stand_in_numeric_order() -> None:
    """The discover script lists worker-10 before worker-2; ranks must not follow it."""
    script = "".join(f"pi-worker-{i}.pi.default.svc\n" for i in sorted(map(str, range(12))))

    hosts = to_host_list(
        parse_script_output(script, place="discover_hosts.sh"),
        slots=DefaultSlots(count=1, origin="default"),
        own=LAUNCHER,
        numeric_order=True,
    )

    assert hosts.names == tuple(f"pi-worker-{i}.pi.default.svc" for i in range(12))
    assert [host.index for host in hosts.hosts] == list(range(12))


def test_the_launcher_comes_first_under_its_own_name_if_it_is_a_worker() -> None:
    """Open MPI 5 takes any other name of the launcher for a remote host."""
    hosts = to_host_list(
        found("pi-worker-0.pi.default.svc slots=2\npi-launcher.pi.default.svc slots=2\n"),
        slots=DefaultSlots(count=1, origin="default"),
        own=LAUNCHER,
        numeric_order=True,
    )

    assert hosts.names == ("pi-launcher", "pi-worker-0.pi.default.svc")
    assert hosts.hosts[0].is_local
    assert hosts.hosts[0].role is Role.LAUNCHER


def test_a_list_of_the_user_keeps_its_order() -> None:
    """The user wins."""
    hosts = to_host_list(
        parse_host_list("b:2, a", place="--hosts"),
        slots=DefaultSlots(count=4, origin="--slots"),
        own=LAUNCHER,
        numeric_order=False,
    )

    assert [(host.name, host.slots) for host in hosts.hosts] == [("b", 2), ("a", 4)]


def test_a_bad_item_of_a_list_is_named() -> None:
    """A list has items, not lines."""
    with pytest.raises(HostSourceInvalidError, match='"--hosts", item 2, `b:x`'):
        parse_host_list("a,b:x", place="--hosts")


@pytest.mark.parametrize(
    ("wanted", "environ", "count", "origin"),
    [
        (3, {"OMPI_MCA_orte_set_default_slots": "8"}, 3, "--slots"),
        (Slots.AUTO, {"OMPI_MCA_orte_set_default_slots": "8"}, 1, "--slots auto"),
        (None, {"OMPI_MCA_orte_set_default_slots": "8"}, 8, "OMPI_MCA_orte_set_default_slots"),
        (None, {"I_MPI_PERHOST": "4"}, 4, "I_MPI_PERHOST"),
        (None, {"OMPI_MCA_orte_set_default_slots": "cores"}, 1, "default"),
        (None, {}, 1, "default"),
    ],
)
def test_slots_without_a_count_come_from_the_setting_then_the_operator(
    wanted: int | Slots | None, environ: dict[str, str], count: int, origin: str
) -> None:
    """The discover script never carries slots."""
    found = default_slots(wanted, environ)

    assert (found.count, found.origin) == (count, origin)


@pytest.mark.parametrize(
    ("listed", "origins"),
    [
        ("a\nb slots=4\n", [SlotsOrigin.WANTED, SlotsOrigin.SOURCE]),
        ("a slots=2\nb slots=4\n", [SlotsOrigin.WANTED, SlotsOrigin.WANTED]),
    ],
)
def test_hosts_are_asked_for_slots_where_the_list_gives_none(
    listed: str, origins: list[SlotsOrigin]
) -> None:
    """A list that gives all of them is overruled: there would be nothing to ask for."""
    hosts = to_host_list(
        found(listed), slots=default_slots(Slots.AUTO, {}), own=LAUNCHER, numeric_order=False
    )

    assert [host.slots_from for host in hosts.hosts] == origins
    assert hosts.hosts[0].slots == 1


def test_the_job_is_read_from_the_launchers_host_name() -> None:
    """Nothing in the environment gives it."""
    assert job_identity("pi-launcher", "default") == JobIdentity(job="pi", namespace="default")
    assert job_identity("pi-launcher.pi.default", None).job == "pi"
    assert job_identity("node-17", None) == JobIdentity(job=None, namespace=None)


@pytest.mark.parametrize(
    "stranger",
    [
        "pi-worker-0.pi.other.svc",
        "pi2-worker-0.pi2.default.svc",
        "pi-worker-0.pi2.default.svc",
        "pi-worker-0.pi.other",
        "gateway.default.svc",
    ],
)
def test_a_name_of_another_job_or_namespace_is_a_stranger(stranger: str) -> None:
    """It must never be dialled."""
    identity = JobIdentity(job="pi", namespace="default")
    own, strangers = separate_strangers(
        parse_hostfile(f"pi-worker-0.pi.default.svc\n{stranger}\n"), identity
    )

    assert [entry.name for entry in own] == ["pi-worker-0.pi.default.svc"]
    assert [entry.name for entry in strangers] == [stranger]


@pytest.mark.parametrize(
    "name",
    [
        "pi-worker-12",
        "pi-launcher.pi.default.svc",
        "pi-worker-3.pi.default.svc.corp.internal",
        "pi-worker-3.pi-worker",
    ],
)
def test_every_form_of_a_name_that_the_operators_write_belongs_to_the_job(name: str) -> None:
    """Older operators use another service name; some clusters another domain."""
    own, strangers = separate_strangers(
        parse_hostfile(name), JobIdentity(job="pi", namespace="default")
    )

    assert (len(own), strangers) == (1, ())


def test_a_job_name_with_dots_is_no_stranger() -> None:
    """The name is compared as text, not label by label."""
    own, _ = separate_strangers(
        parse_hostfile("job.1-worker-0.job.1.default.svc"),
        JobIdentity(job="job.1", namespace="default"),
    )

    assert len(own) == 1


def test_a_kubexec_script_tells_of_a_v1_manifest() -> None:
    """The remedy is another apiVersion, not another path."""
    error = no_source_error(has_directory=True, has_kubexec=True, role="launcher")

    assert "kubeflow.org/v1" in error.summary
    assert "v2beta1" in error.hint


def test_junk_from_a_script_is_named_by_line() -> None:
    """A script that prints a log line is not a source."""
    with pytest.raises(HostSourceInvalidError, match=r"line 2, `Loading \[ok\] ...`"):
        parse_script_output("pi-worker-0\nLoading [ok] ...\n", place="discover_hosts.sh")


def test_a_script_that_prints_nothing_lists_nobody() -> None:
    """At creation the operator's script is empty; that is no error yet."""
    assert parse_script_output("\n", place="discover_hosts.sh").entries == ()
