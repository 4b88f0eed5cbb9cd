"""Children that live on: what may not be signalled is no end of the agent that wants to."""

from __future__ import annotations

import pytest

from tests.bounded_root import STRANGER, said_without_cap_kill

pytestmark = pytest.mark.integration

_LOOKS = """
import asyncio, os, signal, sys
from mpi_agent.children import Children

OURS = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('up', flush=True)"

async def look():
    up, to_up = os.pipe()
    with Children() as children:
        start = lambda script: children.start(
            (sys.executable, "-c", f"{script}; time.sleep(15)"), env={}, stdout=to_up
        )
        stranger = start("STRANGER print('up', flush=True)")
        ours = start(OURS)
        said = b""
        while said.count(b"up") < 2:
            said += os.read(up, 100)
        stranger.signal(signal.SIGTERM)
        stranger.signal_group(signal.SIGTERM)
        killed = await children.sweep(0.1)
        print(killed, [child.pid for child in children.running] == [stranger.pid])

asyncio.run(look())
""".replace("STRANGER", STRANGER)


def test_a_descendant_under_another_account_ends_no_sweep_and_is_not_killed() -> None:
    """As of root without CAP_KILL and an sshd that has somebody at the door."""
    assert said_without_cap_kill(_LOOKS).split() == ["1", "True"]
