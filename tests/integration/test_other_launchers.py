"""Launchers that are not mpirun, and an mpirun inside of a script: they run once, on the launcher.

The hosts listen on port 2222, which none of them would find without being told.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.farm import Farm, FarmOptions, Server
from tests.farm_launch import (
    ALL_STACKS,
    LAUNCH_LIMIT_S,
    agent_words,
    farm_of,
    launcher_environ,
    rank_program,
    ranks_in,
    spread_of,
)
from tests.stacks import require_stack
from tests.workers import require_program

pytestmark = pytest.mark.integration

SSH_PORT = 2222
STAND_IN = '''\
#!{python}
"""As horovodrun of horovod 0.28 does, runner/launch.py: parse, and ask every host for `true`."""
import argparse, json, subprocess, sys
parser = argparse.ArgumentParser()
parser.add_argument("-np", "--num-proc", dest="np", type=int)
parser.add_argument("-p", "--ssh-port", dest="port", type=int)
parser.add_argument("-i", "--ssh-identity-file", dest="key")
parser.add_argument("--network-interfaces", "--network-interface", dest="nics")
parser.add_argument("--hostfile", "-hostfile", dest="hostfile")
parser.add_argument("command", nargs=argparse.REMAINDER)
args = parser.parse_args()
told = vars(args) | {{"hosts": {{}}}}
prefix = "ssh -o PasswordAuthentication=no -o StrictHostKeyChecking=no"
for line in open(args.hostfile):
    host, slots = line.split()
    def run(what, options=""):
        ssh = f"{{prefix}} {{options}} {{host}} -p {{args.port}} -i {{args.key}} {{what}}"
        return subprocess.run(ssh, shell=True, capture_output=True, text=True)
    asked = run("true")
    config = dict(word.split(None, 1) for word in run("", "-G").stdout.splitlines() if " " in word)
    told["hosts"][host] = [
        slots, asked.returncode, asked.stderr, run("hostname").stdout.strip(),
        config["stricthostkeychecking"], config["userknownhostsfile"],
    ]
print(json.dumps(told))
sys.exit(max(found[1] for found in told["hosts"].values()))
'''
"""The ssh line is horovod's own, word for word, with `true` as its command."""


@pytest.fixture(scope="module")
def farm() -> Iterator[Farm]:
    """Provide three workers that run the agent on a port of their own."""
    with farm_of(options=FarmOptions(server=Server.AGENT, ssh_port=SSH_PORT)) as running:
        yield running


def run_launcher(farm: Farm, mpirun: Path, *program: str) -> subprocess.CompletedProcess[str]:
    """Launch a program that is a launcher itself."""
    words = agent_words(farm, mpirun)
    return farm.launcher.run(*words, *program, environ=launcher_environ(), limit_s=LAUNCH_LIMIT_S)


def test_pdsh_reaches_the_hosts_by_the_jobs_ssh(farm: Farm) -> None:
    """It knows neither their port nor the key, and finds its ssh in PATH."""
    pdsh, mpirun = require_program("pdsh"), require_stack("openmpi4").mpirun
    names = ",".join(worker.name for worker in farm.workers[:2])

    ended = run_launcher(farm, mpirun, pdsh, "-S", "-w", names, "hostname")
    failed = run_launcher(farm, mpirun, pdsh, "-S", "-w", names, "exit 3")

    said = sorted(line.split(": ", 1)[1] for line in ended.stdout.splitlines())
    assert said == ["pi-worker-0", "pi-worker-1"], ended.stderr
    assert (ended.returncode, failed.returncode) == (0, 3), ended.stderr
    assert '"/usr/bin/pdsh" runs once, on the launcher' in ended.stderr


def test_horovodrun_is_told_the_job_and_asks_every_host(farm: Farm) -> None:
    """In its own words; its ssh gives up on host keys, and ours in front of PATH does not."""
    horovodrun = farm.root / "horovodrun"
    horovodrun.write_text(STAND_IN.format(python=sys.executable))
    horovodrun.chmod(0o755)

    ended = run_launcher(
        farm, require_stack("openmpi5").mpirun, str(horovodrun), "python", "train.py", "-p", "7"
    )

    assert ended.returncode == 0, ended.stdout + ended.stderr
    told = json.loads(ended.stdout)
    asked = ["slots=2", 0, "", "true", "/run/mpi-agent/known_hosts"]
    found = {host: [*rest[:3], *rest[4:]] for host, rest in told["hosts"].items()}
    assert found == {worker.name: asked for worker in farm.workers}
    assert [rest[3] for rest in told["hosts"].values()] == [w.short_name for w in farm.workers]
    assert (told["np"], told["port"], told["nics"]) == (6, SSH_PORT, "eth0")
    assert told["key"] == "/run/mpi-agent/job_key"
    assert told["command"] == ["python", "train.py", "-p", "7"]


@ALL_STACKS
def test_an_mpirun_in_a_script_spreads_over_the_hosts(farm: Farm, name: str) -> None:
    """It is told by variables alone: hosts, slots, port, key, and that root is meant."""
    mpi = require_stack(name)
    directory = Path(tempfile.mkdtemp(prefix="ranks-", dir=farm.root))
    program = rank_program(mpi, directory, "--meet")
    script = f'echo "$MPI_AGENT_SLOTS slots"; exec {mpi.mpirun} -n "$MPI_AGENT_NP" "$@"'

    ended = run_launcher(farm, mpi.mpirun, "bash", "-c", script, "script", *program)

    assert ended.returncode == 0, ended.stderr
    ranks = ranks_in(directory)
    assert ended.stdout.startswith("2 slots\n")
    assert [(rank.number, rank.host) for rank in ranks] == spread_of(farm), ended.stderr
    assert [rank.world["heard"] for rank in ranks] == [list(range(6))] * 6
