"""A scrubbed environment for every test: what the developer's shell has set must not matter."""

from __future__ import annotations

import os

import pytest

_SCRUBBED = ("MPI_AGENT_", "OMPI_", "PRTE_", "PMIX_", "SLURM_", "K_MPI_", "HYDRA_", "I_MPI_")


@pytest.fixture(autouse=True)
def scrubbed_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Remove every variable that the agent or an MPI would read."""
    for name in tuple(os.environ):
        if name.startswith(_SCRUBBED):
            monkeypatch.delenv(name)
