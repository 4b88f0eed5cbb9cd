"""Which variables travel, and why each does or does not; both sides use it.

Two ways lead to a rank. The launcher's job-wide variables go by name only (`-x`, `-genvlist`), so
that no value is ever in an argv. A worker's own container variables (paths, network card, node)
reach its ranks through its ssh server. What names one pod must take neither way.

Source: measured with Open MPI 4.1.4 and 5.0.11, 2026-11: a rank sees the ssh session's
environment, the names given with -x, and known MCA parameters; nothing else of either pod. Hydra
(MPICH 4.0.2, 5.0.2, Intel MPI 2021.19) hands over everything unless it is given names.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from mpi_agent.env_file import FileVariable
from mpi_agent.variable_names import (
    PASSED_NAMES,
    PASSED_PREFIXES,
    PATH_NAMES,
    RESOURCE_MANAGER_PATTERNS,
    is_never_passed,
    is_secret,
    is_variable_name,
    matches_any,
    reason_to_stay,
)
from mpi_agent.variable_wishes import VariableError, Wish, refuse_too_much, wishes_of

__all__ = [
    "Passage",
    "RankEnvironment",
    "SessionVariables",
    "VariableError",
    "interface_variables",
    "is_never_passed",
    "is_secret",
    "rank_environment",
    "session_variables",
]

_FROM_THE_POD = (
    *"OMPI_COMM_WORLD_* PMIX_* PMI_* PRTE_* HYDRA_* MPI_AGENT_* SSH_* BASH_FUNC_*".split(),
    *RESOURCE_MANAGER_PATTERNS,
)
_SESSION_OWN = frozenset(
    "HOME USER LOGNAME SHELL PWD OLDPWD SHLVL _ TERM IFS PS1 PS2 PS4 HOSTNAME"
    " K_MPI_JOB_ROLE".split()
)
_REPLACED_BY_SHELLS = frozenset(
    "PPID OPTIND LINENO RANDOM BASHPID BASHOPTS SHELLOPTS BASH_VERSINFO BASH_VERSION"
    " HISTCMD".split()
)
"""Source: bash 5.2, dash 0.5.12, busybox 1.35 and mksh 59c, each told `env NAME=abc SHELL -c env`:
none of these comes through all four; 2026-11-30.
"""
_INTERFACE_NAMES = ("NCCL_SOCKET_IFNAME", "GLOO_SOCKET_IFNAME", "FI_TCP_IFACE")
_INTERFACE_NAME_WITHOUT_RDMA = "UCX_NET_DEVICES"


@dataclass(frozen=True, slots=True, kw_only=True)
class Passage:
    """One variable of the launcher, whether it travels, and why."""

    name: str
    travels: bool
    reason: str

    @property
    def is_secret(self) -> bool:
        """Whether the value must not be shown, as far as the name tells."""
        return is_secret(self.name)


@dataclass(frozen=True, slots=True, kw_only=True)
class RankEnvironment:
    """What the launcher hands to the ranks.

    Attributes:
        passages: one per variable that was looked at, sorted by name.
        extra: variables whose value the user gave with --env or in an env file.
        notes: sentences about what was asked for that the user should read.
        unwanted: names and patterns that were given with --no-env.
    """

    passages: tuple[Passage, ...]
    extra: tuple[tuple[str, str], ...]
    notes: tuple[str, ...] = ()
    unwanted: tuple[str, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        """Names for `-x`, sorted."""
        return tuple(p.name for p in self.passages if p.travels)

    def keeps_back(self, name: str) -> bool:
        """Return whether --no-env names a variable, be it set here or only by the agent."""
        return matches_any(name, self.unwanted)


def rank_environment(
    environ: Mapping[str, str],
    *,
    wanted: tuple[str, ...] = (),
    from_files: tuple[FileVariable, ...] = (),
    prefixes: tuple[str, ...] = (),
    unwanted: tuple[str, ...] = (),
    workers_run_agent: bool = True,
    limit_bytes: int | None = None,
) -> RankEnvironment:
    """Return what travels from the launcher to the ranks.

    Args:
        wanted: `NAME` or `NAME=VALUE`, as given with --env; wins over everything else.
        from_files: what env files name; wins over the environment, and a later one over an
            earlier one.
        prefixes: given with --env-prefix; a `*` at the end is left out.
        unwanted: names given with --no-env, or patterns with `*`.
        limit_bytes: what the kernel takes for arguments and environment, None for no limit.

    Raises:
        VariableError: one that was asked for is not set, has no valid name, would be replaced or
            break the launcher, or is more than the kernel takes.
    """
    starts = tuple(_checked_prefix(prefix) for prefix in prefixes)
    wishes = wishes_of(environ, wanted=wanted, from_files=from_files, unwanted=unwanted)
    policy = _Policy(
        wishes=wishes, prefixes=starts, unwanted=unwanted, workers_run_agent=workers_run_agent
    )
    looked_at = {*environ, *wishes, *(variable.name for variable in from_files)}
    extra = tuple((w.name, w.value) for w in wishes.values() if w.value is not None)
    found = RankEnvironment(
        passages=tuple(policy.passage(name) for name in sorted(looked_at)),
        extra=extra,
        notes=(*policy.wish_notes(), *policy.prefix_notes(environ)),
        unwanted=unwanted,
    )
    if limit_bytes is not None:
        refuse_too_much({**environ, **dict(extra)}, found.names, limit_bytes)
    return found


def _checked_prefix(prefix: str) -> str:
    """Return what names must start with; empty for a lone `*`, which every name fits."""
    start = prefix.removesuffix("*")
    if start and not is_variable_name(start):
        raise VariableError(
            f'"{prefix}" is no start of a variable\'s name',
            hint="write the start of names, such as --env-prefix NCCL_",
        )
    return start


@dataclass(frozen=True, slots=True, kw_only=True)
class _Policy:
    """Decides for one variable after the other."""

    wishes: Mapping[str, Wish]
    prefixes: tuple[str, ...]
    unwanted: tuple[str, ...]
    workers_run_agent: bool

    def passage(self, name: str) -> Passage:
        """Return whether a variable travels, and why."""
        stays = self._reason_to_stay(name)
        if stays is not None:
            return Passage(name=name, travels=False, reason=stays)
        reason = self._reason_to_travel(name)
        if reason is None:
            reason = "not on the allow list; --env takes it along"
            return Passage(name=name, travels=False, reason=reason)
        if is_secret(name):
            reason += "; a secret by its name: passed by name alone, never shown"
        return Passage(name=name, travels=True, reason=reason)

    def _reason_to_stay(self, name: str) -> str | None:
        if name in self.wishes:
            return None
        if matches_any(name, self.unwanted):
            return "kept back with --no-env"
        if not is_variable_name(name):
            return "not a name that -x can carry"
        return self._usual_reason_to_stay(name)

    def _usual_reason_to_stay(self, name: str) -> str | None:
        """Return why a variable stays unless it is asked for by its very name."""
        if self.workers_run_agent and name in PATH_NAMES:
            return "the workers' own counts"
        return reason_to_stay(name)

    def _reason_to_travel(self, name: str) -> str | None:
        if name in self.wishes:
            return self.wishes[name].reason
        if name in PASSED_NAMES:
            return "on the allow list"
        if name in PATH_NAMES:
            return "workers run no agent"
        for prefix in self.prefixes:
            if name.startswith(prefix):
                return f"--env-prefix {prefix or '*'}"
        known = next((prefix for prefix in PASSED_PREFIXES if name.startswith(prefix)), None)
        return None if known is None else f"prefix {known}"

    def wish_notes(self) -> Iterator[str]:
        """Yield what the user may not have thought of when asking for a variable."""
        for name, wish in self.wishes.items():
            is_given = wish.value is not None
            if is_given and wish.place is None and is_secret(name):
                yield (
                    f"the value of {name} can be read in the process list, or in the manifest;"
                    f" write --env {name} and set the variable"
                )
            usual = self._usual_reason_to_stay(name)
            if usual is not None and (not is_given or name == "HOME"):
                yield f"{name} travels as asked; else it would stay: {usual}"

    def prefix_notes(self, environ: Mapping[str, str]) -> Iterator[str]:
        """Yield for which --env-prefix nothing travels, and what else it does not take along."""
        for prefix in self.prefixes:
            names = sorted(name for name in environ if name.startswith(prefix))
            if not names:
                yield f"--env-prefix {prefix or '*'} fits no variable that is set here"
            for name in names if prefix else ():
                usual = self._usual_reason_to_stay(name)
                if usual is not None and name not in {*self.wishes, *self.unwanted}:
                    yield f"{name} stays in spite of --env-prefix {prefix}: {usual}"


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionVariables:
    """What a worker's ssh server gives to each session, and what it could not take."""

    variables: tuple[tuple[str, str], ...]
    left_out: tuple[str, ...]


def session_variables(environ: Mapping[str, str]) -> SessionVariables:
    """Return the worker's container variables for its ssh sessions, sorted by name.

    A value may hold whatever a variable can, line breaks too. A variable whose name no shell can
    use, or which shells set themselves, is named in `left_out`.
    """
    kept: list[tuple[str, str]] = []
    left_out: list[str] = []
    for name in sorted(environ):
        if name in _SESSION_OWN or matches_any(name, _FROM_THE_POD):
            continue
        if not is_variable_name(name):
            left_out.append(f"{name}: not a name that a shell can use")
        elif name in _REPLACED_BY_SHELLS:
            left_out.append(f"{name}: every shell sets its own")
        else:
            kept.append((name, environ[name]))
    return SessionVariables(variables=tuple(kept), left_out=tuple(left_out))


def interface_variables(
    environ: Mapping[str, str], interface: str | None, *, has_rdma: bool
) -> tuple[tuple[str, str], ...]:
    """Return what tells NCCL, Gloo, libfabric and UCX the network, as far as nobody has told them.

    Args:
        interface: the one that has the pod's address; None where it is not known.
        has_rdma: there are devices that UCX must stay free to use.

    Source: MPICH 4.0.2 and 5.0.2 (UCX) and Intel MPI 2021.18 (libfabric) on hosts that share an
    address on a second interface: without these their programs end or hang, 2026-11.
    """
    if interface is None:
        return ()
    names = _INTERFACE_NAMES if has_rdma else (*_INTERFACE_NAMES, _INTERFACE_NAME_WITHOUT_RDMA)
    return tuple((name, interface) for name in names if name not in environ)
