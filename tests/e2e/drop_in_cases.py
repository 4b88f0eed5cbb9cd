"""The jobs that mpi-operator's own images run, to be run with only the image's name changed.

Nothing in them knows about the agent. `tests/e2e/test_drop_in.py` promises them, and
`tests/e2e/drop_in_table.py` writes the table of images/README.md from them.

Source: mpi-operator v0.8.2, examples/v2beta1/pi/pi.yaml and pi-mpich.yaml, read 2026-11-30.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, replace
from functools import partial

from tests.e2e.images import Mpi
from tests.e2e.mpi_jobs import ExecProbe, MpiJob, PodTemplate, TcpProbe
from tests.e2e.operator_cluster import Ended, OperatorJob
from tests.e2e.placements import hosts_of_ranks
from tests.e2e.pods import Pod
from tests.waiting import wait_until

__all__ = [
    "CELLS",
    "DROP_INS",
    "PI",
    "PROGRAM",
    "DropIn",
    "assert_nothing_is_left",
    "assert_the_sentence_is_last",
]

PROGRAM = "/home/mpiuser/pi"
_UID = 1000
_HOME_SSH = "/home/mpiuser/.ssh"
_ROOT_SSH = "/root/.ssh"
_SSHD = ("/usr/sbin/sshd", "-De")
_SSHD_OF_MPIUSER = (*_SSHD, "-f", "/home/mpiuser/.sshd_config")
_TCP = TcpProbe(port=2222)
_SETVARS = "source /opt/intel/oneapi/setvars.sh"
_IDLE_LIMIT_S = 5.0
_OF_A_PROGRAM = re.compile(
    r"\b(mpirun|mpiexec\S*|prterun|orted|prted|hydra_pmi_proxy|hydra_bstrap_proxy)\b"
    rf"|{PROGRAM}\b|/opt/user/"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class DropIn:
    """One job of the operator's.

    Attributes:
        name: a word for tests and for the command line.
        title: the row of the table.
        job: for any MPI; `job_for` says for which.
        np: the number behind its `-n`.
        only: the MPI whose users alone write such a job; None for all of them.
    """

    name: str
    title: str
    job: MpiJob
    np: int
    only: Mpi | None = None

    def __str__(self) -> str:
        return self.name

    def is_of(self, mpi: Mpi) -> bool:
        """Return whether users of an MPI write such a job."""
        return self.only in (None, mpi)

    def job_for(self, mpi: Mpi) -> MpiJob:
        """Return the job with the name that the operator has for an MPI."""
        return replace(self.job, implementation=mpi.implementation)

    def assert_runs(self, running: OperatorJob) -> None:
        """Run it, and check code, pi, where the ranks ran, the last line, and what is left."""
        ended = running.run()
        slots = [host for host in running.hosts for _ in range(self.job.slots)]

        assert ended.code == 0, f"ends with {ended.code}\n{ended.output}"
        assert "pi = 3.141592654" in ended.output, f"says no pi\n{ended.output}"
        places, expected = hosts_of_ranks(ended.output), tuple(slots[: self.np])
        assert places == expected, f"ran on {places}\n{ended.output}"
        assert_the_sentence_is_last(running, ended)
        assert_nothing_is_left(running)


def assert_the_sentence_is_last(running: OperatorJob, ended: Ended) -> None:
    """Check that the launcher's log ends with the sentence of the termination message."""
    (launcher,) = (pod for pod in running.pods if pod.hostname == f"{running.name}-launcher")
    last = sorted(launcher.log(timestamps=True).splitlines(), key=_time_of)[-1]
    _, told = ended.message.split("\n")
    said = json.loads(told)
    ending = f"(verdict={said['verdict'].upper()} code={said['exit_code']})"
    assert last.endswith(f" mpi-agent: {said['summary']} {ending}"), f"{last!r} is last"


def _time_of(line: str) -> str:
    """Return when a line was read; lines that were read together keep their order."""
    return line.partition(" ")[0]


def assert_nothing_is_left(running: OperatorJob) -> None:
    """Check that all workers run on, and soon without any process of the program."""
    for worker in running.workers:
        assert worker.is_running(), worker.log()
        wait_until(
            f"nothing of the program runs on {worker.hostname}",
            partial(_is_idle, worker),
            limit_s=_IDLE_LIMIT_S,
        )


def _is_idle(pod: Pod) -> bool:
    others = (command for command in pod.commands() if "mpi-agent" not in command)
    return not any(_OF_A_PROGRAM.search(command) for command in others)


def _mpirun(np: int) -> tuple[str, ...]:
    return ("mpirun", "-n", str(np), PROGRAM)


PI = MpiJob(
    launcher=PodTemplate(argv=_mpirun(4), uid=_UID),
    worker=PodTemplate(argv=_SSHD_OF_MPIUSER, uid=_UID),
    workers=2,
    slots=2,
    ssh_mount=_HOME_SSH,
)
"""The operator's pi with a second slot on each worker, so that slots can be seen to count."""

_SAMPLE = replace(PI, launcher=PodTemplate(argv=_mpirun(2), uid=_UID), slots=1)
_BY_ARGS = replace(
    PI,
    launcher=replace(PI.launcher, keeps_entrypoint=True),
    worker=replace(PI.worker, keeps_entrypoint=True, readiness=_TCP),
)
_AS_ROOT = replace(
    PI,
    launcher=replace(PI.launcher, uid=None),
    worker=PodTemplate(argv=_SSHD),
    ssh_mount=_ROOT_SSH,
)
_WAITING = replace(PI, waits_for_workers=True)


def _with_launcher(job: MpiJob, *argv: str) -> MpiJob:
    return replace(job, launcher=replace(job.launcher, argv=argv))


DROP_INS = (
    DropIn(
        name="sample",
        title="the operator's sample: 2 workers, 1 slot each, `mpirun -n 2`, uid 1000",
        job=_SAMPLE,
        np=2,
    ),
    DropIn(
        name="sshd-line",
        title="worker `command: [/usr/sbin/sshd]`, `args: [-De, -f, /home/mpiuser/.sshd_config]`,"
        " uid 1000",
        job=PI,
        np=4,
    ),
    DropIn(
        name="args-only",
        title="launcher and worker with `args` alone, `tcpSocket` probe on 2222, uid 1000",
        job=_BY_ARGS,
        np=4,
    ),
    DropIn(
        name="no-command-root",
        title="worker without any command, root, keys at `/root/.ssh`",
        job=_AS_ROOT,
        np=4,
    ),
    DropIn(
        name="no-command-uid-1000",
        title="worker without any command, uid 1000, keys at `/home/mpiuser/.ssh`",
        job=replace(PI, worker=replace(PI.worker, argv=_SSHD)),
        np=4,
    ),
    DropIn(
        name="root-with-keys-of-mpiuser",
        title="`/usr/sbin/sshd -De` as root, keys at `/home/mpiuser/.ssh`",
        job=replace(_AS_ROOT, ssh_mount=_HOME_SSH),
        np=4,
    ),
    DropIn(
        name="launcher-as-worker",
        title="`runLauncherAsWorker: true`",
        job=replace(PI, launcher=replace(PI.launcher, argv=_mpirun(6)), launcher_is_worker=True),
        np=6,
    ),
    DropIn(
        name="cluster-domain",
        title="operator with `--cluster-domain cluster.local`",
        job=replace(PI, cluster_domain="cluster.local"),
        np=4,
    ),
    DropIn(
        name="wait-for-workers-exec",
        title="`launcherCreationPolicy: WaitForWorkersReady`, probe `exec: [mpi-agent, ready]`",
        job=replace(
            _WAITING, worker=replace(PI.worker, readiness=ExecProbe(command=("mpi-agent", "ready")))
        ),
        np=4,
    ),
    DropIn(
        name="wait-for-workers-tcp",
        title="`launcherCreationPolicy: WaitForWorkersReady`, probe `tcpSocket: 2222`, root",
        job=replace(
            _AS_ROOT,
            worker=replace(_AS_ROOT.worker, readiness=_TCP),
            waits_for_workers=True,
        ),
        np=4,
    ),
    DropIn(
        name="by-bash",
        title='launcher `bash -c "mpirun ..."`',
        job=_with_launcher(PI, "bash", "-c", " ".join(_mpirun(4))),
        np=4,
    ),
    DropIn(
        name="by-setvars",
        title='launcher `bash -c "source /opt/intel/oneapi/setvars.sh && mpirun -n 2 ..."`',
        job=_with_launcher(_SAMPLE, "bash", "-c", f"{_SETVARS} && {' '.join(_mpirun(2))}"),
        np=2,
        only=Mpi.INTEL,
    ),
    DropIn(
        name="fewer-than-slots",
        title="`mpirun -n 3` on 2 workers with 2 slots each",
        job=_with_launcher(PI, *_mpirun(3)),
        np=3,
    ),
)
"""In the order of the table."""

CELLS = tuple((mpi, case) for mpi in Mpi for case in DROP_INS if case.is_of(mpi))
"""Every case with every MPI whose users write it; an MPI's cases stand together."""
