"""A whole launch over many hosts that are ready: with the agent, and as jobs are launched today.

Every case has the operator's variables and the same program, one rank a host. A rank lives 0.7 s,
because Open MPI 5.0.11's mpirun now and then does not return after a program that ends at once.
"""

from __future__ import annotations

import statistics
import sys
from pathlib import Path

from benchmarks.farm import full_farm, write_hostfile
from benchmarks.measure import Cost, Record, Run, arguments, recording
from benchmarks.namespaces import JOB_KEY, ROOT, enter_own_namespaces, reap_orphans

AS_ROOT = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
RANK = ROOT / "rank"
_STACKS = {"openmpi4": Path("/usr/bin"), "openmpi5": Path(sys.executable).parent}
_LIMIT_S = 120.0


def write_rank_program() -> None:
    """Write the program that is launched: it tells where it is, and stays for 0.7 s."""
    RANK.write_text("#!/bin/sh\nhostname\nexec sleep 0.7\n")
    RANK.chmod(0o755)


def main() -> None:
    """Measure every case in turn, again and again; hung runs are counted, not timed."""
    parser = arguments(__doc__ or "", repeat=5)
    parser.add_argument("--hosts", type=int, default=64, help="number of hosts")
    parser.add_argument("--stacks", default="openmpi4,openmpi5", help="which Open MPI")
    given = parser.parse_args()
    enter_own_namespaces()
    write_rank_program()
    headings = ("stack", "hosts", "case", "median s", "best s", "worst s", "CPU s", "hung")
    with full_farm(given.hosts) as (launcher, workers), recording(given.json, *headings) as record:
        hostfile = write_hostfile(workers)
        for stack in given.stacks.split(","):
            cases = _cases(stack, given.agent, hostfile)
            for name in given.without:
                del cases[name]
            costs: dict[str, list[Cost]] = {name: [] for name in cases}
            variables = _operator_variables(stack, hostfile)
            for _ in range(given.repeat):
                for name, argv in cases.items():
                    cost = _launch((*launcher.entrance, *argv), variables, workers)
                    record.run(stack=stack, case=name, wall_s=cost.wall_s, code=cost.exit_code)
                    costs[name].append(cost)
            _tabulate(stack, len(workers), costs, record)


def _launch(argv: tuple[str, ...], variables: dict[str, str], workers: tuple[str, ...]) -> Cost:
    """Return the cost of one launch, which may have hung.

    Raises:
        CommandFailedError: it ended, but badly or without a rank on every worker.
    """
    run = Run(argv, variables)
    cost = run.finish(limit_s=_LIMIT_S)
    missing = {worker.partition(".")[0] for worker in workers} - set(run.output())
    if cost.exit_code is not None and (cost.exit_code != 0 or missing):
        raise run.failure(f"exit code {cost.exit_code}, no rank on {len(missing)} hosts")
    reap_orphans()
    return cost


def _tabulate(stack: str, hosts: int, costs: dict[str, list[Cost]], record: Record) -> None:
    medians_s = {}
    for name, every in costs.items():
        ended = [cost for cost in every if cost.exit_code == 0]
        hung = str(len(every) - len(ended))
        if not ended:
            record.row(stack, str(hosts), name, *("-",) * 4, hung)
            continue
        walls_s = [cost.wall_s for cost in ended]
        medians_s[name] = statistics.median(walls_s)
        times_s = (medians_s[name], min(walls_s), max(walls_s))
        cpu_s = statistics.median(cost.cpu_s for cost in ended)
        record.row(stack, str(hosts), name, *(f"{s:.2f}" for s in (*times_s, cpu_s)), hung)
    for name in medians_s:
        if name != "mpirun" and "mpirun" in medians_s:
            ratio = medians_s[name] / medians_s["mpirun"]
            record.verdict(f"{name} / mpirun, {stack}, {hosts} hosts", ratio)


def _cases(stack: str, agent: list[str], hostfile: Path) -> dict[str, tuple[str, ...]]:
    """Return the command lines; the agent waits for every host first.

    Open MPI 4 finds the hostfile in the operator's variable, which Open MPI 5 ignores.
    """
    hosts = () if stack == "openmpi4" else ("--hostfile", str(hostfile))
    launch = (*agent, "launch", "--ssh-key", str(JOB_KEY), "--hostfile", str(hostfile))
    return {
        "mpirun": ("mpirun", *hosts, str(RANK)),
        "mpi-agent launch": (*launch, "--", str(RANK)),
        "mpi-agent launch --ssh-kex default": (*launch, "--ssh-kex", "default", "--", str(RANK)),
    }


def _operator_variables(stack: str, hostfile: Path) -> dict[str, str]:
    """Return what mpi-operator sets on a launcher, and the stack in front of PATH."""
    return AS_ROOT | {
        "PATH": f"{_STACKS[stack]}:/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin",
        "OMPI_MCA_orte_keep_fqdn_hostnames": "true",
        "OMPI_MCA_orte_default_hostfile": str(hostfile),
        "OMPI_MCA_plm_rsh_args": "-o ConnectionAttempts=10",
        "OMPI_MCA_orte_set_default_slots": "1",
        "K_MPI_JOB_ROLE": "launcher",
    }


if __name__ == "__main__":
    main()
