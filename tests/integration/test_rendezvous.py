"""What ranks of PyTorch, NCCL and Horovod really see, over three hosts and under every MPI.

They play PyTorch's env:// rendezvous, which needs no GPU and no PyTorch. The workers' network card
has another name than the launcher's.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections import ChainMap
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from tests.farm import Farm, FarmOptions, Server
from tests.farm_launch import (
    ALL_STACKS,
    LAUNCH_LIMIT_S,
    Rank,
    agent_words,
    farm_of,
    launcher_environ,
    ranks_in,
    spread_of,
)
from tests.framework_examples import FRAMEWORKS, framework_example
from tests.stacks import require_stack
from tests.workers import REPOSITORY

pytestmark = pytest.mark.integration

PROGRAM = REPOSITORY / "tests" / "farm_rendezvous.py"
POD = {
    "HOSTNAME": "of-the-launcher",
    "KUBERNETES_SERVICE_HOST": "of-the-launcher",
    "POD_NAME": "of-the-launcher",
    "NVIDIA_VISIBLE_DEVICES": "",
    "CUDA_VISIBLE_DEVICES": "",
}
DEVICES = "GPU-of-this-worker"
STAND_IN = '''\
#!{python}
"""Starts ranks as `horovodrun --gloo` of horovod 0.28 does, runner/gloo_run.py: one ssh a rank."""
import argparse, os, re, shlex, subprocess, sys
parser = argparse.ArgumentParser()
parser.add_argument("-np", type=int)
parser.add_argument("-p", type=int)
parser.add_argument("-i")
parser.add_argument("--network-interfaces")
parser.add_argument("--hostfile")
parser.add_argument("--gloo", action="store_true")
parser.add_argument("command", nargs=argparse.REMAINDER)
args = parser.parse_args()
stay = re.compile("BASH_FUNC_.*|OLDPWD|.*CUDA_VISIBLE_DEVICES")
given = " ".join(
    f"{{k}}={{shlex.quote(v)}}" for k, v in os.environ.items() if not stay.match(k)
)
slots = [(h, i) for h, n in map(str.split, open(args.hostfile)) for i in range(int(n[6:]))]
ranks = []
for rank, (host, local) in enumerate(slots[: args.np]):
    own = f"HOROVOD_RANK={{rank}} RANK={{rank}} LOCAL_RANK={{local}}"
    line = shlex.quote(f"cd / ; {{own}} {{given}} {{shlex.join(args.command)}}")
    ssh = f"ssh -o PasswordAuthentication=no -o StrictHostKeyChecking=no {{host}} -p {{args.p}}"
    ranks.append(subprocess.Popen(f"{{ssh}} -i {{args.i}} {{line}}", shell=True))
sys.exit(max(rank.wait() for rank in ranks))
'''


@pytest.fixture(scope="module")
def farm() -> Iterator[Farm]:
    """Provide three workers that run the agent, each with devices of its own."""
    own = {"NVIDIA_VISIBLE_DEVICES": DEVICES, "CUDA_VISIBLE_DEVICES": DEVICES}
    options = FarmOptions(
        server=Server.AGENT,
        worker_interface="ens5",
        extra_interface="docker0",
        session_variables=own,
    )
    with farm_of(options=options) as running:
        yield running


def run_ranks(
    farm: Farm, mpirun: Path, environ: Mapping[str, str], *words: str
) -> tuple[subprocess.CompletedProcess[str], tuple[Rank, ...]]:
    """Launch the rendezvous; return how it ended, and its ranks."""
    directory = Path(tempfile.mkdtemp(prefix="ranks-", dir=farm.root))
    program = (*words, sys.executable, str(PROGRAM), str(directory))
    ended = farm.launcher.run(
        *agent_words(farm, mpirun),
        *program,
        environ=launcher_environ(**environ),
        limit_s=LAUNCH_LIMIT_S,
    )
    return ended, ranks_in(directory)


def assert_all_met(
    farm: Farm, ended: subprocess.CompletedProcess[str], ranks: tuple[Rank, ...]
) -> None:
    """Assert that all six ranks met, two on each host in the order of the hosts."""
    places = spread_of(farm)
    met = [f"{rank} {rank % 2} {host}" for rank, host in places]
    assert ended.returncode == 0, ended.stderr
    assert [(rank.number, rank.host) for rank in ranks] == places, ended.stderr
    assert [rank.world["met"] for rank in ranks] == [met] * 6


def assert_seen(ranks: tuple[Rank, ...], expected: Mapping[str, str | None]) -> None:
    """Assert what every rank has in its variables."""
    wanted = {n: None if value is None else value.encode() for n, value in expected.items()}
    for rank in ranks:
        assert {name: rank.variable(name) for name in wanted} == wanted


@ALL_STACKS
def test_ranks_meet_with_the_variables_of_the_job_and_those_of_their_own_workers(
    farm: Farm, name: str
) -> None:
    """All that the manifests set is from the launcher; devices and network card from each worker.

    RANK and LOCAL_RANK are as ddp.py of the examples takes them from each MPI.
    """
    environ = dict(ChainMap(*(framework_example(example).environ for example in FRAMEWORKS)))

    ended, ranks = run_ranks(farm, require_stack(name).mpirun, {**POD, **environ})

    assert_all_met(farm, ended, ranks)
    assert_seen(ranks, environ)
    assert_seen(ranks, {"NCCL_SOCKET_IFNAME": "ens5", "GLOO_SOCKET_IFNAME": "ens5"})
    assert_seen(ranks, {"NVIDIA_VISIBLE_DEVICES": DEVICES, "CUDA_VISIBLE_DEVICES": DEVICES})
    assert_seen(ranks, {"HOSTNAME": None, "KUBERNETES_SERVICE_HOST": None, "POD_NAME": None})


def test_what_horovodrun_starts_sees_the_job_and_not_the_launchers_pod(farm: Farm) -> None:
    """Though it hands over all that it has."""
    horovodrun = farm.root / "horovodrun"
    horovodrun.write_text(STAND_IN.format(python=sys.executable))
    horovodrun.chmod(0o755)
    environ = framework_example("horovod").environ

    ended, ranks = run_ranks(
        farm, require_stack("openmpi4").mpirun, {**POD, **environ}, str(horovodrun), "--gloo"
    )

    assert_all_met(farm, ended, ranks)
    assert_seen(ranks, environ)
    assert_seen(ranks, {"NVIDIA_VISIBLE_DEVICES": DEVICES, "CUDA_VISIBLE_DEVICES": DEVICES})
    assert_seen(ranks, {"HOSTNAME": None, "KUBERNETES_SERVICE_HOST": None, "POD_NAME": None})
    assert_seen(ranks, {"NCCL_SOCKET_IFNAME": "ens5"})
