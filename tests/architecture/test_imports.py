"""The rules of the layout: who may import whom, which modules touch the world, who owns what."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[2] / "mpi_agent"
GROUND = (
    "errors",
    "settings",
    "setting_words",
    "given",
    "command_settings",
    "supervision_settings",
    "run_id",
    "shm_names",
    "worker_settings",
    "environment",
    "env_file",
    "variable_names",
    "variable_wishes",
    "state",
    "container",
    "children",
    "mpi_processes",
    "process_table",
    "process_signals",
    "job_processes",
    "segments",
    "cgroup",
    "limits",
    "job",
    "ssh",
)
CHAPTERS = ("discover", "wait", "command", "run", "explain")
EFFECTFUL = {
    "attempt",
    "hosts_in_reach",
    "beside",
    "lookout",
    "run.aftermath",
    "run.idle_hosts",
    "run.alarms",
    "cgroup",
    "children",
    "job_processes",
    "limits",
    "process_signals",
    "process_table",
    "segments",
    "container",
    "state",
    "job_finder",
    "job_access",
    "planner",
    "waiter",
    "host_wait",
    "own_name",
    "launcher",
    "neighbours",
    "sidecar",
    "surroundings",
    "discover.script",
    "discover.readers",
    "discover.follow",
    "discover.sources",
    "wait.back",
    "wait.dns.crowd",
    "wait.dns.forms",
    "wait.dns.name_server",
    "wait.dns.resolver",
    "wait.gate",
    "wait.own_facts",
    "wait.probe",
    "wait.ssh",
    "wait.tcp",
    "command.stack",
    "run.copying",
    "run.dialled",
    "run.executable",
    "run.channel_talk",
    "run.host_probe",
    "run.host_watch",
    "run.lost_hosts",
    "run.open_channels",
    "run.open_files",
    "run.rank_logs",
    "run.hosts_of_run",
    "run.own_ranks",
    "run.plain_hosts",
    "run.stalls",
    "run.starting",
    "run.lost_daemons",
    "run.stragglers",
    "run.signals",
    "run.streams",
    "run.supervise",
    "run.terminal",
    "run.watched",
    "explain.publish",
    "ssh.banner",
    "ssh.client",
    "ssh.errands",
    "ssh.installed",
    "ssh.keys",
    "ssh.nss_wrapper",
    "ssh.remote",
    "worker.builtin",
    "worker_call",
    "worker.call_program",
    "worker.audience",
    "worker.control",
    "worker.held_runs",
    "worker.launchers_seen",
    "worker.process_ends",
    "worker.rank_watch",
    "worker.conversation",
    "worker.local_socket",
    "worker.leases",
    "worker.credentials",
    "worker.keeper",
    "worker.notary",
    "worker.notary_child",
    "worker.notary_start",
    "worker.leftovers",
    "worker.memory",
    "worker.openssh",
    "worker.preparing",
    "worker.readiness",
    "worker.renewal",
    "worker.session",
    "worker.server_facts",
    "worker.visitor",
    "worker.drain",
    "worker.emptied",
    "worker.ranks",
    "worker.stop_signals",
    "worker.worker",
    "observe.bar",
    "observe.error_stream",
    "observe.http",
    "observe.log",
    "observe.metrics",
    "observe.patient_log",
    "observe.usage",
    "observe.worker_metrics",
    "observe.worker_pages",
    "local.cluster",
    "local.directories",
}
WORLD = set(
    "asyncio http io logging os random select shutil socket ssl subprocess sys tempfile"
    " threading time urllib".split()
)
SIGNAL_NAMES_ONLY = {"job.endings": "names of signals, no handler", "run.stopping": "the same"}
THIRD_PARTY_HOMES = {
    "dns": {"wait.dns.name_server"},
    "asyncssh": {
        "wait.ssh",
        "ssh.client",
        "ssh.errands",
        "ssh.remote",
        "worker.builtin",
        "worker.notary_child",
        "worker.session",
        "worker.visitor",
    },
    "cryptography": {"ssh.keys", "worker.notary_child"},
    "prometheus_client": {"observe.metrics", "observe.worker_metrics"},
    "psutil": {"container"},
    "click": {"cli"},
    "tenacity": {"discover.sources"},
}
READERS_OF_THE_ENVIRONMENT = {
    "container": "HOME, where there is no passwd entry; LOGNAME for libraries",
    "ssh.keys": "HOME, where a mount may be",
    "command.stack": "the environment of `mpirun --version`",
    "worker.openssh": "the environment of sshd",
    "ssh.installed": "the environment of `ssh -G`, and LD_PRELOAD beside a library of ours",
}
VAGUE = {"utils", "helpers", "common", "misc", "base", "manager", "handler", "data", "info"}


def modules() -> Iterator[tuple[str, Path]]:
    """Yield the dotted name below the package and the file of each module."""
    for path in sorted(PACKAGE.rglob("*.py")):
        parts = path.relative_to(PACKAGE).with_suffix("").parts
        yield ".".join(part for part in parts if part != "__init__"), path


def imports_of(path: Path) -> set[str]:
    """Return every module that a file imports, wherever in it the import stands."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found |= {node.module} | {f"{node.module}.{alias.name}" for alias in node.names}
    return found


def own_imports(path: Path) -> set[str]:
    """Return the first-level packages of ours that a file imports."""
    prefix = "mpi_agent."
    return {
        name.removeprefix(prefix).split(".")[0]
        for name in imports_of(path)
        if name.startswith(prefix)
    } - {"__version__"}


MODULES = dict(modules())


@pytest.mark.parametrize("name", [n for n in MODULES if n.split(".")[0] in GROUND])
def test_the_ground_imports_nothing_from_higher_up(name: str) -> None:
    """Values and what both sides share do not know who uses them."""
    assert own_imports(MODULES[name]) <= set(GROUND)


@pytest.mark.parametrize("name", [n for n in MODULES if n.split(".")[0] in CHAPTERS])
def test_a_chapter_looks_back_and_never_forward(name: str) -> None:
    """Discover < wait < command < run < explain."""
    earlier = CHAPTERS[: CHAPTERS.index(name.split(".")[0]) + 1]

    assert own_imports(MODULES[name]) <= {*GROUND, *earlier}


@pytest.mark.parametrize("name", [n for n in MODULES if n.split(".")[0] in {"worker", "observe"}])
def test_worker_and_observe_know_the_ground_alone(name: str) -> None:
    """The two sides share the ground and nothing else."""
    assert own_imports(MODULES[name]) <= {*GROUND, name.split(".")[0]}


@pytest.mark.parametrize("name", [n for n in MODULES if n.split(".")[0] not in {"cli", "__main__"}])
def test_nobody_imports_the_commands(name: str) -> None:
    """The commands make the real objects and hand them over; nothing depends on them."""
    assert "cli" not in own_imports(MODULES[name])


@pytest.mark.parametrize(
    "name",
    [n for n in MODULES if n not in EFFECTFUL and n.split(".")[0] not in {"cli", "__main__", ""}],
)
def test_a_pure_module_does_not_touch_the_world(name: str) -> None:
    """Decisions are made in modules that cannot read, write, sleep or start anything."""
    first = {imported.split(".")[0] for imported in imports_of(MODULES[name])}
    forbidden = WORLD if name in SIGNAL_NAMES_ONLY else {*WORLD, "signal"}

    assert not first & forbidden
    assert "pathlib.Path" not in imports_of(MODULES[name])
    assert not first & set(THIRD_PARTY_HOMES)


@pytest.mark.parametrize("package", THIRD_PARTY_HOMES)
def test_a_third_party_package_is_used_in_its_home_alone(package: str) -> None:
    """So that replacing it means looking in one place."""
    users = {
        name
        for name, path in MODULES.items()
        if package in {imported.split(".")[0] for imported in imports_of(path)}
    }
    homes = THIRD_PARTY_HOMES[package]

    assert {user for user in users if not homes & {user, user.split(".")[0]}} == set()


def test_the_list_of_effectful_modules_names_real_modules() -> None:
    """A module that is gone must leave the list too."""
    assert set(MODULES) >= EFFECTFUL


@pytest.mark.parametrize("name", MODULES)
def test_no_module_has_a_name_that_says_nothing(name: str) -> None:
    """Utils, helpers and their kin hide what a file decides."""
    assert not VAGUE & set(name.split("."))


@pytest.mark.parametrize(
    "name",
    [n for n in MODULES if n not in READERS_OF_THE_ENVIRONMENT and n.split(".")[0] != "cli"],
)
def test_only_named_modules_read_the_environment(name: str) -> None:
    """Variables are handed in by the commands; a few need them for a child or for HOME."""
    text = MODULES[name].read_text()

    assert not [word for word in ("os.environ", "getenv", "import environ") if word in text]
