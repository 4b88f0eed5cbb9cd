"""A rank that writes lines, pieces of lines, bars and what looks like tags, and keeps a copy.

rank_output.py DIRECTORY
"""

from __future__ import annotations

import os
import random
import sys
import time
from pathlib import Path

_LETTERS = b"abc[]0123456789,<>: |rank\r"
_SIZES = (0, 1, 10, 100, 5000, 70000)
_PIECES = (1, 100, 4096, 65536, 200000)


def main() -> None:
    """Write what the rank's number decides."""
    rank = int(os.environ.get("OMPI_COMM_WORLD_RANK") or os.environ["PMI_RANK"])
    chance = random.Random(rank)
    lines = []
    for _ in range(120):
        size = chance.choices(_SIZES, weights=(5, 5, 30, 30, 5, 1))[0]
        line = bytes(chance.choices(_LETTERS, k=size))
        lines.append(line + (b"\n" if chance.random() < 0.9 else b""))
    content = b"".join(lines)
    (Path(sys.argv[1]) / f"wrote-{rank}").write_bytes(content)
    time.sleep(0.3)
    while content:
        count = os.write(1, content[: chance.choice(_PIECES)])
        content = content[count:]
    os.write(2, b"err\n")
    time.sleep(1)  # Open MPI 5.0.11 may not return from ranks that end at once


if __name__ == "__main__":
    main()
