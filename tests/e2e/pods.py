"""One pod of a job, seen from outside as kubelet and kubectl see it."""

from __future__ import annotations

import socket
import subprocess
import urllib.request

from tests.e2e.engine import Engine, EngineError, EngineTimeoutError
from tests.e2e.mpi_jobs import ExecProbe, Probe, TcpProbe

__all__ = ["Pod"]

_PROBE_LIMIT_S = 1.0
_PAGE_LIMIT_S = 5.0
_LAST_WORDS = 6000
# A proxy that this machine uses knows nothing of the pods' addresses.
_DIRECTLY = urllib.request.build_opener(urllib.request.ProxyHandler({}))


class Pod:
    """The main container of a pod, and what stands beside it.

    Attributes:
        sidecar: the container that shares this one's network; None without one.
    """

    def __init__(self, engine: Engine, name: str, hostname: str, beside: Pod | None = None) -> None:
        self._engine, self._beside = engine, beside
        self.name = name
        self.hostname = hostname
        self.sidecar: Pod | None = None

    @property
    def title(self) -> str:
        """How a person tells the container from the others."""
        return self.hostname if self._beside is None else f"the sidecar of {self.hostname}"

    @property
    def containers(self) -> tuple[Pod, ...]:
        """Everything in the pod, in the order in which it can be removed."""
        return (self,) if self.sidecar is None else (self.sidecar, self)

    def answers(self, probe: Probe | None) -> bool:
        """Return what a probe says; without one, whether the container runs.

        Source: Kubernetes documentation, "Configure Liveness, Readiness and Startup Probes":
        the command's exit code, a connection to the pod's address, a status from 200 to 399.
        """
        if probe is None:
            return self.is_running()
        if isinstance(probe, ExecProbe):
            return self.execute(*probe.command).returncode == 0
        try:
            if isinstance(probe, TcpProbe):
                socket.create_connection((self.address(), probe.port), _PROBE_LIMIT_S).close()
            else:
                self.page(probe.port, probe.path, limit_s=_PROBE_LIMIT_S)
        except OSError:
            return False
        return True

    def page(self, port: int, path: str, *, limit_s: float = _PAGE_LIMIT_S) -> str:
        """Return the text of a page that the pod serves.

        Raises:
            OSError: nobody serves it within the limit, or its status is none from 200 to 399.
        """
        address = f"http://{self.address()}:{port}{path}"
        with _DIRECTLY.open(address, timeout=limit_s) as answer:
            text: bytes = answer.read()
        return text.decode()

    def log(self, *, timestamps: bool = False) -> str:
        """Return what the pod has printed, on both streams."""
        ended = self._engine.ask("logs", *(("--timestamps",) if timestamps else ()), self.name)
        return ended.stdout + ended.stderr

    def last_words(self) -> str:
        """Return the end of the log, or why there is none: it is for a failure's message."""
        try:
            return self.log()[-_LAST_WORDS:]
        except EngineError as error:
            return str(error)

    def execute(self, *argv: str) -> subprocess.CompletedProcess[str]:
        """Run a command in the pod, as an exec probe does."""
        return self._engine.ask("exec", self.name, *argv)

    def address(self) -> str:
        """Return the pod's address on the job's network."""
        if self._beside is not None:
            return self._beside.address()
        one = "{{range .NetworkSettings.Networks}}{{.IPAddress}}{{end}}"
        return self._engine.do("inspect", f"--format={one}", self.name)

    def commands(self) -> tuple[str, ...]:
        """Return the command line of every process in the pod."""
        listed = self._engine.do("top", self.name, "args").splitlines()
        return tuple(listed[1:])

    def processes(self) -> tuple[tuple[int, str], ...]:
        """Return number, on this machine, and command line of each process that stays."""
        listed = self._engine.do("top", self.name, "hpid", "args").splitlines()
        pairs = (line.strip().partition(" ") for line in listed[1:])
        return tuple((int(pid), command.strip()) for pid, _, command in pairs if pid.isdigit())

    def is_ready(self) -> bool:
        """Return what the readiness probe says."""
        return self.execute("mpi-agent", "ready").returncode == 0

    def terminate(self) -> None:
        """Send the pod TERM, as kubelet does at the begin of an eviction."""
        self.signal("TERM")

    def signal(self, name: str) -> None:
        """Send a signal to the pod's first process."""
        self._engine.do("kill", f"--signal={name}", self.name)

    def kill(self) -> None:
        """End the pod at once, without a word to it."""
        self._engine.do("kill", "--signal=KILL", self.name)
        self._engine.do("wait", self.name, limit_s=30)

    def pause(self) -> None:
        """Freeze every process of the pod; its connections stay open."""
        self._engine.do("pause", self.name)

    def is_paused(self) -> bool:
        """Return whether the pod is frozen."""
        return self._engine.do("inspect", "--format={{.State.Paused}}", self.name) == "true"

    def unpause(self) -> None:
        """Let the pod run on."""
        self._engine.do("unpause", self.name)

    def fall_silent(self) -> None:
        """Lose all that comes from and goes to the network, without a word to either side."""
        for chain, side in (("INPUT", "-i"), ("OUTPUT", "-o")):
            self._in_network("iptables", "-A", chain, side, "eth0", "-j", "DROP")

    def speak_again(self) -> None:
        """Lose nothing any more."""
        self._in_network("iptables", "-F")

    def _in_network(self, *argv: str) -> None:
        pid = self._engine.do("inspect", "--format={{.State.Pid}}", self.name)
        subprocess.run(["nsenter", "-t", pid, "-n", *argv], check=True, capture_output=True)

    def cut_off(self, network: str) -> None:
        """Take the pod off the network; it and what it runs live on."""
        self._engine.do("network", "disconnect", network, self.name)

    def ended_at(self) -> float:
        """Return when the pod ended, in seconds of the machine's clock."""
        stamp = self._engine.do(
            "inspect",
            "--format={{.State.FinishedAt.Unix}} {{.State.FinishedAt.Nanosecond}}",
            self.name,
        )
        seconds, nanoseconds = stamp.split()
        return int(seconds) + int(nanoseconds) / 1e9

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
        except EngineTimeoutError:
            raise TimeoutError(f"{self.hostname} has not ended within {limit_s:.0f} s") from None
