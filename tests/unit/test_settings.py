"""Flag > variable > default, and one sentence for each bad value."""

from __future__ import annotations

import pytest

from mpi_agent.command_settings import (
    HostfileSettings,
    HostsSettings,
    LaunchSettings,
    LocalSettings,
    PlanSettings,
    WaitSettings,
)
from mpi_agent.errors import SettingsError
from mpi_agent.given import Given, parse_duration_s
from mpi_agent.setting_words import Backend, Form, HostfileDialect, PlanForm, Slots
from mpi_agent.settings import ALL_SETTINGS, unknown_variables, variable_of
from mpi_agent.worker_settings import SidecarSettings, WorkerSettings


def given(command: str, environ: dict[str, str] | None = None, **flags: str) -> Given:
    """Return what a user gave; underscores in flags stand for dashes."""
    return Given(command, {k.replace("_", "-"): v for k, v in flags.items()}, environ or {})


def test_a_flag_beats_a_variable_and_a_variable_beats_the_default() -> None:
    """Manifests configure by variables, people by flags."""
    environ = {"MPI_AGENT_TIMEOUT": "5m"}

    assert given("launch", environ, timeout="90s").duration_s("timeout") == 90.0
    assert given("launch", environ).duration_s("timeout") == 300.0
    assert given("launch").duration_s("timeout") == 600.0


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("90s", 90), ("10m", 600), ("1h30m", 5400), ("250ms", 0.25), ("0", 0), ("1.5m", 90)],
)
def test_durations_are_written_with_units(text: str, seconds: float) -> None:
    """A bare number is seconds."""
    assert parse_duration_s(text) == pytest.approx(seconds)


@pytest.mark.parametrize("text", ["", "m", "10x", "5 minutes", "-3s", "3s4"])
def test_what_is_no_duration_is_refused(text: str) -> None:
    """Rather than read as something else."""
    with pytest.raises(ValueError, match="not a duration"):
        parse_duration_s(text)


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("ssh-port", "70000", "ports end at 65535"),
        ("ssh-port", "ssh", "not a whole number"),
        ("slots", "0", "at least 1"),
        ("slots", "some", "neither a whole number of at least 1 nor auto"),
        ("timeout", "soon", "not a duration"),
        ("timeout", " ", "not a duration"),
        ("strict", "maybe", "neither true nor false"),
        ("ssh", "telnet", "none of auto, openssh, builtin"),
        ("ssh-kex", "fast", "none of auto, default"),
        ("http-port", "0", "at least 1"),
    ],
)
def test_a_bad_value_names_where_it_came_from(name: str, value: str, said: str) -> None:
    """The sentence says which flag or which variable to correct."""
    with pytest.raises(SettingsError, match=said) as by_flag:
        LaunchSettings.from_given(Given("launch", {name: value}, {}))
    with pytest.raises(SettingsError, match=said) as by_variable:
        LaunchSettings.from_given(Given("launch", {}, {variable_of(name): value}))

    assert f"--{name}" in by_flag.value.summary
    assert variable_of(name) in by_variable.value.summary
    assert by_flag.value.exit_code == 78


@pytest.mark.parametrize(
    ("text", "slots"), [("4", 4), ("auto", Slots.AUTO), (" AUTO ", Slots.AUTO)]
)
def test_slots_are_a_number_or_found_out(text: str, slots: int | Slots) -> None:
    """For `launch`, `plan` and `wait` alike."""
    assert LaunchSettings.from_given(given("launch", slots=text)).job.slots == slots
    assert WaitSettings.from_given(given("wait", slots=text)).job.slots == slots


def test_two_sources_of_hosts_contradict_each_other() -> None:
    """Neither is silently preferred."""
    with pytest.raises(SettingsError, match="hosts and hostfile"):
        LaunchSettings.from_given(given("launch", hosts="a", hostfile="b"))


def test_no_timeout_is_written_as_zero() -> None:
    """None inside the program, 0 outside."""
    assert LaunchSettings.from_given(given("launch", timeout="0")).job.timeout_s is None


def test_repeated_flags_and_lists_in_a_variable_are_read() -> None:
    """A value given by flag may hold commas; a variable separates by them."""
    by_flag = LaunchSettings.from_given(given("launch", env="A=1,2\0B"))
    by_variable = LaunchSettings.from_given(given("launch", {"MPI_AGENT_ENV": "A, B"}))

    assert by_flag.run.env == ("A=1,2", "B")
    assert by_variable.run.env == ("A", "B")


def test_files_and_prefixes_are_lists_too() -> None:
    """A path may hold a comma where it is given by flag."""
    run = LaunchSettings.from_given(
        given("launch", {"MPI_AGENT_ENV_PREFIX": "A_, B_"}, env_file="a,b\0c")
    ).run

    assert (run.env_files, run.env_prefixes) == (("a,b", "c"), ("A_", "B_"))


def test_every_command_has_its_typed_values() -> None:
    """The table and the classes fit together, for every command."""
    assert LocalSettings.from_given(given("local")).workers == 2
    assert WorkerSettings.from_given(given("worker")).sshd is Backend.AUTO
    assert WaitSettings.from_given(given("wait", min_workers="3")).min_workers == 3
    for command in ("launch", "plan"):
        assert LaunchSettings.from_given(given(command)).job.parallel == 128
    assert PlanSettings.from_given(given("plan", output="shell")).output is PlanForm.SHELL
    assert HostsSettings.from_given(given("hosts", output="json")).output is Form.JSON
    assert HostfileSettings.from_given(given("hostfile")).dialect is HostfileDialect.AUTO


@pytest.mark.parametrize("command", ["hosts", "hostfile"])
def test_a_command_that_dials_nobody_knows_no_settings_of_dialling(command: str) -> None:
    """They would do nothing, and variables meant for launch are no error."""
    read = HostsSettings.from_given if command == "hosts" else HostfileSettings.from_given
    settings = read(given(command, {"MPI_AGENT_SSH_PORT": "nonsense"}, hosts="a", slots="2"))

    assert (settings.job.hosts, settings.job.slots, settings.job.ssh_port) == ("a", 2, None)


def test_a_table_of_variables_is_no_script() -> None:
    """Neither is silently preferred."""
    with pytest.raises(SettingsError, match="both given"):
        PlanSettings.from_given(given("plan", output="shell", environment="true"))


def test_an_unknown_variable_is_told_with_the_nearest_known() -> None:
    """A typing error in a manifest must not be silent."""
    assert unknown_variables({"MPI_AGENT_TIMEOUTS": "1", "MPI_AGENT_TIMEOUT": "2m", "X": ""}) == (
        "variable MPI_AGENT_TIMEOUTS is no setting; MPI_AGENT_TIMEOUT is",
    )


def test_no_setting_is_called_like_a_variable_of_a_service() -> None:
    """Kubernetes injects NAME_PORT and NAME_SERVICE_HOST for a Service called mpi-agent."""
    names = {variable_of(row.name) for row in ALL_SETTINGS}

    assert not {n for n in names if n.startswith("MPI_AGENT_SERVICE")}
    assert not names & {"MPI_AGENT_PORT", "MPI_AGENT_HOST"}


@pytest.mark.parametrize("name", ["a b", "../x", "a,b", "wörker", "a\nb", "*", "-x", "x" * 254])
def test_a_worker_has_the_name_of_a_host_or_none(name: str) -> None:
    """It stands in a certificate, in a banner and in every log."""
    with pytest.raises(SettingsError, match="no name of a host"):
        WorkerSettings.from_given(Given("worker", {"worker-name": name}, {}))


@pytest.mark.parametrize("command", ["worker", "sidecar"])
def test_one_port_cannot_be_for_ssh_and_for_http(command: str) -> None:
    """The agent would be in its own way, and blame a neighbour."""
    kind = WorkerSettings if command == "worker" else SidecarSettings
    with pytest.raises(SettingsError, match="port 3222 twice"):
        kind.from_given(Given(command, {"ssh-port": "3222", "http-port": "3222"}, {}))


@pytest.mark.parametrize(
    ("command", "name"), [("worker", "listen-address"), ("sidecar", "ssh-address")]
)
@pytest.mark.parametrize("value", ["127.9.0.1:3222", "nosuch.invalid", "300.1.1.1"])
def test_an_address_is_one_and_no_name(command: str, name: str, value: str) -> None:
    """A worker that tries one for ever tells nobody what is wrong."""
    kind = WorkerSettings if command == "worker" else SidecarSettings
    with pytest.raises(SettingsError, match="no address"):
        kind.from_given(Given(command, {name: value}, {}))
