"""On which terms hosts are dialled: settings first, then the user's ssh arguments."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from mpi_agent.command_settings import JobSettings
from mpi_agent.job_access import JobAccess
from tests.fakes import EventRecorder

SETTINGS = JobSettings(mpi="auto", timeout_s=None)


def an_access(directory: Path, settings: JobSettings = SETTINGS) -> JobAccess:
    """Return access with a private directory below this one."""
    below = replace(settings, state_dir=str(directory / "state"))
    return JobAccess(below, emit=EventRecorder())


def test_the_port_and_account_of_mpiruns_ssh_count_for_the_wait(tmp_path: Path) -> None:
    """Else the wait would ask others than mpirun dials."""
    access = an_access(tmp_path)

    access.heed((("Port", "222"), ("User", "mpiuser")))

    assert access.ports == (222,)
    assert access.terms.user == "mpiuser"


def test_keywords_are_heeded_in_any_case(tmp_path: Path) -> None:
    """As ssh_config has them."""
    access = an_access(tmp_path)

    access.heed((("port", "222"), ("USER", "mpiuser")))

    assert access.ports == (222,)
    assert access.terms.user == "mpiuser"


def test_the_first_of_two_values_counts(tmp_path: Path) -> None:
    """As it does for ssh."""
    access = an_access(tmp_path)

    access.heed((("Port", "222"), ("Port", "333")))

    assert access.ports == (222,)


def test_settings_win_over_the_users_ssh_arguments(tmp_path: Path) -> None:
    """They are the agent's own."""
    access = an_access(tmp_path, replace(SETTINGS, ssh_port=2200, ssh_user="root"))

    access.heed((("Port", "222"), ("User", "mpiuser")))

    assert access.ports == (2200,)
    assert access.terms.user == "root"


def test_without_arguments_the_usual_ports_and_the_own_account_are_tried(tmp_path: Path) -> None:
    """Those of the orchestrators."""
    access = an_access(tmp_path)

    access.heed((("ConnectTimeout", "9"),))

    assert access.ports == (2222, 22)
    assert access.terms.user == access.account.name


def test_a_port_that_is_no_number_is_left_to_ssh(tmp_path: Path) -> None:
    """Which says what is wrong with it."""
    access = an_access(tmp_path)

    access.heed((("Port", "%h"),))

    assert access.ports == (2222, 22)


def test_before_the_wait_a_port_that_is_set_is_told_to_other_launchers(tmp_path: Path) -> None:
    """So that a plan shows what will run; of the usual two nobody knows which it will be."""
    usual, chosen = an_access(tmp_path), an_access(tmp_path, replace(SETTINGS, ssh_port=2200))

    assert usual.for_mpirun().port is None
    assert chosen.for_mpirun().port == 2200
