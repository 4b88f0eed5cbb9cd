"""The text of the ready file."""

from __future__ import annotations

import pytest

from mpi_agent.worker.readiness import ReadyFile


def test_ready_file_is_read_as_it_was_written() -> None:
    """Worker and probe may be of different releases of one format."""
    ready = ReadyFile(pid=7, address="127.0.0.1", port=2222, announcement="mpi-agent w 0")

    assert ReadyFile.parse(ready.render()) == ready


@pytest.mark.parametrize(
    "text",
    [
        "",
        "ready\n",
        "1 7 127.0.0.1\n",
        "1 7 127.0.0.1 2222\n",
        "2 7 127.0.0.1 2222 x\n",
        "1 12345678901234567890 127.0.0.1 2222 x\n",
        "1 0 127.0.0.1 2222 x\n",
        "1 -1 127.0.0.1 2222 x\n",
        "1 \u0667 127.0.0.1 2222 x\n",
        "1 7 127.0.0.1 65536 x\n",
        "1 7 127.0.0.1 0 x\n",
        "1 7 127.0.0.1 -2222 x\n",
    ],
)
def test_other_text_is_no_ready_file(text: str) -> None:
    """Half a file, somebody else's file, another format, numbers that no kernel knows."""
    with pytest.raises(ValueError, match=r"."):
        ReadyFile.parse(text)
