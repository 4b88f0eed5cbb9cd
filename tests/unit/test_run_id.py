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
