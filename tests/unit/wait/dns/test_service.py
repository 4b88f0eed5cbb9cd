"""When a Service is reason enough not to ask for its pods, and what it adds to their "no"."""

from __future__ import annotations

import pytest

from mpi_agent.job.readiness import Obstacle
from mpi_agent.wait.dns.lookup import Lookup
from mpi_agent.wait.dns.service import HOLD_S, ServiceView, held_up, seen, told

EMPTY = Lookup(addresses=(), obstacle=Obstacle.NAME_UNKNOWN, detail="no")


def a_view(
    lookup: Lookup = EMPTY, *, at_s: float = 100, earlier: ServiceView | None = None
) -> ServiceView:
    """Return what is known of the Service `pi` after one answer."""
    return seen("pi", lookup, earlier=earlier, asked_at_s=at_s)


def a_no(obstacle: Obstacle, rest_s: float = 0) -> Lookup:
    """Return a "no" of one kind."""
    return Lookup(addresses=(), obstacle=obstacle, detail="no", rest_s=rest_s)


@pytest.mark.parametrize(
    ("obstacle", "reason"),
    [(Obstacle.NAME_UNKNOWN, "NXDOMAIN"), (Obstacle.NAME_EMPTY, "no address")],
)
def test_a_service_that_lists_nobody_holds_its_pods_up(obstacle: Obstacle, reason: str) -> None:
    """Asking for them would leave a "no" in every cache."""
    held = held_up(a_view(a_no(obstacle)), 101)

    assert held is not None
    assert held.obstacle is Obstacle.NAME_UNKNOWN
    assert held.detail == f'the Service "pi" lists no ready pod yet ({reason})'


def test_the_hold_ends_when_its_time_is_over_however_often_it_was_asked() -> None:
    """Counted from the first answer, also across a failure of the server."""
    view = a_view(at_s=100)
    view = a_view(a_no(Obstacle.NAME_SERVER_FAILED), at_s=104, earlier=view)
    view = a_view(at_s=108, earlier=view)

    assert held_up(view, 100 + HOLD_S - 0.1) is not None
    assert held_up(view, 100 + HOLD_S) is None


def test_a_service_that_lists_somebody_holds_nobody_up() -> None:
    """Its other pods may be there at any moment."""
    assert held_up(a_view(Lookup(addresses=("10.1.0.7",)), earlier=a_view()), 101) is None


def test_a_service_that_lists_nobody_again_holds_up_anew() -> None:
    """All its pods are being replaced."""
    listing = a_view(Lookup(addresses=("10.1.0.7",)), at_s=200, earlier=a_view(at_s=100))

    assert held_up(a_view(at_s=300, earlier=listing), 301) is not None


@pytest.mark.parametrize("obstacle", [Obstacle.NAME_SERVER_FAILED, Obstacle.NAME_SERVER_SILENT])
def test_trouble_of_the_server_holds_nobody_up_and_says_nothing(obstacle: Obstacle) -> None:
    """It is no word of the Service."""
    view = a_view(a_no(obstacle))

    assert held_up(view, 101) is None
    assert told(view) == ""


def test_a_wildcard_record_lists_nobody() -> None:
    """It would answer for any Service."""
    view = a_view(Lookup(addresses=("10.9.9.9",), notes=("a wildcard",)))

    assert held_up(view, 101) is not None
    assert told(view) == 'the Service "pi" does not exist or selects no ready pod'


def test_the_rest_of_a_held_pod_ends_with_the_rest_of_the_service_or_with_the_hold() -> None:
    """Whichever is first."""
    short, long = (a_view(a_no(Obstacle.NAME_UNKNOWN, rest)) for rest in (4, 25))

    assert [held.rest_s for view in (short, long) if (held := held_up(view, 101))] == [3, 9]


@pytest.mark.parametrize(
    ("lookup", "due_at_s"),
    [
        (EMPTY, 100.5),
        (a_no(Obstacle.NAME_UNKNOWN, rest_s=4), 104),
        (Lookup(addresses=("10.1.0.7",)), 105),
    ],
)
def test_a_service_is_asked_again_when_it_may_have_news(lookup: Lookup, due_at_s: float) -> None:
    """Soon while it lists nobody, later once its count is only told, never while it rests."""
    view = a_view(lookup)

    assert not view.is_due(due_at_s - 0.1)
    assert view.is_due(due_at_s)


@pytest.mark.parametrize(
    ("addresses", "pods"),
    [
        (("10.1.0.7",), "1 ready pod"),
        (("10.1.0.7", "10.1.0.8", "fd00::7", "fd00::8"), "2 ready pods"),
    ],
)
def test_a_pod_with_two_addresses_counts_once(addresses: tuple[str, ...], pods: str) -> None:
    """In a cluster with both families each pod has one of either."""
    assert told(a_view(Lookup(addresses=addresses))) == f'the Service "pi" lists {pods}'
