"""Plays torch.distributed's env:// rendezvous in the ranks of a farm, without PyTorch.

Called as `farm_rendezvous.py DIRECTORY`. RANK and LOCAL_RANK are taken as examples/mpi-operator/
ddp.py takes them; rank 0 opens MASTER_PORT, all others dial MASTER_ADDR, and nobody goes on before
WORLD_SIZE ranks are there. Each then writes DIRECTORY/<rank>.json.

Source: PyTorch 2.x, torch/distributed/rendezvous.py, _env_rendezvous_handler.
"""

from __future__ import annotations

import importlib.util
import json
import os
import socket
import sys
import time
from pathlib import Path
from typing import Any

_DDP = Path(__file__).parents[1] / "examples" / "mpi-operator" / "ddp.py"
_LIMIT_S = 30.0
_SHORTEST_LIFE_S = 0.7
"""Source: tests/farm_rank.py."""


def main() -> None:
    """Meet all other ranks, and tell what this one saw."""
    started_at_s = time.monotonic()
    _ddp().take_ranks_from_the_launcher(os.environ)
    rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    own = f"{rank} {os.environ['LOCAL_RANK']} {os.uname().nodename}"
    until_s = started_at_s + _LIMIT_S
    met = _receive_all(own, size) if rank == 0 else _dial(own, until_s)
    told = {
        "host": os.uname().nodename,
        "rank": rank,
        "environ": {k.decode("latin-1"): v.decode("latin-1") for k, v in os.environb.items()},
        "world": {"met": met},
    }
    path = Path(sys.argv[1]) / f"{rank}.json"
    path.with_suffix(".new").write_text(json.dumps(told))
    path.with_suffix(".new").rename(path)
    time.sleep(max(0.0, started_at_s + _SHORTEST_LIFE_S - time.monotonic()))


def _ddp() -> Any:
    spec = importlib.util.spec_from_file_location("ddp", _DDP)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _receive_all(own: str, size: int) -> list[str]:
    """Return what all ranks are, once every one of them has dialled."""
    with socket.create_server(("", int(os.environ["MASTER_PORT"]))) as server:
        server.settimeout(_LIMIT_S)
        dialled = [server.accept()[0] for _ in range(size - 1)]
        files = [connection.makefile("rw") for connection in dialled]
        met = sorted((own, *(file.readline().strip() for file in files)))
        for file, connection in zip(files, dialled, strict=True):
            file.write(json.dumps(met) + "\n")
            file.close()
            connection.close()
    return met


def _dial(own: str, until_s: float) -> list[str]:
    """Return what rank 0 says of all ranks."""
    where = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
    while True:
        try:
            connection = socket.create_connection(where, timeout=_LIMIT_S)
            break
        except ConnectionRefusedError:
            if time.monotonic() > until_s:
                raise
            time.sleep(0.05)
    with connection, connection.makefile("rw") as file:
        file.write(f"{own}\n")
        file.flush()
        met: list[str] = json.loads(file.readline())
    return met


if __name__ == "__main__":
    main()
