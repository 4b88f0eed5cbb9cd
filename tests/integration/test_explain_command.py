"""`mpi-agent explain` on saved logs, as a user calls it."""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.integration

CORPUS = Path(__file__).parents[1] / "corpus"
REFUSED = CORPUS / "ompi4-ssh-refused.txt"
LINE = b"ssh: connect to host w1 port 22: Connection refused\n"
FILLER = b"step 17 loss 0.1234 lr 0.001 img/s 812.5 eta 00:12\n"
CHUNK = FILLER * ((1 << 20) // len(FILLER))


def explain(*words: str, stdin: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    """Run the command to its end."""
    return subprocess.run(
        [sys.executable, "-m", "mpi_agent", "explain", *words],
        input=stdin,
        capture_output=True,
        timeout=60,
        check=False,
    )


def test_a_saved_log_is_explained_in_a_few_lines() -> None:
    """Verdict, cause, line, hint, and what followed."""
    done = explain(str(REFUSED))

    assert done.returncode == 0
    assert done.stderr == b""
    assert done.stdout.decode().splitlines() == [
        "verdict: launch failed",
        'cause: nothing listens on port 22 of "pi-worker-2.pi.default.svc" [ssh-refused]',
        "line 9: ssh: connect to host pi-worker-2.pi.default.svc port 22: Connection refused",
        "hint: start sshd (`mpi-agent worker`) there, on the port the launcher dials, and wait for"
        " it (`mpi-agent wait`)",
        "then:",
        "  line 11: mpirun could not start its daemon on a host, or lost the ssh to one"
        " [orte-daemon-not-started]",
    ]


def test_what_kubectl_logs_puts_in_front_of_lines_is_no_hindrance() -> None:
    """On stdin, with prefixes and timestamps, and lines that end as on Windows."""
    front = b"[pod/pi-launcher-x7k2p/launcher] 2026-11-30T12:00:00.123456789Z "
    log = b"".join(front + line + b"\r\n" for line in REFUSED.read_bytes().splitlines())

    done = explain("-", stdin=log)

    assert done.returncode == 0
    assert b"[ssh-refused]" in done.stdout


def test_json_tells_every_finding() -> None:
    """For machines, on stdout alone."""
    done = explain(str(REFUSED), "--output", "json")

    told = json.loads(done.stdout)

    assert (told["ending"], told["root"]) == (None, "ssh-refused")
    assert told["verdict"] == "launch_failed"
    assert [item["symptom"] for item in told["findings"]] == [
        "ssh-refused",
        "orte-daemon-not-started",
    ]
    assert told["findings"][0]["host"] == "pi-worker-2.pi.default.svc"
    assert told["findings"][0]["line_number"] == 9
    assert told["findings"][1]["verdict"] is None
    assert [item["kind"] for item in told["findings"]] == ["cause", "consequence"]


def test_a_log_that_shows_nothing_known_ends_with_1() -> None:
    """In both forms; an empty one too."""
    healthy = str(CORPUS / "ompi5-wdir-missing.txt")

    text, as_json, empty = explain(healthy), explain(healthy, "--output", "json"), explain("-")

    assert (text.returncode, as_json.returncode, empty.returncode) == (1, 1, 1)
    assert text.stdout.startswith(b"nothing known in ")
    assert json.loads(as_json.stdout) == {
        "ending": None,
        "verdict": None,
        "root": None,
        "findings": [],
    }


def test_what_the_agent_said_itself_comes_first() -> None:
    """With the cause that the output shows below it."""
    said = b'mpi-agent: "pi" failed with exit code 7 (verdict=PROGRAM_FAILED code=7)\n'

    done = explain("-", stdin=b"ValueError: the loss is nan\n" + said)

    assert done.returncode == 0
    assert done.stdout.decode().splitlines() == [
        'ending: "pi" failed with exit code 7',
        "verdict: program failed, code 7 (line 2)",
        "cause: a rank raised an exception, ValueError: the loss is nan [python-exception]",
        "line 1: ValueError: the loss is nan",
        "hint: see the traceback above it",
    ]


def test_a_log_that_tells_of_a_success_needs_no_cause() -> None:
    """It is known how that ended, whatever else stands there."""
    said = b'mpi-agent: "pi" succeeded after 3 s (verdict=SUCCEEDED code=0)\n'

    done = explain("-", stdin=LINE + said)
    told = json.loads(explain("-", "--output", "json", stdin=LINE + said).stdout)

    assert done.returncode == 0
    assert done.stdout.decode().splitlines() == [
        'ending: "pi" succeeded after 3 s',
        "verdict: succeeded, code 0 (line 2)",
    ]
    assert told == {
        "ending": {
            "verdict": "succeeded",
            "exit_code": 0,
            "summary": '"pi" succeeded after 3 s',
            "line_number": 2,
        },
        "verdict": "succeeded",
        "root": None,
        "findings": [],
    }


def test_a_consequence_alone_is_seen_and_is_no_cause() -> None:
    """Nor is what the program went on after."""
    noise = b"An MPI communication peer process has unexpectedly disconnected.\n"

    done = explain("-", stdin=LINE + FILLER * 500 + noise)

    assert done.returncode == 1
    assert done.stdout.decode().splitlines()[:-1] == [
        "no cause in 502 lines",
        "seen:",
        "  line 502: a rank that others were talking to was gone [mpi-peer-gone]",
        "before, and the program went on:",
        '  line 1: nothing listens on port 22 of "w1" [ssh-refused]',
    ]
    assert done.stdout.splitlines()[-1].startswith(b"hint: see the log of the other side")


def test_a_launch_does_not_compile_the_catalogue_before_its_program_has_ended() -> None:
    """What the launcher imports to start has none of it."""
    script = (
        "import sys, mpi_agent.attempt, mpi_agent.launcher, mpi_agent.cli.launch;"
        "print([name for name in sys.modules if name.startswith('mpi_agent.explain.symptoms')"
        " or name in ('mpi_agent.explain.matcher', 'mpi_agent.explain.text_search')])"
    )

    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, timeout=60, check=True
    )

    assert done.stdout == b"[]\n"


@pytest.mark.parametrize("name", ["missing.log", "", "a/b"])
def test_a_file_that_cannot_be_read_is_named(tmp_path: Path, name: str) -> None:
    """Missing, a directory, or beneath a file."""
    (tmp_path / "a").write_text("")

    done = explain(str(tmp_path / name))

    assert done.returncode == 66
    assert done.stdout == b""
    said = done.stderr.decode().splitlines()
    assert said[0].startswith(f'mpi-agent: cannot read "{tmp_path / name}": ')
    assert said[1].startswith("hint: ")
    assert len(said) == 2


def test_a_compressed_log_is_refused_with_the_way_to_read_it(tmp_path: Path) -> None:
    """It is no text."""
    path = tmp_path / "launcher.log.gz"
    path.write_bytes(gzip.compress(REFUSED.read_bytes()))

    done = explain(str(path))

    assert done.returncode == 65
    assert b"it is no text" in done.stderr
    assert b"zcat" in done.stderr


@pytest.mark.parametrize("chunks_before", [0, 40])
def test_a_huge_log_is_read_at_both_ends_with_its_line_numbers(
    tmp_path: Path, chunks_before: int
) -> None:
    """41 MiB: the cause stands at the beginning or at the end."""
    path = tmp_path / "huge.log"
    with path.open("wb") as stream:
        for number in range(41):
            stream.write((LINE if number == chunks_before else b"") + CHUNK)

    done = explain(str(path), "--output", "json")

    told = json.loads(done.stdout)
    (finding,) = told["findings"]
    assert finding["symptom"] == "ssh-refused"
    assert finding["is_past"] is True  # 20,000 lines follow
    assert finding["line_number"] == chunks_before * CHUNK.count(b"\n") + 1


def test_bytes_that_are_no_text_in_a_line_are_shown_escaped() -> None:
    """A terminal gets no control of a log."""
    done = explain("-", stdin=b"\xff\x1b[2J \x07" + LINE)

    assert done.returncode == 0
    assert b"\x1b" not in done.stdout
    assert rb"\x1b[2J" in done.stdout


def test_a_reader_that_is_gone_is_no_failure_to_explain() -> None:
    """As in every command: 141, and nothing on stderr."""
    script = f"{sys.executable} -m mpi_agent explain {REFUSED} | true; exit ${{PIPESTATUS[0]}}"

    done = subprocess.run(["bash", "-c", script], capture_output=True, timeout=60, check=False)

    assert done.returncode in (0, 141)  # it may have been done before the reader was
    assert done.stderr == b""
