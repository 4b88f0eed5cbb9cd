"""The page about the channel names everything that may be said on it."""

from __future__ import annotations

import re
from dataclasses import fields
from pathlib import Path

from mpi_agent.ssh import worker_protocol
from mpi_agent.ssh.worker_words import LauncherId, Line, Verb
from mpi_agent.variable_names import RUN_ID_VARIABLE, WORKER_CALL_VARIABLE

PAGE = Path(__file__).parents[2] / "docs/reference/worker-call.md"


def test_the_worker_call_page_names_every_verb_kind_and_key() -> None:
    """Whoever writes another launcher has this page alone."""
    text = PAGE.read_text()
    named = set(re.findall(r"`([\w.-]+)`", text))
    kinds = Line.__subclasses__()

    assert {verb.value for verb in Verb} <= named
    assert {kind.kind for kind in kinds} <= named
    assert {field.name for of in (*kinds, LauncherId) for field in fields(of)} <= named
    assert {RUN_ID_VARIABLE, worker_protocol.SOCKET_NAME, worker_protocol.RUN_MARK} <= named
    assert WORKER_CALL_VARIABLE in text
    assert f"{worker_protocol.LONGEST_LINE_BYTES:,} bytes" in text
