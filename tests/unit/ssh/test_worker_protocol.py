"""Lines between launcher and worker: what is said arrives, and what is none is refused in words."""

from __future__ import annotations

import contextlib
import json
from dataclasses import fields
from typing import Any, get_type_hints

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mpi_agent.ssh.worker_protocol import (
    LONGEST_LINE_BYTES,
    ProtocolError,
    parse_call,
    parse_line,
    render_call,
    render_line,
)
from mpi_agent.ssh.worker_words import (
    MOST_NUMBERS,
    Alive,
    Call,
    Cleaned,
    Draining,
    Farewell,
    GraceOver,
    LauncherId,
    Line,
    Measure,
    OutOfMemory,
    Over,
    PassSignal,
    Presence,
    RankGone,
    Refused,
    Restarting,
    Signalled,
    Swept,
    Usage,
    Verb,
    Watching,
)

KINDS = (
    Alive,
    Over,
    Restarting,
    PassSignal,
    Measure,
    Cleaned,
    Watching,
    Presence,
    RankGone,
    Signalled,
    Swept,
    Draining,
    GraceOver,
    OutOfMemory,
    Farewell,
    Refused,
)
WORDS = st.text(max_size=100).filter(str.isprintable)
RUN_IDS = st.text(st.characters(min_codepoint=32, max_codepoint=126), min_size=1, max_size=128)
NUMBERS = st.integers(1, 255)
SIGNALS = st.integers(1, 64) | st.none()
SECONDS = st.floats(0, 1e9) | st.integers(0, 10**9)
VALUES: dict[Any, st.SearchStrategy[Any]] = {
    int: NUMBERS,
    str: WORDS,
    float: SECONDS,
    float | None: SECONDS | st.none(),
    int | None: NUMBERS | st.none(),
}
LAUNCHERS = st.builds(LauncherId, name=WORDS, container=WORDS)


def a_line_of(kind: type[Line]) -> st.SearchStrategy[Line]:
    """Return lines of one kind with any values."""
    hints = get_type_hints(kind)
    return st.builds(
        kind,
        **{
            field.name: SIGNALS if field.name == "signal" else VALUES[hints[field.name]]
            for field in fields(kind)
        },
    )


def a_usage_of(ranks: int) -> st.SearchStrategy[Usage]:
    """Return what so many ranks may have used."""
    return st.builds(
        Usage,
        rank_numbers=st.lists(st.integers(0, 10**10), min_size=ranks, max_size=ranks).map(tuple),
        cpu_s=st.lists(SECONDS, min_size=ranks, max_size=ranks).map(tuple),
    )


USAGES = st.integers(0, 30).flatmap(a_usage_of)
LINES = st.one_of(USAGES, *(a_line_of(kind) for kind in KINDS))
CALLS = st.builds(
    Call,
    verb=st.sampled_from(Verb),
    launcher=LAUNCHERS,
    run_id=RUN_IDS,
)


@given(LINES)
def test_a_line_arrives_as_it_was_said(line: Line) -> None:
    """And is one line of text, whatever stands in it."""
    raw = render_line(line)

    assert parse_line(raw) == line
    assert raw.count(b"\n") == 1
    assert raw.endswith(b"\n")


@given(CALLS)
def test_a_call_arrives_as_it_was_said(call: Call) -> None:
    """Names of launchers in any script among them."""
    assert parse_call(render_call(call)) == call


def test_a_person_asks_for_the_status_without_a_name() -> None:
    """The shortest call."""
    assert render_call(Call(verb=Verb.STATUS)) == b'{"verb":"status"}\n'
    assert parse_call(b'{"verb":"status"}') == Call(verb=Verb.STATUS)


def test_a_line_of_an_unknown_kind_is_passed_over() -> None:
    """A newer agent says more than an older one knows."""
    assert parse_line(b'{"kind":"weather","is":"fine"}\n') is None


def test_an_older_agent_does_not_say_what_is_left() -> None:
    """And is understood all the same."""
    assert parse_line(b'{"kind":"cleaned","ended":3,"killed":1}') == Cleaned(ended=3, killed=1)


def test_only_what_a_worker_does_not_know_is_refused_for_ever() -> None:
    """The rest may pass: it is ending, or has too many callers."""
    with pytest.raises(ProtocolError) as unknown:
        parse_call(b'{"verb":"dance"}')

    assert Refused(why=str(unknown.value)).is_for_ever
    assert not Refused(why="64 others are speaking to this worker").is_for_ever


def test_fields_that_are_not_known_are_passed_over() -> None:
    """In lines, in calls, and in launchers."""
    assert parse_line(b'{"kind":"over","exit_code":3,"mood":"good"}') == Over(exit_code=3)
    assert parse_call(
        b'{"verb":"clean","launcher":{"name":"a","container":"b","zone":"c"},"haste":true}'
    ) == Call(verb=Verb.CLEAN, launcher=LauncherId(name="a", container="b"))


def _no_memory(kills: str, used: str, limit: str) -> bytes:
    text = f'{{"kind":"out-of-memory","kills":{kills},"used_bytes":{used},"limit_bytes":{limit}}}'
    return text.encode()


def _usage(ranks: str, cpu: str) -> bytes:
    return f'{{"kind":"usage","rank_numbers":{ranks},"cpu_s":{cpu}}}'.encode()


def test_the_longest_usage_is_a_line_that_is_read() -> None:
    """With the greatest numbers that ranks and seconds have."""
    longest = Usage(rank_numbers=(10**10,) * MOST_NUMBERS, cpu_s=(999999999.99,) * MOST_NUMBERS)

    raw = render_line(longest)

    assert len(raw) <= LONGEST_LINE_BYTES
    assert parse_line(raw) == longest


def test_an_older_launcher_does_not_say_how_the_job_ended_nor_an_older_worker_who_it_is() -> None:
    """Both are understood all the same."""
    assert parse_line(b'{"kind":"over","exit_code":3}') == Over(exit_code=3, summary="")
    assert parse_line(b'{"kind":"watching","worker":"a","lease_s":null}') == Watching(
        worker="a", lease_s=None, container=""
    )


@pytest.mark.parametrize("deep", [1, 500, 900, 990, 3000])
def test_a_value_of_any_depth_is_refused_in_a_sentence(deep: int) -> None:
    """What can be read as JSON can be shown too."""
    with pytest.raises(ProtocolError):
        parse_line(b'{"kind":"over","exit_code":' + b"[" * deep + b"1.5" + b"]" * deep + b"}")


@pytest.mark.parametrize(
    ("raw", "why"),
    [
        (b'{"kind":"over"}', "Over lacks exit_code"),
        (b'{"kind":"over","exit_code":"3"}', "exit_code of Over cannot be '3'"),
        (b'{"kind":"over","exit_code":true}', "exit_code of Over cannot be True"),
        (b'{"kind":"over","exit_code":null}', "exit_code of Over cannot be None"),
        (b'{"kind":"over","exit_code":3.5}', "exit_code of Over cannot be 3.5"),
        (b'{"kind":"over","exit_code":256}', "exit_code cannot be 256"),
        (b'{"kind":"over","exit_code":-1}', "exit_code cannot be -1"),
        (b'{"kind":"watching","worker":"a","lease_s":-1}', "lease_s cannot be -1"),
        (b'{"kind":"watching","worker":"a","lease_s":1000000001}', "lease_s cannot be"),
        (b'{"kind":"watching","worker":"a","lease_s":1' + b"0" * 400 + b"}", "lease_s cannot be"),
        (b'{"kind":"draining","signal_name":"a","grace_s":2e9,"ranks":1}', "grace_s cannot be"),
        (b'{"kind":"draining","signal_name":"a","grace_s":1,"ranks":-1}', "ranks cannot be -1"),
        (b'{"kind":"draining","signal_name":"a","grace_s":1,"ranks":1000001}', "ranks cannot be"),
        (b'{"kind":"draining","signal_name":"a","grace_s":1}', "Draining lacks ranks"),
        (_no_memory("0", "1", "1"), "kills cannot be 0"),
        (_no_memory("1000001", "1", "1"), "kills cannot be 1000001"),
        (_no_memory("1", "-1", "1"), "used_bytes cannot be -1"),
        (_no_memory("1", "1", "1" + "0" * 400), "limit_bytes cannot be"),
        (b'{"kind":"cleaned","ended":-1,"killed":0}', "ended cannot be -1"),
        (b'{"kind":"restarting","exit_code":256}', "exit_code cannot be 256"),
        (b'{"kind":"pass-signal","signal_name":15}', "signal_name of PassSignal cannot be 15"),
        (b'{"kind":"presence","daemons":-1,"ranks":0}', "daemons cannot be -1"),
        (b'{"kind":"rank-gone","rank":0,"code":256,"signal":null}', "code cannot be 256"),
        (b'{"kind":"rank-gone","rank":0,"code":null,"signal":65}', "signal cannot be 65"),
        (b'{"kind":"rank-gone","rank":0,"code":null}', "RankGone lacks signal"),
        (b'{"kind":"swept","ended":0,"killed":0,"left":0,"segments":-1}', "segments cannot be"),
        (_usage("1", "[1]"), "rank_numbers of Usage cannot be 1"),
        (_usage("[1]", "[]"), "0 times cannot be of 1 ranks"),
        (_usage("[1.5]", "[1]"), "rank_numbers of Usage cannot be [1.5]"),
        (_usage("[true]", "[1]"), "rank_numbers of Usage cannot be [True]"),
        (_usage('["1"]', "[1]"), "rank_numbers of Usage cannot be ['1']"),
        (_usage("[[1]]", "[1]"), "rank_numbers of Usage cannot be [[1]]"),
        (_usage("[-1]", "[1]"), "rank_numbers cannot be (-1,)"),
        (_usage("[1]", "[NaN]"), "cpu_s of Usage cannot be [nan]"),
        (_usage("[1]", "[1e999]"), "cpu_s of Usage cannot be [inf]"),
        (_usage("[1]", "[-0.5]"), "cpu_s cannot be (-0.5,)"),
        (_usage("[1]", "[1" + "0" * 400 + "]"), "cpu_s cannot be"),
        (_usage("[" + "1," * 2000 + "1]", "[1]"), "rank_numbers of Usage cannot be"),
        (b'{"kind":"watching","worker":"a","lease_s":NaN}', "cannot be nan"),
        (b'{"kind":"watching","worker":"a","lease_s":1e999}', "cannot be inf"),
        (b'{"kind":"watching","worker":"a\\nb","lease_s":1}', "worker of Watching cannot be"),
        (b'{"exit_code":3}', "has no kind"),
        (b'{"kind":["over"]}', "has no kind"),
        (b'["over"]', "is not an object"),
        (b"3", "is not an object"),
        (b"", "is not JSON"),
        (b"GET / HTTP/1.1\r\n", "is not JSON"),
        (b"\xff\xfe\x00", "is not JSON"),
        (b"[" * LONGEST_LINE_BYTES, "is not JSON"),
        (b'{"a":' * 12000, "is not JSON"),
        (b"1" * LONGEST_LINE_BYTES, "is not JSON"),
    ],
)
def test_what_is_no_line_is_refused_in_a_sentence(raw: bytes, why: str) -> None:
    """Short enough for a log, whatever came."""
    with pytest.raises(ProtocolError) as refused:
        parse_line(raw)

    assert why in str(refused.value)
    assert len(str(refused.value)) < 300


@pytest.mark.parametrize(
    ("raw", "why"),
    [
        (b"{}", "there is no verb None"),
        (b'{"verb":"stop"}', "there is no verb 'stop'"),
        (b'{"verb":{"a":1}}', "there is no verb {'a': 1}"),
        (b'{"verb":"watch"}', "watch needs a launcher and a run_id"),
        (b'{"verb":"watch","run_id":"x"}', "watch needs a launcher and a run_id"),
        (b'{"verb":"watch","launcher":{"name":"a","container":"b"}}', "watch needs"),
        (b'{"verb":"clean","launcher":{"name":"a"}}', "LauncherId lacks container"),
        (b'{"verb":"clean","launcher":"a"}', "LauncherId lacks name"),
        (b'{"verb":"clean","launcher":[]}', "LauncherId lacks name"),
        (b'{"verb":"clean","launcher":{"name":1,"container":"b"}}', "cannot be 1"),
        (b'{"verb":"clean","launcher":{"name":"\\ud800","container":"b"}}', "cannot be"),
        (b'{"verb":"status","run_id":5}', "the run_id cannot be 5"),
        (b'{"verb":"status","run_id":"a\\u0000b"}', "the run_id cannot be"),
        (b'{"verb":"status","run_id":"\\u00e9"}', "the run_id cannot be"),
        (b'{"verb":"status","run_id":"' + b"a" * 129 + b'"}', "the run_id cannot be"),
    ],
)
def test_what_is_no_call_is_refused_in_a_sentence(raw: bytes, why: str) -> None:
    """The sentence goes to the caller and into the log."""
    with pytest.raises(ProtocolError) as refused:
        parse_call(raw)

    assert why in str(refused.value)
    assert len(str(refused.value)) < 300


JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=5,
)
KNOWN_KEYS = st.sampled_from(
    (
        "kind",
        "verb",
        "launcher",
        "run_id",
        "exit_code",
        "lease_s",
        "worker",
        "name",
        "why",
        "rank_numbers",
        "cpu_s",
    )
)
KNOWN_VALUES = st.sampled_from(("over", "watch", "clean", "watching", "refused", "usage"))


@given(
    st.binary()
    | st.dictionaries(KNOWN_KEYS, KNOWN_VALUES | JSON_VALUES).map(
        lambda values: json.dumps(values).encode()
    )
)
def test_garbage_is_a_line_or_refused_and_nothing_else(raw: bytes) -> None:
    """Nobody can make either side stumble."""
    for parse in (parse_line, parse_call):
        with contextlib.suppress(ProtocolError):
            parse(raw)
