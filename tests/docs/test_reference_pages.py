"""Pages say what the code does: links resolve, tables match, the README's commands exist."""

from __future__ import annotations

import inspect
import io
import json
import re
import time
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry

from mpi_agent import errors
from mpi_agent.cgroup import MemoryAccount
from mpi_agent.command.defaults import DEFAULTS
from mpi_agent.command.dialects import Dialect
from mpi_agent.command.dialects.intel import INTEL_MPI
from mpi_agent.command.dialects.mpich import MPICH
from mpi_agent.command.dialects.openmpi4 import OPEN_MPI_4
from mpi_agent.command.dialects.openmpi5 import OPEN_MPI_5
from mpi_agent.command.topics import Topic
from mpi_agent.job.endings import Verdict
from mpi_agent.job.events import Event, ProgramEnded
from mpi_agent.job.readiness import HostReadiness, ReadinessReport
from mpi_agent.job.worker_events import RunBegan, WorkerDrained, WorkerDraining
from mpi_agent.job_processes import RankUsage
from mpi_agent.observe.json_values import event_values, host_values
from mpi_agent.observe.log import JsonLog, event_name
from mpi_agent.observe.metrics import Metrics
from mpi_agent.observe.status import Status
from mpi_agent.observe.usage import Usage
from mpi_agent.observe.worker_metrics import WorkerMetrics
from mpi_agent.observe.worker_status import Role, WorkerStatus
from mpi_agent.settings import ALL_SETTINGS, settings_of, variable_of
from mpi_agent.wait.ladder import LASTING_OBSTACLES, advance
from mpi_agent.wait.remedies import REMEDIES, Surroundings
from mpi_agent.wait.report import readiness_error
from tests.builders import a_probe_result
from tests.unit.observe.sightings import ONE_OF_EACH, a_missing_host, an_ending

ROOT = Path(__file__).parents[2]
PAGES = sorted(
    path
    for pattern in ("*.md", "docs/**/*.md", "images/*.md", "examples/**/*.md", "benchmarks/*.md")
    for path in ROOT.glob(pattern)
)
COMMANDS = (
    "launch",
    "plan",
    "worker",
    "wait",
    "hosts",
    "hostfile",
    "sidecar",
    "local",
    "ready",
    "explain",
)


VARIABLES_ALONE = (
    "",
    "## Variables without a flag",
    "",
    "| variable | default | meaning |",
    "| --- | --- | --- |",
    "| `MPI_AGENT_SHIM` |  | `off`, `no`, `false` (also `Off` or `OFF`) or `0`: the `mpirun` and "
    "`sshd` that stand in front of the real ones in [our images](../../images/README.md) step "
    "aside; the agent sets it for what it starts. |",
    "| `MPI_AGENT_TRACEBACK` |  | Anything but nothing: an error that is a bug of the agent (code "
    "70) is shown with its traceback. |",
)


def settings_page() -> str:
    """Return the text of docs/reference/settings.md as the table of settings demands it."""
    lines = [
        "# Settings",
        "",
        "A value comes from the flag, else from the variable, else from the default.",
        "Durations are written `90s`, `10m`, `1h30m`; a bare number is seconds.",
        "`plan` knows the settings of `launch`, and its own.",
    ]
    for command in COMMANDS:
        lines += ["", f"## `mpi-agent {command}`", "", "| flag | variable | default | meaning |"]
        lines += ["| --- | --- | --- | --- |"]
        for row in settings_of(command):
            if command == "plan" and "launch" in row.commands:
                continue
            value = f" {row.placeholder}" if row.placeholder else ""
            flag = f"{row.flag}{value}".replace("|", "\\|")
            default = f"`{row.default}`" if row.default else ""
            lines += [f"| `{flag}` | `{variable_of(row.name)}` | {default} | {row.help} |"]
    return "\n".join([*lines, *VARIABLES_ALONE]) + "\n"


def metrics_page() -> str:
    """Return the text of docs/reference/metrics.md as the registries demand it."""
    job, worker = Metrics(now_s=time.monotonic), WorkerMetrics(a_worker_status())
    lines = [
        "# Metrics",
        "",
        "`GET /metrics` gives them in Prometheus' text format; "
        "[status.md](status.md) describes the other pages of that server.",
        "Names are public: added, never changed.",
        "Label values come from closed sets, and each is there from the start; no label holds a "
        "host's name, which [status.md](status.md) tells.",
        "",
        "## `mpi-agent launch` and `mpi-agent wait`",
        "",
        *_metric_tables(job.registry),
        "",
        "## `mpi-agent worker` and `mpi-agent sidecar`",
        "",
        "A sidecar sees neither logins nor runs, so it has no metrics of them; what cannot be seen "
        "has no value.",
        "The label `rank` is a rank's number in the whole job.",
        "It is the one label without a closed set: there are as many as ranks run here, which "
        "slots bound, and a series ends with its rank.",
        "Ranks of the same number in two runs at a time count together.",
        "",
        *_metric_tables(worker.registry),
    ]
    return "\n".join(lines) + "\n"


def _metric_tables(registry: CollectorRegistry) -> list[str]:
    """Return the table of metrics, and the one of the labels' values."""
    lines = ["| metric | type | labels | meaning |", "| --- | --- | --- | --- |"]
    values = ["", "| metric | label | values |", "| --- | --- | --- |"]
    for metric in registry.collect():
        name = f"`{metric.name}_total`" if metric.type == "counter" else f"`{metric.name}`"
        labels = sorted({label for sample in metric.samples for label in sample.labels} - {"le"})
        shown = ", ".join(f"`{label}`" for label in labels)
        lines += [f"| {name} | {metric.type} | {shown} | {metric.documentation} |"]
        for label in set(labels) - {"version", "rank"}:
            found = dict.fromkeys(f"`{sample.labels[label]}`" for sample in metric.samples)
            values += [f"| {name} | `{label}` | {', '.join(found)} |"]
    return lines + values


def a_worker_status() -> WorkerStatus:
    """Return the status of a worker on which one rank runs."""
    rank = RankUsage(rank=0, local_rank=0, pid=1, cpu_s=0.0, memory_bytes=0)
    usage = Usage(ranks=(rank,), memory=MemoryAccount(limit_bytes=1, used_bytes=1, kills=0))
    return WorkerStatus(role=Role.WORKER, name="w", now_s=time.monotonic, look=lambda: usage)


def test_the_settings_page_is_the_table_of_the_code() -> None:
    """`python -m tests.docs.test_reference_pages` writes it anew."""
    assert (ROOT / "docs/reference/settings.md").read_text() == settings_page()


def test_the_metrics_page_is_the_registries_of_the_code() -> None:
    """Name, type, labels and help of each; the same command writes it anew."""
    assert (ROOT / "docs/reference/metrics.md").read_text() == metrics_page()


def test_the_status_page_names_every_key_and_every_event() -> None:
    """Of the status, of a host, and of the log's JSON lines."""
    text = (ROOT / "docs/reference/status.md").read_text()
    told = {event_name(event): event_values(event) for event in ONE_OF_EACH}
    status = Status(now_s=time.monotonic)
    for event in ONE_OF_EACH:
        status(event)
    page = json.loads(status.render())
    parts = (page[name] for name in ("job", "wait", "program", "ending"))
    host = host_values(a_missing_host("a"), at_s=0.0)
    worker = json.loads(a_busy_worker().render())
    parts_of_worker = (
        *(worker[name] for name in ("ssh", "logins", "memory")),
        *(worker[name][0] for name in ("runs", "ranks")),
    )
    pages = (page, *parts, host, worker, *parts_of_worker)
    keys = {key for values in (*told.values(), *pages) for key in values}

    named = set(re.findall(r"`(?:\w+\.)?(\w+)`", text))

    assert keys <= named
    assert {name for name, values in told.items() if values} <= named


def row_of(page: str, key: str) -> str:
    """Return what a table of a page says behind a key."""
    (row,) = re.findall(rf"^\| `{re.escape(key)}` \| (.*) \|$", page, re.M)
    return str(row)


def test_the_status_page_names_every_verdict() -> None:
    """And no other."""
    row = row_of((ROOT / "docs/reference/status.md").read_text(), "ending.verdict")

    assert set(re.findall(r"`(\w+)`", row)) == {verdict.name.lower() for verdict in Verdict}


def test_the_status_page_names_every_event_that_is_a_warning() -> None:
    """And no other; some are one only now and then."""
    row = row_of((ROOT / "docs/reference/status.md").read_text(), "level")
    of_some = (
        ProgramEnded(ending=an_ending(Verdict.PROGRAM_FAILED, code=1)),
        WorkerDrained(took_s=2.0, killed=1),
    )
    warnings = {event_name(event) for event in (*ONE_OF_EACH, *of_some) if is_warning(event)}
    levels = {"info", "warning", "error"}

    assert set(re.findall(r"`(\w+)`", row)) == warnings | levels | {"failed"}


@pytest.mark.parametrize(
    "event",
    [
        ProgramEnded(ending=an_ending()),
        WorkerDrained(took_s=2.0, killed=0),
        WorkerDraining(signal_name="SIGTERM", drain_signal_name="SIGTERM", ranks=0, grace_s=1.0),
    ],
    ids=event_name,
)
def test_what_the_page_calls_a_warning_now_and_then_is_none_else(event: Event) -> None:
    """With success, with nothing killed, without ranks."""
    assert not is_warning(event)


def is_warning(event: Event) -> bool:
    """Return whether the log of JSON lines calls an event one."""
    stream = io.StringIO()
    JsonLog(stream)(event)
    line = stream.getvalue()
    return bool(line) and json.loads(line)["level"] == "warning"


def a_busy_worker() -> WorkerStatus:
    """Return the status of a worker on which a run is open."""
    status = a_worker_status()
    status(RunBegan(run_id="r1", launcher="pi-launcher"))
    return status


def troubleshooting_page() -> str:
    """Return the text of docs/reference/troubleshooting.md: one row for each obstacle."""
    lines = [
        "# Troubleshooting a wait",
        "",
        "A wait that ends without every host names the cause of each in these words.",
        "The first column is what the log says, the second the exit code where that is the cause.",
        "With some hosts ready and others without a name, the hint also speaks of gang scheduling;",
        "without a cluster's domain in `/etc/resolv.conf`, of "
        "`dnsPolicy: ClusterFirstWithHostNet`.",
        "",
        "| what the log says | code | usual cause | remedy |",
        "| --- | --- | --- | --- |",
    ]
    for obstacle, remedy in REMEDIES.items():
        host = HostReadiness(host="a")
        host = advance(host, a_probe_result("a", obstacle=obstacle), pause_s=1.0)
        report = ReadinessReport(hosts=(host,), elapsed_s=600, timeout_s=600, at_s=600)
        code = readiness_error(report, Surroundings()).exit_code
        grace_s = LASTING_OBSTACLES.get(obstacle)
        ends_early = "" if grace_s is None else f" after {grace_s:.0f} s"
        lines += [f"| {obstacle.value} | {code}{ends_early} | {remedy.cause} | {remedy.action} |"]
    lines += [
        "",
        "Code 200 comes at the deadline (`--timeout`), and a retry may help.",
        "Codes with a time come early: the obstacle does not heal by waiting, and the wait ends "
        "once it has met nothing else for so long.",
        "A deadline that comes before that time ends the wait with the same code.",
        "`no answer yet` means that the time was too short for one answer: a port that accepts and "
        "stays silent is asked for 10 s; raise `--timeout`.",
        "All codes stand in [exit-codes.md](exit-codes.md).",
    ]
    return "\n".join(lines) + "\n"


def test_the_troubleshooting_page_is_the_table_of_remedies() -> None:
    """`python -m tests.docs.test_reference_pages` writes it anew."""
    assert (ROOT / "docs/reference/troubleshooting.md").read_text() == troubleshooting_page()


def test_the_exit_code_page_lists_every_error_with_its_code() -> None:
    """And no other."""
    text = (ROOT / "docs/reference/exit-codes.md").read_text()
    listed = {
        (name, int(code)) for code, name in re.findall(r"^\| (\d+) \| `(\w+)` \|", text, re.M)
    }
    raised = {
        (name, kind.exit_code)
        for name, kind in inspect.getmembers(errors, inspect.isclass)
        if issubclass(kind, errors.MpiAgentError)
        and "exit_code" in vars(kind)
        and name not in {"MpiAgentError", "WorkerSetupError"}
    } | {("StoppedError", code) for code in (129, 130, 143)}

    assert listed == raised


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_to_files(page: Path) -> None:
    """Relative ones, in every page."""
    for target in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", page.read_text()):
        if "://" not in target:
            assert (page.parent / target).exists(), target


def test_make_targets_that_the_readme_names_exist() -> None:
    """A stranger's first command must work."""
    makefile = (ROOT / "Makefile").read_text()

    for target in re.findall(r"^make (\w+)", (ROOT / "README.md").read_text(), re.M):
        assert re.search(rf"^{target}:", makefile, re.M), target


def test_every_setting_belongs_to_a_command_that_exists() -> None:
    """A row without a command would never be read."""
    known = {path.stem.replace("_", "-") for path in (ROOT / "mpi_agent/cli").glob("*.py")}

    assert {command for row in ALL_SETTINGS for command in row.commands} <= known


DIALECTS = (OPEN_MPI_4, OPEN_MPI_5, MPICH, INTEL_MPI)


def dialects_page() -> str:
    """Return the text of docs/reference/dialects.md: how each launcher says each topic."""
    titles = [dialect.name.value for dialect in DIALECTS]
    lines = [
        "# Dialects",
        "",
        "What the agent says to each launcher, and what it sets by itself.",
        "What you say on your own line, by a parameter or by a variable is kept; an option of "
        "another launcher is written in these words, or refused with the equivalent.",
        "`mpi-agent plan` shows what is chosen for one job, and why.",
        "",
        "## How each topic is said",
        "",
        f"| topic | {' | '.join(titles)} |",
        f"| --- |{' --- |' * len(titles)}",
    ]
    for topic in Topic:
        cells = [_words_of(dialect, topic) for dialect in DIALECTS]
        if any(cells):
            lines.append(f"| {topic.value} | {' | '.join(cells)} |")
    lines += [
        "",
        "`{}` stands for the value; text in brackets says why nothing need be said.",
        "",
        "## What is set where you set nothing",
        "",
        "`--no-defaults` leaves out all but the rows marked as needed.",
        "",
        "| why | what | source |",
        "| --- | --- | --- |",
    ]
    for row in DEFAULTS:
        knobs = "; ".join(
            f"{name.value}: {', '.join(f'`{knob.name}`' for knob in knobs)}"
            for name, knobs in row.knobs.items()
        )
        needed = " (needed)" if row.is_needed else ""
        lines.append(f"| {row.reason}{needed} | {knobs} | {row.source} |")
    return "\n".join(lines) + "\n"


def _words_of(dialect: Dialect, topic: Topic) -> str:
    spelling = dialect.spelling(topic)
    if spelling is None:
        reason = dialect.needless.get(topic)
        return f"({reason})" if reason else ""
    said = " ".join(spelling.says("{}"))
    if said:
        return f"`{said}`"
    return f"`{spelling.knob.variable}`" if spelling.knob else ""


def test_the_dialects_page_is_the_tables_of_the_code() -> None:
    """`python -m tests.docs.test_reference_pages` writes it anew."""
    assert (ROOT / "docs/reference/dialects.md").read_text() == dialects_page()


if __name__ == "__main__":
    (ROOT / "docs/reference/dialects.md").write_text(dialects_page())
    (ROOT / "docs/reference/settings.md").write_text(settings_page())
    (ROOT / "docs/reference/metrics.md").write_text(metrics_page())
    (ROOT / "docs/reference/troubleshooting.md").write_text(troubleshooting_page())
