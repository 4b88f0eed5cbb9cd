"""Finds a way to run containers on this machine, and runs them.

A machine with a healthy podman needs no help. The work-arounds are for the machines that CI gives
us (nested, old cgroups, no CAP_SYS_RESOURCE); they go to a private containers.conf and a private
mount namespace, so nothing of the machine itself is changed.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from tests.e2e.commands import run_within

__all__ = [
    "Engine",
    "EngineError",
    "EngineTimeoutError",
    "NoEngineError",
    "find_engine",
    "require_podman",
]

COMMAND_LIMIT_S = 600.0
BUILD_LIMIT_S = 1800.0
_LAST_LINES = 30

# Kubernetes writes a pod's /etc/hosts from nothing; podman would copy the machine's.
_SETTINGS = """[containers]
base_hosts_file = "none"
log_driver = "k8s-file"
"""
_MODEST_SETTINGS = (
    _SETTINGS
    + """default_ulimits = []
[engine]
cgroup_manager = "cgroupfs"
events_logger = "file"
runtime = "crun"
"""
)
_HIDE_CGROUP2 = "umount /sys/fs/cgroup/unified && echo hidden && exec cat"


class EngineError(Exception):
    """An engine's command failed; the text holds the command and its last words."""


class EngineTimeoutError(EngineError, TimeoutError):
    """A command was not over at its limit, and has been ended."""


class NoEngineError(Exception):
    """No way to run containers works here; the text says what each of them answered."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Way:
    """One way to run containers, from the plainest to the most helped."""

    title: str
    settings: str
    run_options: tuple[str, ...] = ()
    hides_cgroup2: bool = False


_HOST_LIMITS = ("--ulimit", "host")
_WAYS = (
    _Way(title="plain podman", settings=_SETTINGS),
    _Way(title="with the machine's limits", settings=_MODEST_SETTINGS, run_options=_HOST_LIMITS),
    _Way(
        title="without the second cgroup tree of a hybrid machine",
        settings=_MODEST_SETTINGS,
        run_options=_HOST_LIMITS,
        hides_cgroup2=True,
    ),
    _Way(
        title="without cgroups",
        settings=_MODEST_SETTINGS,
        run_options=(*_HOST_LIMITS, "--cgroups=disabled"),
        hides_cgroup2=True,
    ),
)


class _PrivateMounts:
    """A mount namespace without /sys/fs/cgroup/unified, alive until it is closed.

    All commands must share one: what podman mounts for a container is seen only in there.
    """

    def __init__(self) -> None:
        self._holder = subprocess.Popen(
            ["unshare", "-m", "sh", "-c", _HIDE_CGROUP2],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        assert self._holder.stdout is not None
        self.holds = self._holder.stdout.readline() == b"hidden\n"
        self.prefix = ("nsenter", "-t", str(self._holder.pid), "-m")

    def close(self) -> None:
        """Let the holder end: it lives for as long as its input is open."""
        self._holder.communicate(timeout=10)


class Engine:
    """A podman that works here."""

    def __init__(self, way: _Way, directory: Path) -> None:
        self.title = way.title
        self._run_options = way.run_options
        self._mounts = _PrivateMounts() if way.hides_cgroup2 else None
        if self._mounts is not None and not self._mounts.holds:
            self.close()
            raise EngineError("there is no second cgroup tree to hide, or no right to hide it")
        settings = directory / "containers.conf"
        settings.write_text(way.settings)
        self._environment = {**os.environ, "CONTAINERS_CONF": str(settings)}

    @property
    def keeps_limits(self) -> bool:
        """Whether containers are held to the memory that they are given."""
        return "--cgroups=disabled" not in self._run_options

    def ask(
        self, *arguments: str, limit_s: float = COMMAND_LIMIT_S
    ) -> subprocess.CompletedProcess[str]:
        """Return how `podman ARGUMENTS` ended, whatever that was.

        Raises:
            EngineTimeoutError: it did not end within the limit by itself.
        """
        prefix = self._mounts.prefix if self._mounts is not None else ()
        argv = (*prefix, "podman", *arguments)
        try:
            return run_within(limit_s, *argv, environment=self._environment)
        except TimeoutError as error:
            raise EngineTimeoutError(str(error)) from None

    def do(self, *arguments: str, limit_s: float = COMMAND_LIMIT_S) -> str:
        """Return what `podman ARGUMENTS` printed.

        Raises:
            EngineError: it failed.
        """
        ended = self.ask(*arguments, limit_s=limit_s)
        if ended.returncode != 0:
            words = _last_words(ended.stdout + ended.stderr)
            raise EngineError(f"podman {' '.join(arguments)}: {ended.returncode}\n{words}")
        return ended.stdout.strip()

    def start(self, *arguments: str) -> str:
        """Start a container in the background, with what this way needs; return its id."""
        return self.do("run", "--detach", *self._run_options, *arguments)

    def output_of(self, image: str, *argv: str, options: tuple[str, ...] = ()) -> str:
        """Return what a command prints in a container of its own, which ends at the limit.

        Args:
            options: what else the engine is told, in its own words.
        """
        limit = f"--timeout={COMMAND_LIMIT_S:.0f}"
        return self.do("run", "--rm", limit, *self._run_options, *options, image, *argv)

    def build(
        self,
        context: Path,
        dockerfile: Path,
        tag: str,
        *,
        target: str = "",
        **build_arguments: str,
    ) -> str:
        """Build an image and return its tag.

        The isolation is buildah's plainest: it works where no container runs and is no slower.

        Args:
            target: the stage to build; empty for the last.
        """
        options = [f"--build-arg={name}={value}" for name, value in build_arguments.items()]
        if target:
            options.append(f"--target={target}")
        command = ("build", "--isolation=chroot", "--layers", "--quiet", f"--tag={tag}")
        self.do(*(*command, *options, f"--file={dockerfile}", str(context)), limit_s=BUILD_LIMIT_S)
        return tag

    def try_out(self, image: str) -> None:
        """Run a container on a network of its own and remove both.

        Raises:
            EngineError: one of the steps failed.
        """
        network = f"mpi-agent-e2e-try-{os.getpid()}"
        self.do("network", "create", network)
        try:
            self.do(
                *("run", "--rm", *self._run_options, f"--network={network}", image, "true"),
                limit_s=60,
            )
        finally:
            self.ask("network", "rm", "--force", network)

    def close(self) -> None:
        """End what this engine keeps alive."""
        if self._mounts is not None:
            self._mounts.close()


def _last_words(text: str) -> str:
    return "\n".join(text.splitlines()[-_LAST_LINES:])


def require_podman() -> None:
    """Check that podman is installed.

    Raises:
        NoEngineError: it is not.
    """
    if shutil.which("podman") is None:
        raise NoEngineError("cannot run containers: podman is not installed")


def find_engine(directory: Path, image: str) -> Engine:
    """Return the first way that runs a container of the image here.

    Raises:
        NoEngineError: none does.
    """
    answers = []
    for way in _WAYS:
        try:
            engine = Engine(way, directory)
        except EngineError as error:
            answers.append(f"{way.title}: {error}")
            continue
        try:
            engine.try_out(image)
        except EngineError as error:
            engine.close()
            answers.append(f"{way.title}: {str(error).splitlines()[-1]}")
        else:
            return engine
    raise NoEngineError("cannot run containers: " + "; ".join(answers))
