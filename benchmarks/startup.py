"""What the agent itself adds when there is nothing to wait for.

Its start beside that of Python; and `launch --exec` on one ready host beside the plain mpirun
with the same hostfile and the same ssh configuration, which the agent's run has left.
"""

from __future__ import annotations

import statistics
import sys

from benchmarks.farm import full_farm, write_hostfile
from benchmarks.launching import AS_ROOT, RANK, write_rank_program
from benchmarks.measure import Run, arguments, recording
from benchmarks.namespaces import JOB_KEY, ROOT, enter_own_namespaces

_STATE = ROOT / "state"
_LIMIT_S = 30.0


def main() -> None:
    """Measure each pair in turn, again and again."""
    parser = arguments(__doc__ or "", repeat=20)
    parser.add_argument("--exec", default="--exec", help="option with which launch runs mpirun")
    given = parser.parse_args()
    enter_own_namespaces()
    write_rank_program()
    with full_farm(1) as (launcher, workers), recording(given.json, "case", "median s") as record:
        access = f"--ssh-key {JOB_KEY} --state-dir {_STATE}".split()
        hostfile = write_hostfile(workers)
        launch = (*given.agent, "launch", *given.exec.split(), *access, "--hostfile", str(hostfile))
        terms = ("--prtemca", "plm_ssh_args", f"-F {_STATE}/ssh_config")
        cases = {
            "python -c pass": (sys.executable, "-c", "pass"),
            "mpi-agent --version": (*given.agent, "--version"),
            "mpi-agent launch": (*launcher.entrance, *launch, "--", str(RANK)),
            "mpirun": (
                *(*launcher.entrance, "mpirun", "--hostfile", str(_STATE / "hostfile")),
                *(*terms, "--bind-to", "none", str(RANK)),
            ),
        }
        walls_s: dict[str, list[float]] = {name: [] for name in cases}
        for _ in range(given.repeat):
            for name, argv in cases.items():
                cost = Run(argv, AS_ROOT).finish(limit_s=_LIMIT_S)
                record.run(case=name, wall_s=cost.wall_s, exit_code=cost.exit_code)
                if cost.exit_code == 0:
                    walls_s[name].append(cost.wall_s)
        medians_s = {name: statistics.median(values) for name, values in walls_s.items()}
        for name, median_s in medians_s.items():
            record.row(name, f"{median_s:.3f}")
        python, version, launched, plain = medians_s.values()
        record.verdict("mpi-agent --version / python -c pass", version / python)
        record.verdict("mpi-agent launch - mpirun, s", launched - plain)
        record.verdict("mpi-agent launch / mpirun", launched / plain)


if __name__ == "__main__":
    main()
