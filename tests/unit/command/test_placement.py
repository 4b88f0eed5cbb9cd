"""np, and on how many hosts: promise P1."""

from __future__ import annotations

import pytest

from mpi_agent.command.arguments import read_mpirun_line
from mpi_agent.command.placement import Placement, place, placement_request
from mpi_agent.errors import HostsUnusedError, MpiAgentError, SettingsError, SlotsExceededError
from tests.builders import a_host_list


def placed(
    line: str,
    *,
    hosts: int = 2,
    slots: int = 2,
    np: int | None = None,
    idle: bool = False,
    strict: bool = False,
    environ: dict[str, str] | None = None,
) -> Placement:
    """Return what comes of an mpirun line on a job of equal hosts."""
    request = placement_request(
        read_mpirun_line(tuple(line.split())) if line else None,
        environ or {},
        np=np,
        allows_idle_hosts=idle,
        strict=strict,
    )
    return place(request, a_host_list(hosts, slots=slots))


def test_np_is_the_sum_of_slots() -> None:
    """Nobody has to multiply."""
    assert placed("mpirun ./pi", hosts=3, slots=4) == Placement(np=12, map_by="slot", notes=())


@pytest.mark.parametrize(
    ("line", "np"),
    [
        ("mpirun -np 3 ./pi", 3),
        ("mpirun -n 1 ./a : -n 2 ./b", 3),
        ("mpirun -N 1 ./pi", 2),
        ("mpirun --map-by ppr:2:node ./pi", 4),
    ],
)
def test_the_users_number_is_kept(line: str, np: int) -> None:
    """The user wins."""
    assert placed(line).np == np


def test_fewer_processes_than_slots_are_said_aloud_and_leave_no_host_idle() -> None:
    """Mpirun by itself would fill the first host and leave the second out, in silence."""
    placement = placed("mpirun -np 2 ./pi")

    assert placement.map_by == "node"
    assert "2 processes on 4 slots: 2 stay idle" in placement.notes


def test_idle_slots_are_an_error_under_strict() -> None:
    """For those who want arithmetic to be right."""
    with pytest.raises(SettingsError, match="cannot leave slots idle"):
        placed("mpirun -np 3 ./pi", strict=True)


@pytest.mark.parametrize(
    "line",
    [
        "mpirun -np 1 ./pi",
        "mpirun -np 2 -N 2 ./pi",
        "mpirun -np 2 --map-by slot ./pi",
        "mpirun -np 2 -byslot ./pi",
        "mpirun -np 2 --map-by core:PE=1 ./pi",
    ],
)
def test_p1_never_on_fewer_hosts_than_asked(line: str) -> None:
    """A job on fewer hosts than it has is an error, unless asked for by option."""
    with pytest.raises(HostsUnusedError, match="only 1 of them would get one") as caught:
        placed(line)

    assert caught.value.exit_code == 78
    assert placed(line, idle=True).np <= 2


def test_more_processes_than_slots_are_an_error() -> None:
    """Hydra would oversubscribe in silence, Open MPI would print a page."""
    with pytest.raises(SlotsExceededError, match="2 hosts have 4 slots") as caught:
        placed("mpirun -np 5 ./pi")

    assert caught.value.exit_code == 78


@pytest.mark.parametrize(
    ("line", "environ"),
    [
        ("mpirun -np 5 --oversubscribe ./pi", {}),
        ("mpirun -np 5 -oversubscribe ./pi", {}),
        ("mpirun -np 5 --map-by slot:OVERSUBSCRIBE ./pi", {}),
        ("mpirun -np 5 --mca rmaps_base_oversubscribe 1 ./pi", {}),
        ("mpirun -np 5 --prtemca rmaps_default_mapping_policy :oversubscribe ./pi", {}),
        ("mpirun -np 5 --prtemca rmaps_default_mapping_policy slot:OVERSUBSCRIBE ./pi", {}),
        ("mpirun -np 5 ./pi", {"OMPI_MCA_rmaps_base_oversubscribe": "true"}),
        ("mpirun -np 5 ./pi", {"PRTE_MCA_rmaps_default_mapping_policy": ":oversubscribe"}),
    ],
)
def test_oversubscription_that_was_asked_for_is_granted(line: str, environ: dict[str, str]) -> None:
    """In any of its spellings."""
    assert placed(line, environ=environ).np == 5


@pytest.mark.parametrize("mapping", ["slot:NOOVERSUBSCRIBE", "ppr:1:node"])
def test_other_words_of_a_mapping_are_no_wish_to_oversubscribe(mapping: str) -> None:
    """Two letters make the difference, and a 1 is a number there."""
    with pytest.raises(SlotsExceededError):
        placed(f"mpirun -np 5 --map-by {mapping} ./pi")


@pytest.mark.parametrize("line", ["mpirun -np x ./pi", "mpirun -np 0 ./pi"])
def test_a_count_that_is_no_number_is_named(line: str) -> None:
    """And shown."""
    with pytest.raises(MpiAgentError, match="not a number of processes"):
        placed(line)


def test_an_application_without_a_count_is_named() -> None:
    """By its place on the line."""
    with pytest.raises(MpiAgentError, match="application 2 of 2 does not say"):
        placed("mpirun -n 1 ./a : ./b")


def test_counts_per_host_of_several_applications_add_up() -> None:
    """Open MPI 4.1.4 starts each application's count on each host."""
    assert placed("mpirun -N 2 ./a : -N 1 ./b", hosts=2, slots=4).np == 6


def test_what_only_hosts_know_cannot_be_counted() -> None:
    """How many sockets a host has is for mpirun to find out."""
    with pytest.raises(SettingsError, match="ppr:1:socket"):
        placed("mpirun --map-by ppr:1:socket ./pi")

    assert placed("mpirun -np 4 --map-by ppr:1:socket ./pi").np == 4


def test_two_different_numbers_contradict_each_other() -> None:
    """Both were written by the user."""
    with pytest.raises(SettingsError, match="differ"):
        placed("mpirun -np 3 ./pi", np=4)


@pytest.mark.parametrize("line", ["mpirun -np 2 -n 4 ./pi", "mpirun -n 1 ./a : -n 2 -c 3 ./b"])
def test_two_different_numbers_of_one_application_are_refused(line: str) -> None:
    """Open MPI 4 would take the last, 5 the first."""
    with pytest.raises(SettingsError, match=r"the mpirun line says -np twice"):
        placed(line)


def test_the_same_number_twice_is_no_contradiction() -> None:
    """A script may have added its own."""
    assert placed("mpirun -np 4 -n 4 ./pi").np == 4


def test_a_number_of_each_application_is_no_contradiction() -> None:
    """They are counted one by one."""
    assert placed("mpirun -np 1 ./a : -np 3 ./b").np == 4


def test_np_is_the_count_per_host_times_the_hosts() -> None:
    """Not the sum of slots, where fewer a host are asked for."""
    placement = placed("mpirun --pernode ./pi", hosts=3, slots=4)

    assert placement.np == 3
    assert placement.map_by is None
    assert placement.notes == ("3 processes on 12 slots: 9 stay idle",)


def test_a_mapping_of_ours_is_not_added_to_one_set_by_a_parameter() -> None:
    """And nobody can tell which hosts it uses, so none is said to stay idle."""
    request = placement_request(
        None, {}, np=2, mapping_is_set=True, allows_idle_hosts=False, strict=False
    )

    assert place(request, a_host_list(2, slots=2)).map_by is None


def test_a_choice_of_cpus_fills_one_host_after_the_other() -> None:
    """Mpirun's own mapping does, and no other may stand beside it: P1 holds all the same."""
    request = placement_request(
        None, {}, np=2, chooses_cpus=True, allows_idle_hosts=False, strict=False
    )

    with pytest.raises(HostsUnusedError, match="only 1 of them would get one"):
        place(request, a_host_list(2, slots=2))
    assert place(request, a_host_list(1, slots=2)).map_by is None


def test_processes_that_do_not_spread_evenly_are_said() -> None:
    """Some hosts work more than others."""
    assert "3 processes do not spread evenly over 2 hosts" in placed("mpirun -np 3 ./pi").notes


def test_each_application_counts() -> None:
    """And each must say its count where one does."""
    with pytest.raises(SettingsError, match="none of them says how many"):
        placed("mpirun ./a : ./b")
    assert placed("mpirun -N 1 ./a : ./b").np == 2
