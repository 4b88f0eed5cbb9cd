"""`mpi-agent wait`: what it waits for, what it prints, and how it ends."""

from __future__ import annotations

import json
import os
import pty
import signal
import socket
import subprocess
import sys
import termios
import time
import urllib.request
from collections.abc import Iterator

import pytest

from tests.agents import Job, running_agent, running_hosts
from tests.waiting import wait_until
from tests.workers import environment_for, free_address, make_job_keys, open_directory

pytestmark = pytest.mark.integration

UP, DOWN = "w-0.pi", "w-1.pi"


@pytest.fixture(scope="module")
def job() -> Iterator[Job]:
    """Provide a job with one worker that is ready and one host on which nobody listens."""
    with open_directory() as root:
        keys = make_job_keys(root / "mount")
        with running_hosts(keys, root, UP, down=(DOWN,)) as made:
            yield made


def run(*words: str, **environ: str) -> tuple[int, str, str]:
    """Run an agent to its end; return code, stdout and stderr."""
    with running_agent(*words, **environ) as agent:
        return agent.end()


def test_it_ends_with_0_once_every_host_is_ready(job: Job) -> None:
    """Text goes to stderr; stdout belongs to machines, and nobody asked for anything there."""
    code, out, err = run(*job.words("wait"), "--hosts", UP)

    assert (code, out) == (0, ""), err
    assert "hosts became ready count=1" in err


def test_json_tells_every_host_and_local_ones_are_ready(job: Job) -> None:
    """In host order; this container needs no asking."""
    words = (*job.words("wait"), "--hosts", f"{UP},localhost", "--output", "json")
    code, out, err = run(*words)

    report = json.loads(out)
    assert (code, report["ready"]) == (0, True), err
    assert [host["name"] for host in report["hosts"]] == [UP, socket.gethostname()]
    assert [host["stage"] for host in report["hosts"]] == ["equipped", "equipped"]
    assert report["hosts"][0]["port"] == job.port


def test_enough_workers_end_the_wait(job: Job) -> None:
    """The others are told as what they are."""
    words = ("--hosts", f"{UP},{DOWN}", "--min-workers", "1", "--output", "json")
    code, out, err = run(*job.words("wait"), *words)

    report = json.loads(out)
    assert code == 0, err
    assert (report["hosts_ready"], report["hosts_needed"], report["hosts_total"]) == (1, 1, 2)


def test_json_is_printed_when_the_wait_fails_too(job: Job) -> None:
    """The error follows on stderr, as JSON where the log is, with the code of a launch."""
    words = ("--hosts", DOWN, "--timeout", "6s", "--output", "json", "--log-format", "json")
    code, out, err = run(*job.words("wait"), *words)

    failed = json.loads(err.splitlines()[-1])
    assert code == 200
    assert json.loads(out)["hosts"][0]["obstacle"] == "port_refused"
    assert (failed["event"], failed["exit_code"]) == ("failed", 200)


def test_more_workers_than_the_job_has_are_refused(job: Job) -> None:
    """Such a wait would never end well."""
    code, _, err = run(*job.words("wait"), "--hosts", DOWN, "--min-workers", "2")

    assert code == 78
    assert "cannot wait for 2 ready hosts: the job has 1" in err


def test_without_any_mpi_the_login_is_enough(job: Job) -> None:
    """An init container's image may have none; which MPI the workers need cannot be told then."""
    bare = job.root / "bare"
    bare.mkdir()
    (bare / "python").symlink_to(sys.executable)
    words = job.words("wait")
    at = words.index(sys.executable)
    bare_words = ("env", f"PATH={bare}", str(bare / "python"), *words[at + 1 :])
    code, out, err = run(
        *(*words[:at], *bare_words, "--hosts", UP, "--output", "json"),
        PYTHONPATH=environment_for(None)["PYTHONPATH"],
    )

    assert code == 0, err
    assert json.loads(out)["hosts"][0]["stage"] == "authenticated"


def test_a_program_of_a_missing_mpi_is_refused(job: Job) -> None:
    """As launch refuses it."""
    code, _, err = run(*job.words("wait"), "--hosts", DOWN, "--mpi", "/no/mpi", "--", "./x")

    assert code == 127
    assert "cannot find mpirun" in err


def test_a_stop_signal_ends_the_wait_at_once(job: Job) -> None:
    """143, as for a launch that was stopped before its program started."""
    with running_agent(*job.words("wait"), "--hosts", DOWN) as agent:
        agent.wait_until_it_says("waiting for hosts=1")
        sent_at_s = time.monotonic()
        code, _, _ = agent.end(signal_number=signal.SIGTERM)
        took_s = time.monotonic() - sent_at_s

    assert code == 143
    assert took_s < 3.0


def test_the_wait_can_be_watched_over_http(job: Job) -> None:
    """On the port that was given, from the start."""
    address, port = free_address()
    with running_agent(*job.words("wait"), "--hosts", DOWN, "--http-port", str(port)) as agent:
        agent.wait_until_it_says("waiting for hosts=1")
        with urllib.request.urlopen(f"http://{address}:{port}/status", timeout=5) as page:
            status = json.load(page)

    assert status["phase"] == "waiting"
    assert status["wait"]["not_ready"][0]["name"] == DOWN


def test_a_taken_http_port_is_told_and_does_no_harm(job: Job) -> None:
    """A second agent on the host's network must not fail for its page of figures."""
    with socket.create_server(("", 0)) as taken:
        port = taken.getsockname()[1]
        code, _, err = run(*job.words("wait"), "--hosts", UP, "--http-port", str(port))

    assert code == 0, err
    assert f"note: cannot serve HTTP on port {port}" in err


def test_on_a_terminal_the_error_takes_the_place_of_the_bar(job: Job) -> None:
    """Both are lines of their own."""
    words = (*job.words("wait"), "--hosts", DOWN, "--timeout", "2s")
    terminal, other_end = pty.openpty()
    termios.tcsetwinsize(terminal, (24, 100))
    with subprocess.Popen(words, stdin=subprocess.DEVNULL, stderr=other_end) as popen:
        os.close(other_end)
        shown = _read_to_the_end(terminal)
    os.close(terminal)

    assert popen.returncode == 200, shown
    assert "[----------] 0/1 ready" in shown
    assert "\r\x1b[Kmpi-agent: cannot reach 1 of 1 hosts" in shown


def _read_to_the_end(terminal: int) -> str:
    os.set_blocking(terminal, False)
    pieces: list[bytes] = []

    def is_over() -> bool:
        try:
            piece = os.read(terminal, 65536)
        except BlockingIOError:
            return False
        except OSError:
            return True
        pieces.append(piece)
        return not piece

    wait_until("the terminal is closed", is_over)
    return b"".join(pieces).decode()


def test_a_launcher_whose_own_name_is_missing_goes_on_and_says_so(job: Job) -> None:
    """Open MPI does without it; a program that looks for it may not."""
    short = socket.gethostname()
    job.addresses[f"{short}.pi.default.svc {short}"] = "127.0.0.1"
    words = job.words("wait")
    (job.root / "resolv.conf").write_text("")
    at = words.index(sys.executable)
    mount = ("sh", "-c", f'mount --bind {job.root}/resolv.conf /etc/resolv.conf && exec "$@"', "sh")
    code, _, err = run(
        *(*words[:at], *mount, *words[at:], "--hosts", UP), K_MPI_JOB_ROLE="launcher"
    )

    assert code == 0, err
    assert f"the launcher's own name {short}.pi.default.svc does not resolve yet" in err
