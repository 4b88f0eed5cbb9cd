"""The key exchange that our ssh configuration prefers, and who can read it."""

from __future__ import annotations

import asyncio
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from mpi_agent.command_settings import JobSettings
from mpi_agent.job.readiness import HostReadiness
from mpi_agent.job_access import JobAccess
from mpi_agent.setting_words import Backend, KeyExchange
from mpi_agent.ssh.installed import image_configuration
from mpi_agent.ssh.trust import cheap_key_exchanges, render_ssh_config
from tests.fakes import EventRecorder
from tests.fault_matrix import terms_of
from tests.workers import (
    BUILTIN_CLIENT,
    JobKeys,
    dial,
    require_program,
    running_worker,
)

pytestmark = pytest.mark.integration

NEWEST = ("mlkem768x25519-sha256", "curve25519-sha256")


def test_the_image_says_what_it_allows() -> None:
    """Without a configuration of its own: OpenSSH's defaults, and no port."""
    require_program("ssh")

    configuration = image_configuration("w-0.pi")

    assert "curve25519-sha256" in configuration.key_exchanges
    assert cheap_key_exchanges(configuration.key_exchanges)[-1] == "curve25519-sha256"


def test_openssh_exchanges_keys_by_the_preferred_one(root: Path, keys: JobKeys) -> None:
    """It stands at the head of the client's own list, and our server takes it."""
    require_program("ssh")
    allowed = image_configuration("w-0").key_exchanges
    terms = replace(terms_of(keys, root), key_exchanges=cheap_key_exchanges(allowed))
    with running_worker(keys, root) as worker:
        config = root / "ssh_config"
        config.write_text(render_ssh_config(terms, (worker.target,)))
        ended = dial(("ssh", "-v", "-o", "LogLevel=DEBUG1"), config, worker.name, "true")

    assert ended.returncode == 0, ended.stderr
    assert f"kex: algorithm: {terms.key_exchanges[0]}".encode() in ended.stderr
    listed = subprocess.run(
        (str(shutil.which("ssh")), "-F", str(config), "-G", "w-0"), capture_output=True, check=True
    ).stdout.decode()
    assert set(allowed) == set(_values(listed, "kexalgorithms"))


def test_the_builtin_client_reads_the_same_file(root: Path, keys: JobKeys) -> None:
    """Whichever key exchanges stand in it: mpirun on another host may find the other client."""
    terms = replace(terms_of(keys, root), key_exchanges=NEWEST)
    with running_worker(keys, root, "--sshd", "builtin") as worker:
        config = root / "ssh_config"
        config.write_text(render_ssh_config(terms, (worker.target,)))
        ended = dial(BUILTIN_CLIENT, config, worker.name, "exit 7")

    assert ended.returncode == 7, ended.stderr


@pytest.mark.parametrize(
    ("client", "wanted", "is_there"),
    [
        (Backend.OPENSSH, KeyExchange.AUTO, True),
        (Backend.OPENSSH, KeyExchange.DEFAULT, False),
        (Backend.BUILTIN, KeyExchange.AUTO, False),
    ],
)
def test_the_line_is_written_for_openssh_unless_it_is_unwanted(
    root: Path, client: Backend, wanted: KeyExchange, is_there: bool
) -> None:
    """The built-in client has a choice of its own, and needs no answer of ssh."""
    require_program("ssh")
    settings = JobSettings(mpi="auto", timeout_s=None, parallel=1, state_dir=str(root / "state"))
    access = JobAccess(settings, emit=EventRecorder(), client=client, key_exchange=wanted)

    asyncio.run(access.ask_image("w-0"))
    access.write_ssh_config((HostReadiness(host="w-0", port=2222),))

    assert ("KexAlgorithms" in access.state.file("ssh_config").read_text()) is is_there


def _values(text: str, name: str) -> list[str]:
    line = next(line for line in text.splitlines() if line.startswith(f"{name} "))
    return line.split(" ", 1)[1].split(",")
