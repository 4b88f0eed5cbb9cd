"""Which shared memory on a plain host is stale, by what the host prints."""

from __future__ import annotations

from mpi_agent.run.host_segments import read_segments, stale_segments

_BEFORE = """
own=/dev/shm/vader_segment.w-0.0.1de10001.0
own=/dev/shm/mpich_shm_ae4dc0ba_0
own=/dev/shm/somebodys
/proc/12/maps:/dev/shm/vader_segment.w-0.0.1de10001.0
/proc/12/maps:/dev/shm/somebodys
/proc/12/maps:/dev/shm/gone (deleted)
/proc/12/fd:
/dev/shm/mpich_shm_ae4dc0ba_0
/proc/13/fd:
/proc/14/fd:
/dev/shm/sm_segment.w-0.0.7adc0001.1
"""


def test_mappings_and_open_files_tell_who_uses_what() -> None:
    """A process may have closed what it mapped, or not mapped what it has open."""
    segments = read_segments(_BEFORE)

    assert segments.used({12}) == {
        "vader_segment.w-0.0.1de10001.0",
        "mpich_shm_ae4dc0ba_0",
        "somebodys",
        "gone",
    }
    assert segments.used({13, 14}) == {"sm_segment.w-0.0.7adc0001.1"}


def test_only_what_the_run_used_and_an_mpi_made_is_stale() -> None:
    """Others may use the same /dev/shm, and not be seen from here."""
    used = read_segments(_BEFORE).used({12})
    others = "own=/dev/shm/mpich_shm_00000000_0\nown=/dev/shm/sm_segment.w-0.0.7adc0001.1\n"
    now = read_segments(f"{others}{_BEFORE.partition('/proc')[0]}")

    assert stale_segments(used, now) == (
        "/dev/shm/mpich_shm_ae4dc0ba_0",
        "/dev/shm/vader_segment.w-0.0.1de10001.0",
    )


def test_what_somebody_uses_now_is_not_stale() -> None:
    """Two runs may share a segment's name."""
    segments = read_segments(_BEFORE)

    assert stale_segments(segments.used({12}), segments) == ()


def test_a_name_that_a_shell_would_read_is_left_alone() -> None:
    """No MPI gives one."""
    name = "mpich_shm_$(reboot)"

    assert stale_segments({name}, read_segments(f"own=/dev/shm/{name}")) == ()
