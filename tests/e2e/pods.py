"""One container of a job, seen from outside as kubelet and kubectl see it."""

from __future__ import annotations

import subprocess

from tests.e2e.engine import Engine

__all__ = ["Pod"]


class Pod:
    """One container of the job."""

    def __init__(self, engine: Engine, name: str, hostname: str) -> None:
        self._engine = engine
        self.name = name
        self.hostname = hostname

    def log(self, *, timestamps: bool = False) -> str:
        """Return what the pod has printed, on both streams."""
        ended = self._engine.ask("logs", *(("--timestamps",) if timestamps else ()), self.name)
        return ended.stdout + ended.stderr

    def execute(self, *argv: str) -> subprocess.CompletedProcess[str]:
        """Run a command in the pod, as an exec probe does."""
        return self._engine.ask("exec", self.name, *argv)

    def commands(self) -> tuple[str, ...]:
        """Return the command line of every process in the pod."""
        listed = self._engine.do("top", self.name, "args").splitlines()
        return tuple(listed[1:])

    def is_ready(self) -> bool:
        """Return what the readiness probe says."""
        return self.execute("mpi-agent", "ready").returncode == 0

    def terminate(self) -> None:
        """Send the pod TERM, as kubelet does at the begin of an eviction."""
        self._engine.do("kill", "--signal=TERM", self.name)

    def kill(self) -> None:
        """End the pod at once, without a word to it."""
        self._engine.do("kill", "--signal=KILL", self.name)
        self._engine.do("wait", self.name, limit_s=30)

    def cut_off(self, network: str) -> None:
        """Take the pod off the network; it and what it runs live on."""
        self._engine.do("network", "disconnect", network, self.name)

    def is_running(self) -> bool:
        """Return whether the pod's first process lives."""
        return self._engine.do("inspect", "--format={{.State.Running}}", self.name) == "true"

    def wait(self, limit_s: float) -> int:
        """Wait for the end of the pod and return its exit code.

        Raises:
            TimeoutError: it had not ended at the limit.
        """
        try:
            return int(self._engine.do("wait", self.name, limit_s=limit_s))
        except subprocess.TimeoutExpired:
            raise TimeoutError(f"{self.hostname} has not ended within {limit_s:.0f} s") from None
