"""Programs that run as root and may not signal other accounts, as in a container without CAP_KILL.

They are told by a script, because the tests' own process must keep what it may do.
"""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tests.workers import LIMIT_S

__all__ = ["NOBODY", "STRANGER", "said_without_cap_kill"]

NOBODY = 65534
_CAP_KILL = 5
_PR_CAPBSET_DROP = 24
_DROP = f"""
import ctypes, os, sys
if ctypes.CDLL(None).prctl({_PR_CAPBSET_DROP}, {_CAP_KILL}, 0, 0, 0):
    sys.exit("cannot drop CAP_KILL")
os.execv(sys.executable, [sys.executable, "-c", *sys.argv[1:]])
"""
STRANGER = f"import os, time; os.setgroups([]); os.setgid({NOBODY}); os.setuid({NOBODY});"
"""How a script in Python becomes another account."""


def said_without_cap_kill(script: str, *arguments: str) -> str:
    """Return what a script in Python prints as root without CAP_KILL; skip where that cannot be.

    Source: capabilities(7), Linux man-pages 6.03: what was dropped from the bounding set is not
    gained by an execve, not even by root's.
    """
    if os.getuid() != 0:
        pytest.skip("needs root, to be somebody else")
    ran = subprocess.run(
        [sys.executable, "-c", _DROP, script, *arguments],
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )
    if "cannot drop CAP_KILL" in ran.stderr:
        pytest.skip("needs CAP_SETPCAP, to drop CAP_KILL")
    assert ran.returncode == 0, ran.stderr
    return ran.stdout
