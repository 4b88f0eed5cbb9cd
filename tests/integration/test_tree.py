"""One worker dials another, as a daemon does that starts daemons."""

from __future__ import annotations

import asyncio
import shlex
import time
from pathlib import Path

import pytest

from mpi_agent.job.readiness import HostReadiness
from mpi_agent.wait.tree import why_no_tree
from tests.fault_matrix import terms_of
from tests.plain_sshd import running_sshd
from tests.workers import (
    JobKeys,
    RunningWorker,
    dial,
    free_address,
    make_job_keys,
    running_worker,
    write_ssh_config,
)
from tests.worlds import in_own_etc

pytestmark = pytest.mark.integration

DIALLING_FILES = ("ssh_config", "known_hosts", "job_key")
FIRST, SECOND = "pi-worker-0.pi.default.svc", "pi-worker-1.pi.default.svc"


def client_that_knows(root: Path, client: tuple[str, ...], **addresses: str) -> str:
    """Return a program that is an ssh client for whom these names resolve, as in a cluster."""
    hosts, program = root / "hosts", root / "client"
    names = {name.replace("_", "-"): address for name, address in addresses.items()}
    lines = (f"{address} {name}.pi.default.svc\n" for name, address in names.items())
    hosts.write_text("127.0.0.1 localhost\n" + "".join(lines))
    command = shlex.join((*in_own_etc(hosts=hosts), *client))
    program.write_text(f'#!/bin/sh\nexec {command} "$@"\n')
    program.chmod(0o755)
    return str(program)


def standing(worker: RunningWorker) -> HostReadiness:
    """Return a worker as the wait left it."""
    return HostReadiness(host=worker.name, is_ready=True, address=worker.address, port=worker.port)


def test_a_worker_dials_another_one_by_its_name(
    root: Path, keys: JobKeys, backend: str, client: tuple[str, ...]
) -> None:
    """As a daemon does that starts daemons: with host keys checked, and without a list of hosts."""
    with (
        running_worker(keys, root, "--sshd", backend, name=FIRST) as first,
        running_worker(
            keys, root, "--sshd", backend, "--ssh-port", str(first.port), name=SECOND
        ) as second,
    ):
        program = client_that_knows(root, client, pi_worker_1=second.address)
        config = write_ssh_config(keys, root, (first,))
        its_config = first.state / "ssh_config"
        command = f"{program} -F {its_config} {SECOND} 'echo $MPI_AGENT_WORKER_NAME'"

        ended = dial(("ssh",), config, FIRST, command)
        refusal = asyncio.run(
            why_no_tree(
                terms_of(keys, root),
                start=standing(first),
                to=SECOND,
                config_path=str(its_config),
                client=program,
            )
        )

    assert "StrictHostKeyChecking yes" in its_config.read_text()
    assert (ended.returncode, ended.stdout.decode().strip()) == (0, SECOND), ended.stderr
    assert refusal is None
    modes = {(first.state / name).stat().st_mode & 0o777 for name in DIALLING_FILES}
    assert modes == {0o600}


@pytest.mark.parametrize(
    ("config", "to", "why"),
    [
        ("none", SECOND, "Can't open user config file"),
        ("ssh_config", "pi-worker-7.pi.default.svc", "Could not resolve hostname"),
        ("ssh_config", "pi-worker-8.pi.default.svc", "Host key verification failed"),
    ],
    ids=["no configuration", "no name", "another job's host"],
)
def test_a_worker_that_cannot_dial_another_one_says_why(
    root: Path, keys: JobKeys, config: str, to: str, why: str
) -> None:
    """Mpirun would hang, or end without a word."""
    others = make_job_keys(root / "others")
    (others.directory / "authorized_keys").write_text(keys.public)
    with (
        running_worker(keys, root, "--sshd", "builtin", name=FIRST) as first,
        running_worker(
            others, root, "--sshd", "builtin", "--ssh-port", str(first.port), name="pi-worker-8"
        ) as stranger,
    ):
        refusal = asyncio.run(
            why_no_tree(
                terms_of(keys, root),
                start=standing(first),
                to=to,
                config_path=str(first.state / config),
                client=client_that_knows(root, ("ssh",), pi_worker_8=stranger.address),
            )
        )

    assert refusal is not None
    assert refusal.startswith(f'"{FIRST}" cannot dial "{to}": ')
    assert why in refusal


def test_an_errand_that_does_not_end_is_given_up(root: Path, keys: JobKeys) -> None:
    """A client that hangs; a host that is gone says so at once."""
    hangs = root / "hangs"
    hangs.write_text("#!/bin/sh\nexec sleep 5\n")
    hangs.chmod(0o755)
    address, port = free_address()
    gone = HostReadiness(host="w-1", is_ready=True, address=address, port=port)
    started_at_s = time.monotonic()
    with running_sshd(keys, root) as sshd:
        target = sshd.target("w-0")
        there = HostReadiness(host="w-0", address=target.address, port=target.port)
        refusals = [
            asyncio.run(
                why_no_tree(
                    terms_of(keys, root),
                    start=start,
                    to="w-2",
                    config_path="/none",
                    client=str(hangs),
                    limit_s=0.5,
                )
            )
            for start in (there, gone, HostReadiness(host="w-3"))
        ]

    assert time.monotonic() - started_at_s < 4.0
    assert refusals[0] == '"w-0" cannot dial "w-2": no end within 0.5 s'
    assert refusals[1] == '"w-1" cannot dial "w-2": Connection refused'
    assert refusals[2] == '"w-3" was not reached yet'
