"""A run's id comes with every ssh of the job, beside what the user's own configuration sends."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from mpi_agent.ssh.trust import render_ssh_config
from tests.fault_matrix import terms_of
from tests.plain_sshd import SKIPS_BASHRC, running_sshd
from tests.workers import JobKeys, dial

pytestmark = pytest.mark.integration

RUN_ID = "0123456789ab"


def test_the_id_is_sent_beside_what_the_users_own_configuration_sends(
    keys: JobKeys, root: Path, client: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Lines of SendEnv add up, and SetEnv is untouched."""
    own = root / "own_config"
    own.write_text("Host *\n  SendEnv USERS_* LC_ALL\n  SetEnv USERS_OWN=set\n")
    for name, value in {"MPI_AGENT_RUN_ID": RUN_ID, "USERS_A": "a", "OTHER": "other"}.items():
        monkeypatch.setenv(name, value)

    with running_sshd(keys, root, "AcceptEnv *", environ=SKIPS_BASHRC) as sshd:
        config = root / "ssh_config"
        terms = replace(terms_of(keys, root), own_config_path=str(own))
        config.write_text(render_ssh_config(terms, sshd.targets))
        ended = dial(client, config, sshd.targets[0].name, "env")

    assert ended.returncode == 0, ended.stderr
    found = variables_in(ended.stdout)
    assert found["MPI_AGENT_RUN_ID"] == RUN_ID
    assert (found["USERS_A"], found["USERS_OWN"]) == ("a", "set")
    assert "OTHER" not in found


def test_nothing_is_sent_where_there_is_no_run(
    keys: JobKeys, root: Path, client: tuple[str, ...]
) -> None:
    """Somebody who tries the configuration by hand starts nothing that belongs to a run."""
    with running_sshd(keys, root, "AcceptEnv *") as sshd:
        config = root / "ssh_config"
        config.write_text(render_ssh_config(terms_of(keys, root), sshd.targets))
        ended = dial(client, config, sshd.targets[0].name, "env")

    assert ended.returncode == 0, ended.stderr
    assert "MPI_AGENT_RUN_ID" not in variables_in(ended.stdout)


def variables_in(printed: bytes) -> Mapping[str, str]:
    """Return what `env` printed."""
    lines = printed.decode().splitlines()
    return dict(line.split("=", 1) for line in lines if "=" in line)
