"""The jobs that mpi-operator's own images run, to be run with only the image's name changed.

Nothing in them knows about the agent. `tests/e2e/test_drop_in.py` promises them, and
`tests/e2e/drop_in_table.py` writes the table of images/README.md from them.

Source: mpi-operator v0.8.2, examples/v2beta1/pi/pi.yaml and pi-mpich.yaml, read 2026-11-30.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace

from tests.e2e.images import Mpi
from tests.e2e.leftovers import PROGRAM, wait_until_idle
from tests.e2e.mpi_jobs import ExecProbe, MpiJob, PodTemplate, TcpProbe
from tests.e2e.operator_cluster import Ended, OperatorJob
from tests.e2e.placements import hosts_of_ranks

__all__ = [
    "CELLS",
    "DROP_INS",
    "PI",
    "DropIn",
    "assert_nothing_is_left",
    "assert_the_sentence_is_last",
]

_UID = 1000
_HOME_SSH = "/home/mpiuser/.ssh"
_ROOT_SSH = "/root/.ssh"
_SSHD = ("/usr/sbin/sshd", "-De")
_SSHD_OF_MPIUSER = (*_SSHD, "-f", "/home/mpiuser/.sshd_config")
_TCP = TcpProbe(port=2222)
_SETVARS = "source /opt/intel/oneapi/setvars.sh"
_ALL = tuple(Mpi)
_ONE_OF_EACH_KIND = (Mpi.OPEN_MPI_5, Mpi.MPICH)


@dataclass(frozen=True, slots=True, kw_only=True)
class DropIn:
    """One job of the operator's.

    Attributes:
        name: a word for tests and for the command line.
        title: the row of the table.
        job: for any MPI; `job_for` says for which.
        np: the number behind its `-n`.
        only: the MPIs that it is run with.
    """

    name: str
    title: str
    job: MpiJob
    np: int
    only: tuple[Mpi, ...] = _ALL

    def __str__(self) -> str:
        return self.name

    def is_of(self, mpi: Mpi) -> bool:
        """Return whether it is run with an MPI."""
        return mpi in self.only

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
        wait_until_idle(worker)


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
        title="`runLauncherAsWorker: true`, uid 1000",
        job=_with_launcher(replace(PI, launcher_is_worker=True), *_mpirun(6)),
        np=6,
    ),
    DropIn(
        name="launcher-as-worker-root",
        title="`runLauncherAsWorker: true`, root, keys at `/root/.ssh`",
        job=_with_launcher(replace(_AS_ROOT, launcher_is_worker=True), *_mpirun(6)),
        np=6,
        only=_ONE_OF_EACH_KIND,
    ),
    DropIn(
        name="cluster-domain",
        title="operator with `--cluster-domain example.org`, in a cluster of that domain",
        job=replace(PI, cluster_domain="example.org"),
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
        only=_ONE_OF_EACH_KIND,
    ),
    DropIn(
        name="by-setvars",
        title='launcher `bash -c "source /opt/intel/oneapi/setvars.sh && mpirun -n 2 ..."`',
        job=_with_launcher(_SAMPLE, "bash", "-c", f"{_SETVARS} && {' '.join(_mpirun(2))}"),
        np=2,
        only=(Mpi.INTEL,),
    ),
    DropIn(
        name="fewer-than-slots",
        title="`mpirun -n 3` on 2 workers with 2 slots each",
        job=_with_launcher(PI, *_mpirun(3)),
        np=3,
        only=_ONE_OF_EACH_KIND,
    ),
)
"""In the order of the table."""

CELLS = tuple((mpi, case) for mpi in Mpi for case in DROP_INS if case.is_of(mpi))
"""Every case with every MPI that it is run with; an MPI's cases stand together."""
