"""What a healthy program prints, overcomes and goes on after decides nothing.

Such programs use ssh, start others, follow the log of another job, or print a launcher's sentence.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from mpi_agent.explain.ending import conclude
from mpi_agent.explain.evidence import Evidence
from mpi_agent.explain.matcher import find_symptoms
from mpi_agent.job.endings import ProcessExit, Verdict
from mpi_agent.job.output import Output, OutputLine, Stream
from mpi_agent.job.stacks import Implementation
from tests.recorded import recorded

OPEN_MPI, MPICH, INTEL = Implementation.OPEN_MPI, Implementation.MPICH, Implementation.INTEL_MPI
HOSTS = tuple(f"pi-worker-{number}.pi.default.svc" for number in (0, 1, 2))


def said(*texts: str, stream: Stream = Stream.STDERR) -> Output:
    """Return an output of these lines."""
    lines = (OutputLine(text=t, stream=stream, number=n) for n, t in enumerate(texts, 1))
    return Output(lines=tuple(lines))


def printed(name: str, stream: Stream) -> Output:
    """Return a recorded output as the program's own, of a job whose hosts have other names."""
    lines = recorded(name).output.lines
    texts = (line.text.replace("pi-worker", "old-worker").replace("w1", "x1") for line in lines)
    return said(*texts, stream=stream)


def evidence(
    code: int,
    output: Output,
    *,
    mpi: Implementation = OPEN_MPI,
    seconds: float = 10,
    had_ranks: bool = True,
) -> Evidence:
    """Return what is known of `train` on those hosts, which ended with a code."""
    return Evidence(
        process_exit=ProcessExit(
            pid=1, code=code, signal=None, started_at_s=5, ended_at_s=5 + seconds
        ),
        program='"train"',
        implementation=mpi,
        np=3,
        output=output,
        findings=find_symptoms(output),
        hosts=HOSTS,
        ranks_were_seen=had_ranks,
    )


HEALTHY = {
    "a connection of its own was closed": said(
        "fetching", "Connection to github.com closed by remote host.", "trying again", "done"
    ),
    "a server of its own went silent": said("Timeout, server db.example.org not responding."),
    "a name like a host's, elsewhere": said(
        "Connection to pi-worker-1.other.default.svc closed by remote host."
    ),
    "a host of the job, closed by itself": said(
        "Connection to pi-worker-1.pi.default.svc closed by remote host.", "copied again"
    ),
    "a repository refused": said("ssh: connect to host gitlab port 22: Connection refused"),
    "a key refused": said("git@gitlab: Permission denied (publickey)."),
    "a name unknown": said("ssh: Could not resolve hostname gitlab: Name or service not known"),
    "no batch system": said("sh: 1: srun: not found", "falling back"),
    "arguments": said("/bin/rm: Argument list too long", "removing one by one"),
    "Hydra of another job": said(
        "[mpiexec@old] Error: Downstream from host old-worker-1 exited abnormally"
    ),
    "Hydra of this job": said(
        f"[mpiexec@pi-launcher] Error: Downstream from host {HOSTS[1]} exited abnormally"
    ),
    "a proxy lost": said("[mpiexec@old] control_cb (pm/pmiserv.c:1): assert (!closed) failed"),
    **{
        f"the log of {name} on {stream.value}": printed(name, stream)
        for stream in Stream
        for name in (
            "ompi4-kill-worker",
            "ompi4-kill-host",
            "ompi4-ssh-refused",
            "ompi4-exe-missing-everywhere",
            "ompi5-kill9-daemon",
            "ompi5-kill-host",
            "ompi5-ssh-refused",
            "mpich5-kill-host",
            "mpich4-kill-worker",
            "impi-kill-worker",
            "impi-ssh-refused",
        )
    },
}


@pytest.mark.parametrize("mpi", [OPEN_MPI, MPICH, INTEL])
@pytest.mark.parametrize("case", HEALTHY)
def test_a_healthy_program_succeeds_whatever_it_printed(case: str, mpi: Implementation) -> None:
    """With nothing found."""
    ending = conclude(evidence(0, HEALTHY[case], mpi=mpi))

    assert (ending.verdict, ending.exit_code, ending.findings) == (Verdict.SUCCEEDED, 0, ())


@pytest.mark.parametrize("mpi", [OPEN_MPI, MPICH, INTEL])
@pytest.mark.parametrize("case", HEALTHY)
def test_a_program_that_fails_later_keeps_its_code_whatever_it_printed_before(
    case: str, mpi: Implementation
) -> None:
    """7 is no launcher's; and nothing that concerns a start or other hosts is its cause."""
    known = evidence(7, HEALTHY[case], mpi=mpi)

    ending = conclude(known)

    assert (ending.verdict, ending.exit_code) == (Verdict.PROGRAM_FAILED, 7), ending.summary
    assert not ending.losses
    assert Verdict.LAUNCH_FAILED not in {f.symptom.verdict for f in ending.findings}
    assert all(known.is_of_job(f.host) for f in ending.findings if "ssh" in f.symptom.stacks)


@pytest.mark.parametrize("mpi", [OPEN_MPI, MPICH, INTEL])
@pytest.mark.parametrize("case", HEALTHY)
def test_a_single_rank_that_raises_keeps_its_code_though_no_launcher_names_it(
    case: str, mpi: Implementation
) -> None:
    """1 is what Python ends with, and Open MPI as well."""
    ending = conclude(replace(evidence(1, HEALTHY[case], mpi=mpi), np=1))

    assert (ending.verdict, ending.exit_code) == (Verdict.PROGRAM_FAILED, 1), ending.summary


@pytest.mark.parametrize("code", [1, 7, 42])
@pytest.mark.parametrize("case", ["a repository refused", "no batch system", "arguments"])
def test_a_program_that_ran_for_an_hour_has_started_though_nobody_saw_its_ranks(
    case: str, code: int
) -> None:
    """On hosts without an agent that were too busy to be asked, say."""
    ending = conclude(evidence(code, HEALTHY[case], seconds=3600, had_ranks=False))

    assert (ending.verdict, ending.exit_code) == (Verdict.PROGRAM_FAILED, code)
    assert ending.summary == f'"train" failed with exit code {code} after 1 h 0 min'


@pytest.mark.parametrize("code", [3, 7, 42])
@pytest.mark.parametrize("case", ["no batch system", "arguments"])
def test_a_code_that_no_launcher_has_is_the_programs_though_it_was_too_short_to_be_seen(
    case: str, code: int
) -> None:
    """So it is no start that failed."""
    ending = conclude(evidence(code, HEALTHY[case], seconds=0.2, had_ranks=False))

    assert (ending.verdict, ending.exit_code) == (Verdict.PROGRAM_FAILED, code)
    assert ending.findings == ()


def test_a_start_that_failed_is_no_cause_of_a_rank_that_is_known_to_have_failed() -> None:
    """Though nobody saw ranks, and mpirun's code may be its own."""
    named = recorded("ompi5-rank-exit7").output
    output = Output(lines=(*HEALTHY["no batch system"].lines, *named.lines))
    known = evidence(7, output, seconds=1, had_ranks=False)

    assert any(f.symptom.verdict is Verdict.LAUNCH_FAILED for f in known.findings)
    assert "failed with exit code 7 of rank 3" in conclude(known).summary
    assert Verdict.LAUNCH_FAILED not in {f.symptom.verdict for f in conclude(known).findings}


@pytest.mark.parametrize("name", ["PI-worker-1", "pi-worker-1.pi", f"{HOSTS[1]}.", HOSTS[1]])
def test_a_connection_to_a_host_of_the_job_counts_in_short_and_in_full(name: str) -> None:
    """Where mpirun itself ended for it."""
    closed = said(f"Connection to {name} closed by remote host.")

    assert conclude(evidence(255, closed)).verdict is Verdict.WORKERS_LOST
    assert conclude(replace(evidence(255, closed), hosts=("w-7",))).losses == ()


def test_a_host_that_is_dialled_by_its_address_is_known_by_it() -> None:
    """As ssh then names it."""
    closed = said("Connection to 10.1.2.3 closed by remote host.")
    known = evidence(255, closed)

    assert not conclude(known).losses
    assert conclude(replace(known, hosts=(*HOSTS, "10.1.2.3"))).exit_code == 201


@pytest.mark.parametrize("code", [126, 127])
def test_a_shell_that_ran_and_found_no_program_says_so(code: int) -> None:
    """The rank was the shell."""
    output = said("bash: line 1: traim: command not found")

    ending = conclude(evidence(code, output))

    assert ending.verdict is Verdict.PROGRAM_FAILED
    assert "traim" in ending.summary
