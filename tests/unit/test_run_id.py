"""Whose a run is, by its name alone."""

from __future__ import annotations

from dataclasses import replace

import pytest

from mpi_agent.run_id import RunId

RUN = RunId.of_launcher(name="pi-launcher-x7k2p", container="c-1", launch="0123456789abcdef")


def test_text_becomes_the_same_id_again() -> None:
    """Workers know a run by its text alone."""
    assert RunId.parse(str(RUN)) == RUN
    assert str(RUN).count(".") == 3


@pytest.mark.parametrize(
    "text", ["", "0123456789ab", "a.b.c.1", f"{RUN}x", f" {RUN}", f"{RUN}\n", "A" * 26 + ".1"]
)
def test_text_of_another_form_is_no_id_of_ours(text: str) -> None:
    """An older launcher's, or anybody's."""
    assert RunId.parse(text) is None


def test_every_pod_of_one_job_has_the_same_job() -> None:
    """A Job's controller gives each pod another end of its name."""
    other = RunId.of_launcher(name="pi-launcher-9fq4z.pi.default", container="c-2", launch="f" * 12)

    assert other.job == RUN.job
    assert RunId.of_launcher(name="other-launcher-x7k2p", container="c", launch="f" * 8).job != (
        RUN.job
    )


@pytest.mark.parametrize("name", ["{}-alpha", "{}-gamma", "{}-01234", "{}-x7k2", "{}-x7k2pq", "{}"])
def test_the_end_that_somebody_gave_a_machine_is_part_of_its_name(name: str) -> None:
    """Two machines of one team run two jobs, and neither may end the other's ranks."""
    own, others = (
        RunId.of_launcher(name=name.format(team), container="c", launch="f" * 8)
        for team in ("team", "host")
    )
    delta = RunId.of_launcher(name="team-delta", container="d", launch="f" * 8)

    assert own.job != others.job
    assert not own.is_former_of(delta)
    assert not delta.is_former_of(own)


def test_all_runs_of_a_launcher_have_it_in_common_with_its_job() -> None:
    """Two jobs may be launched from one container, one after the other."""
    next_launch = replace(RUN, launch="ffffffff", attempt=2)

    assert RUN.launcher == next_launch.launcher == f"{RUN.job}.{RUN.container}"
    assert str(RUN).startswith(f"{RUN.launcher}.")


def test_a_run_of_another_container_of_the_job_is_a_former_one() -> None:
    """The launcher was started anew: whatever ran before has no launcher any more."""
    next_pod = RunId.of_launcher(name="pi-launcher-9fq4z", container="c-2", launch="f" * 12)

    assert RUN.is_former_of(next_pod)


def test_an_earlier_attempt_is_a_former_run_and_a_later_one_is_not() -> None:
    """Restarts of one launch."""
    second = replace(RUN, attempt=2)

    assert RUN.is_former_of(second)
    assert not second.is_former_of(RUN)
    assert not RUN.is_former_of(RUN)


def test_two_launches_of_one_container_leave_each_other_alone() -> None:
    """They are legal at a time."""
    other = replace(RUN, launch="ffffffff", attempt=2)

    assert not RUN.is_former_of(other)
    assert not other.is_former_of(RUN)


def test_a_run_of_another_job_is_nobodys_former_one() -> None:
    """Two jobs may share workers."""
    other = RunId.of_launcher(name="tau-launcher-9fq4z", container="c-2", launch="f" * 12)

    assert not RUN.is_former_of(other)
