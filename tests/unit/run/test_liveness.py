"""When a host is suspected, lost, or present again; the usual timeout of 15 seconds."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mpi_agent.run.liveness import Change, HostLife, Life, Patience, Sign

PATIENCE = Patience(timeout_s=15.0)
TICK_S = 0.5
NEVER = 1000.0
UNHEARD = (Sign.SILENT, Sign.UNREACHABLE, Sign.MUTE)
ANSWERS = (Sign.REFUSED, Sign.CLOSED, Sign.OTHER_HOST)


def a_life() -> HostLife:
    """Return a host that was alive at second 0."""
    return HostLife("w-0", PATIENCE, at_s=0.0)


def clock(at_s: float) -> str:
    """Return a time of day at which second 0 was noon."""
    return f"12:00:{at_s:02.0f}"


def lived(life: HostLife, *signs: tuple[float, Sign], until_s: float) -> list[tuple[float, Change]]:
    """Let a host give signs at times and look at it every half second; return what changed."""
    changes, left = [], sorted(signs, key=lambda sign: sign[0])
    for number in range(int(until_s / TICK_S) + 1):
        now_s = number * TICK_S
        while left and left[0][0] <= now_s:
            at_s, sign = left.pop(0)
            life.take(sign, at_s)
        while (change := life.look(now_s)) is not None:
            changes.append((now_s, change))
    return changes


def every_second(
    sign: Sign, since_s: float, until_s: float = 60.0
) -> tuple[tuple[float, Sign], ...]:
    """Return what a probe a second would see."""
    return tuple((since_s + n, sign) for n in range(int(until_s - since_s)))


def times(changes: list[tuple[float, Change]]) -> list[tuple[float, Life]]:
    """Return when a host became what."""
    return [(at_s, change.life) for at_s, change in changes]


def test_a_host_that_says_a_word_now_and_then_is_present() -> None:
    """Every five seconds, as one of a thousand does."""
    words = tuple((5.0 * n, Sign.WORD) for n in range(12))

    assert lived(a_life(), *words, until_s=60.0) == []


def test_silence_alone_makes_a_suspect_and_never_a_loss() -> None:
    """Somebody must have looked and not found it."""
    changes = lived(a_life(), until_s=60.0)

    assert times(changes) == [(7.0, Life.SUSPECT)]
    ((_, change),) = changes
    assert change.reason is not None
    assert change.reason.clause(clock) == "not heard of since 12:00:00"


@pytest.mark.parametrize("sign", UNHEARD)
def test_a_host_that_nobody_finds_any_more_is_lost_within_the_timeout(sign: Sign) -> None:
    """With time left for those that are lost with it."""
    changes = lived(a_life(), *every_second(sign, 8.0), until_s=60.0)

    assert times(changes) == [(7.0, Life.SUSPECT), (13.5, Life.LOST)]
    reason = changes[-1][1].reason
    assert reason is not None
    assert reason.clause(clock) == f"{sign.value} since 12:00:00"


@pytest.mark.parametrize(
    ("first", "then", "why"),
    [
        (Sign.MUTE, Sign.SILENT, "no answer on TCP"),
        (Sign.BANNER, Sign.SILENT, "no answer on TCP"),
        (Sign.REFUSED, Sign.SILENT, "no answer on TCP"),
        (Sign.SILENT, Sign.MUTE, "connections are accepted and nothing is answered"),
        (Sign.UNREACHABLE, Sign.MUTE, "connections are accepted and nothing is answered"),
        (Sign.SILENT, Sign.REFUSED, "connection refused"),
        (Sign.MUTE, Sign.REFUSED, "connection refused"),
        (Sign.SILENT, Sign.UNREACHABLE, "no route to it"),
    ],
)
def test_a_loss_is_told_in_the_words_of_the_last_probes(first: Sign, then: Sign, why: str) -> None:
    """What one saw earlier is not what is there now."""
    changes = lived(a_life(), (7.0, first), *every_second(then, 8.0), until_s=60.0)

    assert changes[-1][1].life is Life.LOST
    reason = changes[-1][1].reason
    assert reason is not None
    since_s = 7 if first is Sign.BANNER else 0
    assert reason.clause(clock) == f"{why} since 12:00:{since_s:02d}"


def test_one_probe_that_found_nobody_is_not_enough() -> None:
    """It may have been the probe."""
    changes = lived(a_life(), (8.0, Sign.SILENT), until_s=60.0)

    assert times(changes) == [(7.0, Life.SUSPECT)]


@pytest.mark.parametrize("sign", ANSWERS)
def test_a_host_in_whose_place_something_answers_is_lost_after_a_third_of_the_timeout(
    sign: Sign,
) -> None:
    """A container that was killed; nobody need wait for silence."""
    changes = lived(a_life(), *every_second(sign, 3.0), until_s=60.0)

    assert times(changes) == [(3.0, Life.SUSPECT), (8.0, Life.LOST)]


def test_an_sshd_that_is_made_anew_is_no_loss() -> None:
    """It refuses for some 40 milliseconds."""
    life = a_life()
    changes = lived(life, (3.0, Sign.REFUSED), (4.0, Sign.BANNER), until_s=8.0)

    assert times(changes) == [(3.0, Life.SUSPECT), (4.0, Life.PRESENT)]
    assert changes[-1][1].reason is None


def test_refusals_with_a_sign_of_life_between_them_are_not_added_up() -> None:
    """An agent that is made anew again and again."""
    refusals = every_second(Sign.REFUSED, 1.0, 40.0)
    banners = tuple((4.0 * n + 0.25, Sign.BANNER) for n in range(1, 10))

    changes = lived(a_life(), *refusals, *banners, until_s=40.0)

    assert Life.LOST not in {change.life for _, change in changes}


def test_a_host_that_refuses_and_closes_in_turn_is_refusing_all_the_time() -> None:
    """A proxy in front of a container that is gone."""
    seen = tuple((3.0 + n, ANSWERS[n % 2]) for n in range(20))

    assert times(lived(a_life(), *seen, until_s=30.0))[-1] == (8.0, Life.LOST)


def test_a_suspect_that_answers_is_present_again() -> None:
    """And it is told for how long it was silent."""
    changes = lived(a_life(), (8.0, Sign.MUTE), (9.0, Sign.MUTE), (10.0, Sign.WORD), until_s=12.0)

    assert times(changes) == [(7.0, Life.SUSPECT), (10.0, Life.PRESENT)]


def test_a_channel_that_is_silent_while_banners_come_is_no_loss() -> None:
    """Its agent may hang; ranks do not need it."""
    banners = tuple((5.0 * n, Sign.BANNER) for n in range(20))

    assert lived(a_life(), *banners, until_s=100.0) == []


def test_another_container_in_its_place_is_a_loss_at_once_and_for_good() -> None:
    """The ranks went with the former one, however well the new one answers."""
    words = tuple((float(n), Sign.WORD) for n in range(20))
    changes = lived(a_life(), *words, (4.0, Sign.OTHER_CONTAINER), until_s=20.0)

    assert times(changes) == [(4.0, Life.LOST)]
    reason = changes[0][1].reason
    assert reason is not None
    assert reason.clause(clock) == "another container answers in its place"


@pytest.mark.parametrize(
    ("is_evicted", "why"),
    [(True, "it was evicted"), (False, "it ended what was left of the program")],
)
def test_one_that_ends_what_is_left_is_lost_when_mpirun_had_its_time(
    is_evicted: bool, why: str
) -> None:
    """Whatever it says meanwhile."""
    life = a_life()
    life.is_evicted = is_evicted
    words = tuple((float(n), Sign.WORD) for n in range(20))
    changes = lived(life, *words, *every_second(Sign.ENDING, 4.0), until_s=20.0)

    assert times(changes) == [(9.0, Life.LOST)]
    reason = changes[0][1].reason
    assert reason is not None
    assert reason.clause(clock) == why


def test_one_that_left_in_good_order_is_not_looked_for() -> None:
    """Its ranks saved and went; the others may finish."""
    life = a_life()
    life.leave()

    assert lived(life, *every_second(Sign.REFUSED, 1.0), until_s=60.0) == []
    assert life.life is Life.DEPARTED


def test_what_passed_while_we_stood_still_counts_for_nothing() -> None:
    """A launcher that was paused for a minute hears its workers a moment later."""
    life = a_life()
    life.take(Sign.WORD, 2.0)
    life.excuse(60.0)

    assert life.look(63.0) is None
    life.take(Sign.WORD, 63.5)
    assert lived(life, until_s=0.0) == []


def test_who_is_silent_longer_than_we_stood_still_is_lost_all_the_same() -> None:
    """Only later."""
    life = a_life()
    life.excuse(10.0)

    changes = lived(life, *every_second(Sign.SILENT, 0.0), until_s=60.0)

    assert times(changes) == [(17.0, Life.SUSPECT), (23.5, Life.LOST)]


def test_a_suspect_is_given_up_when_nobody_else_is_left() -> None:
    """If it was looked for twice."""
    once, twice = a_life(), a_life()
    lived(once, (8.0, Sign.SILENT), until_s=10.0)
    lived(twice, (8.0, Sign.SILENT), (9.0, Sign.SILENT), until_s=10.0)

    assert once.give_up(10.0) is None
    given_up = twice.give_up(10.0)
    assert given_up is not None
    assert (given_up.life, given_up.silent_s) == (Life.LOST, 10.0)


def test_two_probes_and_a_pause_fit_between_suspicion_and_loss() -> None:
    """For any timeout up to an hour; the pace of many words fits before suspicion."""
    for timeout_s in (0.5, 1.0, 15.0, 60.0, 3600.0):
        patience = Patience(timeout_s=timeout_s)
        two_s = 2 * patience.probe_limit_s + patience.suspect_pause_s
        assert patience.suspect_s + two_s <= patience.lost_s
        assert patience.calm_pause_s < patience.suspect_s
        assert patience.lost_s + patience.gathering_s <= timeout_s


@given(
    st.lists(
        st.tuples(
            st.floats(0.0, 60.0),
            st.sampled_from([*UNHEARD, *ANSWERS]),
        ),
        max_size=60,
    ),
    st.floats(0.0, 60.0),
)
def test_nobody_is_lost_who_gave_a_sign_of_life_a_third_of_the_timeout_ago(
    signs: list[tuple[float, Sign]], alive_at_s: float
) -> None:
    """Whatever else was seen before and after, short of another container."""
    life = a_life()
    changes = lived(life, *signs, (alive_at_s, Sign.WORD), until_s=60.0)

    for at_s, change in changes:
        if change.life is Life.LOST and alive_at_s <= at_s:
            assert at_s - alive_at_s >= PATIENCE.timeout_s / 3 - 1e-6


@given(st.integers(1, 59), st.sampled_from([*UNHEARD, *ANSWERS]))
def test_a_host_that_is_gone_is_lost_within_the_timeout(gone_at_s: int, sign: Sign) -> None:
    """From its last sign of life, with a word every three seconds until then."""
    words = tuple((3.0 * n, Sign.WORD) for n in range(20) if 3.0 * n < gone_at_s)
    last_s = words[-1][0] if words else 0.0
    probes = every_second(sign, max(gone_at_s, last_s + 7.5), 100.0)

    changes = lived(a_life(), *words, *probes, until_s=100.0)

    assert changes[-1][1].life is Life.LOST
    assert changes[-1][0] - last_s <= PATIENCE.timeout_s
