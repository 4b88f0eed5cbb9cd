"""What a worker does with a job's ranks: real agents on both sides, a real mpirun, real signals.

The program is a shell script that writes down what happens to it, one file for each rank.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import psutil
import pytest

from tests.agents import Agent, Job, running_agent
from tests.waiting import wait_until
from tests.workers import (
    LIMIT_S,
    JobKeys,
    RunningWorker,
    dial,
    free_address,
    require_program,
    running_worker,
    worker_arguments,
    write_ssh_config,
)

pytestmark = pytest.mark.integration

SAVES_ON_USR1 = """#!/bin/sh
exec >>"$OUT/$OMPI_COMM_WORLD_RANK"
trap 'echo saved; exit 0' USR1
echo "pid $$"
while :; do sleep 0.1; done
"""
NEVER_ENDS = """#!/bin/sh
exec >>"$OUT/$OMPI_COMM_WORLD_RANK"
trap 'echo "told to end"' TERM INT HUP USR1
echo "pid $$"
while :; do sleep 0.1; done
"""
LEAVES_ONE_BEHIND = """#!/bin/sh
exec >>"$OUT/$OMPI_COMM_WORLD_RANK"
setsid sh -c 'trap "" HUP; echo "pid $$"; exec sleep 1000' &
while ! [ -s "$OUT/$OMPI_COMM_WORLD_RANK" ]; do sleep 0.1; done
exit 3
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """Two workers, and a program that is to run on both."""

    job: Job
    workers: tuple[RunningWorker, ...]
    out: Path

    def launch(self, program: str) -> contextlib.AbstractContextManager[Agent]:
        """Start a launcher whose ranks run a script."""
        script = self.out / "program"
        script.write_text(program)
        script.chmod(0o755)
        names = ",".join(self.job.addresses)
        words = self.job.words("launch")
        return running_agent(
            *words, "--hosts", names, "--env", f"OUT={self.out}", "--", str(script)
        )

    def said(self, rank: int) -> str:
        """Return what a rank wrote so far."""
        file = self.out / str(rank)
        return file.read_text() if file.exists() else ""

    def wait_for_ranks(self) -> tuple[psutil.Process, ...]:
        """Wait until both ranks run; return their processes."""
        wait_until("both ranks run", lambda: all("pid" in self.said(rank) for rank in (0, 1)))
        return tuple(psutil.Process(int(self.said(rank).split()[1])) for rank in (0, 1))


@contextlib.contextmanager
def running_pair(keys: JobKeys, root: Path, *more: str) -> Iterator[Pair]:
    """Provide two workers that are ready."""
    names = ("pi-worker-0", "pi-worker-1")
    _, port = free_address()
    out = root / "out"
    out.mkdir()
    with contextlib.ExitStack() as stack:
        workers = []
        for name in names:
            own = root / f"tmp-of-{name}"
            own.mkdir()
            options = ("--ssh-port", str(port), *more)
            environ = {"TMPDIR": str(own)}
            worker = stack.enter_context(
                running_worker(keys, root, *options, name=name, environ=environ)
            )
            workers.append(replace(worker, port=port))
        addresses = {worker.name: worker.address for worker in workers}
        job = Job(keys=keys, root=root, port=port, addresses=addresses)
        yield Pair(job=job, workers=tuple(workers), out=out)


def has_said(worker: RunningWorker, text: str) -> bool:
    """Return whether a text stands in a worker's log."""
    return text in worker.log.read_text()


def test_an_evicted_worker_tells_the_launcher_and_lets_its_ranks_save(
    root: Path, keys: JobKeys, backend: str
) -> None:
    """The rank there gets the drain signal alone, while the launcher learns who is evicted."""
    options = ("--sshd", backend, "--drain-signal", "USR1", "--grace", "20s")
    with running_pair(keys, root, *options) as pair, pair.launch(SAVES_ON_USR1) as launcher:
        pair.wait_for_ranks()
        wait_until("the run is known", lambda: has_said(pair.workers[1], "a run began"))

        code = pair.workers[1].stop()

        launcher.wait_until_it_says("pi-worker-1 is being evicted: received SIGTERM")
        launcher.end(signal_number=signal.SIGTERM)
        assert code == 0
        assert pair.said(1).endswith("saved\n")
        assert "saved" not in pair.said(0)
        log = pair.workers[1].log.read_text()
        assert "sent SIGUSR1 to ranks=1" in log
        assert log.index("not ready any more") < log.index("mpi-agent: drained in ")


def test_a_daemon_has_its_time_after_its_ranks_and_no_more(root: Path, keys: JobKeys) -> None:
    """Mpirun may be ending in order; when the grace is over, the job has lost this worker."""
    options = ("--drain-signal", "USR1", "--grace", "2s")
    with running_pair(keys, root, *options) as pair, pair.launch(SAVES_ON_USR1) as launcher:
        pair.wait_for_ranks()
        wait_until("the run is known", lambda: has_said(pair.workers[1], "a run began"))

        code = pair.workers[1].stop()

        ended, _, said = launcher.end()
        assert code == 0
        assert pair.said(1).endswith("saved\n")
        assert has_said(pair.workers[1], "mpi-agent: drained in ")
        assert ended == 201, said


def test_a_rank_that_will_not_end_is_killed_when_the_grace_is_over_and_counted(
    root: Path, keys: JobKeys
) -> None:
    """The worker is gone within the grace period and a little, whatever the rank does."""
    with running_pair(keys, root, "--grace", "1s") as pair, pair.launch(NEVER_ENDS) as launcher:
        _, rank = pair.wait_for_ranks()

        code = pair.workers[1].stop()

        launcher.end(signal_number=signal.SIGTERM)
        assert code == 0
        assert not rank.is_running()
        assert "told to end" in pair.said(1)
        assert has_said(pair.workers[1], "mpi-agent: killed ")


def test_a_second_signal_ends_the_grace_period(root: Path, keys: JobKeys) -> None:
    """Somebody is impatient; the grace period of an hour does not hold him up."""
    with running_pair(keys, root, "--grace", "1h") as pair, pair.launch(NEVER_ENDS) as launcher:
        _, rank = pair.wait_for_ranks()
        worker = pair.workers[1]
        worker.popen.send_signal(signal.SIGTERM)
        wait_until("it drains", lambda: has_said(worker, "not ready any more"))

        code = worker.stop()

        pair.workers[0].popen.send_signal(signal.SIGTERM)
        launcher.end(signal_number=signal.SIGTERM)
        pair.workers[0].popen.send_signal(signal.SIGTERM)
        assert code == 0
        assert not rank.is_running()
        assert has_said(worker, "the grace period is over")


def test_ranks_end_when_their_launcher_is_gone_for_the_lease(
    root: Path, keys: JobKeys, backend: str
) -> None:
    """Also those of a launcher that was stopped in its tracks, whose connections stay open."""
    options = ("--sshd", backend, "--launcher-gone", "2s")
    with running_pair(keys, root, *options) as pair, pair.launch(NEVER_ENDS) as launcher:
        ranks = pair.wait_for_ranks()
        wait_until(
            "the runs are known", lambda: all(has_said(w, "a run began") for w in pair.workers)
        )

        os.kill(launcher.popen.pid, signal.SIGSTOP)

        wait_until("no rank is left", lambda: not any(rank.is_running() for rank in ranks))
        os.kill(launcher.popen.pid, signal.SIGKILL)
        for worker in pair.workers:
            wait_until("it is told", lambda w=worker: has_said(w, "was not heard for 2 s"))  # type: ignore[misc]
            assert worker.popen.poll() is None
            assert (worker.state / "ready").exists()


def test_what_a_job_leaves_behind_is_ended_with_it(root: Path, keys: JobKeys, backend: str) -> None:
    """A process that moved to a session of its own, and that mpirun knows nothing of."""
    with running_pair(keys, root, "--sshd", backend) as pair:
        with pair.launch(LEAVES_ONE_BEHIND) as launcher:
            code, _, said = launcher.end()

        assert code == 3, said
        left = [int(pair.said(rank).split()[1]) for rank in (0, 1) if pair.said(rank)]
        assert left
        wait_until("nothing is left", lambda: not any(map(psutil.pid_exists, left)))


@pytest.mark.parametrize(("exits", "expected"), [("code", 7), ("zero", 0)])
def test_a_worker_ends_with_the_job_where_it_is_told_to(
    root: Path, keys: JobKeys, exits: str, expected: int
) -> None:
    """For engines that do not clean workers up."""
    with running_pair(keys, root, "--exit-with-launcher", exits) as pair:
        with pair.launch("#!/bin/sh\nsleep 1\nexit 7\n") as launcher:
            code, _, said = launcher.end()

        assert code == 7, said
        assert [worker.popen.wait(LIMIT_S) for worker in pair.workers] == [expected, expected]


def test_a_login_of_a_person_is_not_touched_by_the_end_of_a_job(root: Path, keys: JobKeys) -> None:
    """It carries no run id."""
    require_program("ssh")
    with running_pair(keys, root) as pair:
        config = write_ssh_config(keys, root, pair.workers)
        with subprocess.Popen(
            ["ssh", "-F", str(config), "pi-worker-0", "echo in; exec sleep 1000"],
            stdout=subprocess.PIPE,
        ) as person:
            try:
                assert person.stdout is not None
                assert person.stdout.readline() == b"in\n"

                # PyPI's Open MPI 5.0.11 may not return from a program that ends at once
                with pair.launch("#!/bin/sh\nexec sleep 1\n") as launcher:
                    code, _, said = launcher.end()

                assert code == 0, said
                assert person.poll() is None
            finally:
                person.kill()


def test_a_signal_at_any_moment_of_the_start_ends_the_worker_in_good_order(
    root: Path, keys: JobKeys
) -> None:
    """Kubernetes may delete a pod as soon as it has made it."""
    address, port = free_address()
    for number in range(12):
        state = root / f"early-{number}"
        words = worker_arguments(keys, state, "pi-worker-0", address, port)
        with subprocess.Popen((sys.executable, *words), stderr=subprocess.PIPE, text=True) as popen:
            assert popen.stderr is not None
            for _ in range(number // 3):  # further on in its start each time
                popen.stderr.readline()
            popen.send_signal(signal.SIGTERM)
            _, said = popen.communicate(timeout=LIMIT_S)

            # the signal itself ends a Python that has not come as far as our first line
            assert popen.returncode in (0, -signal.SIGTERM), said
            assert "Traceback" not in said
            assert not (state / "ready").exists()


@pytest.mark.parametrize("number", [signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2, signal.SIGALRM])
def test_a_signal_that_means_nothing_to_a_worker_does_not_end_it(
    root: Path, keys: JobKeys, number: signal.Signals
) -> None:
    """People send HUP to sshd."""
    with running_worker(keys, root, "--sshd", "builtin") as worker:
        worker.popen.send_signal(number)

        config = write_ssh_config(keys, root, (worker,))
        client = (sys.executable, "-m", "mpi_agent", "ssh")
        assert dial(client, config, worker.name, "echo in").stdout == b"in\n"


def test_a_worker_whose_files_were_removed_is_not_ready_and_ends(
    root: Path, keys: JobKeys, backend: str
) -> None:
    """A cleaner of /tmp went by; a new container makes the files anew."""
    with running_worker(keys, root, "--sshd", backend) as worker:
        shutil.rmtree(worker.state)

        assert worker.popen.wait(LIMIT_S) == 73
        assert has_said(worker, "was removed while the worker ran")
        assert has_said(worker, "--state-dir")


def test_a_worker_that_cannot_start_leaves_no_socket(root: Path, keys: JobKeys) -> None:
    """The next one would have to find out that nobody is behind it."""
    address, port = free_address()
    keys.private_path.write_text("not a key")
    words = worker_arguments(keys, root / "state", "pi-worker-0", address, port)

    done = subprocess.run((sys.executable, *words), capture_output=True, timeout=LIMIT_S)

    assert done.returncode == 77
    assert not (root / "state" / "worker.sock").exists()


def test_an_address_of_another_machine_is_refused_at_once(root: Path, keys: JobKeys) -> None:
    """As a setting that cannot work, not as a port that may become free."""
    words = worker_arguments(keys, root / "state", "pi-worker-0", "192.0.2.77", 2222)

    done = subprocess.run((sys.executable, *words), capture_output=True, timeout=LIMIT_S)

    assert done.returncode == 78
    assert b"no address of this container" in done.stderr


def start_that_fails(
    keys: JobKeys, root: Path, state: str, *more: str
) -> subprocess.CompletedProcess[str]:
    """Start a worker that must end by itself."""
    address, port = free_address()
    words = worker_arguments(keys, Path(state), "pi-worker-0", address, port)
    return subprocess.run(
        (sys.executable, *words, *more),
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        cwd=root,
        check=False,
    )


def test_a_file_of_the_users_own_is_no_place_for_the_ready_file(root: Path, keys: JobKeys) -> None:
    """One mistyped path must not lose data."""
    (root / "notes").write_text("mine\n")

    done = start_that_fails(keys, root, str(root / "s"), "--ready-file", str(root / "notes"))

    assert done.returncode == 78, done.stderr
    assert "that no worker wrote" in done.stderr
    assert (root / "notes").read_text() == "mine\n"


def test_a_state_directory_that_no_configuration_can_name_is_refused(
    root: Path, keys: JobKeys
) -> None:
    """As a bad value, not as a bug."""
    done = start_that_fails(keys, root, f"{root}/a\nb")

    assert done.returncode == 73, done.stderr
    assert "printable" in done.stderr


def test_a_relative_state_directory_is_one_of_the_working_directory(
    root: Path, keys: JobKeys
) -> None:
    """Sshd and its sessions have other working directories."""
    address, port = free_address()
    words = worker_arguments(keys, Path("relative"), "pi-worker-0", address, port)
    with running_agent(
        "sh", "-c", 'cd "$0" && exec "$@"', str(root), sys.executable, *words
    ) as one:
        one.wait_until_it_says("became ready")

        code, _, _ = one.end(signal_number=signal.SIGTERM)

    assert code == 0
    assert (root / "relative").is_dir()


def test_the_status_is_told_in_a_session_and_by_the_command(root: Path, keys: JobKeys) -> None:
    """A person asks in the container, the launcher over ssh."""
    with running_worker(keys, root, "--sshd", "builtin") as worker:
        config = write_ssh_config(keys, root, (worker,))
        client = (sys.executable, "-m", "mpi_agent", "ssh")

        over_ssh = dial(client, config, worker.name, '/bin/sh "$MPI_AGENT_WORKER_CALL" status')
        here = subprocess.run(
            (sys.executable, "-m", "mpi_agent", "worker-call", "status"),
            env={**os.environ, "MPI_AGENT_STATE_DIR": str(worker.state)},
            capture_output=True,
            timeout=LIMIT_S,
            check=True,
        )

        assert b'"phase": "ready"' in over_ssh.stdout
        assert b'"phase": "ready"' in here.stdout
