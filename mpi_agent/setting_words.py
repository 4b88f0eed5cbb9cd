"""The words that a setting allows, where it allows some and no others."""

from __future__ import annotations

from enum import Enum

__all__ = [
    "Backend",
    "DrainSignal",
    "ExitWithLauncher",
    "Form",
    "HostfileDialect",
    "KeyExchange",
    "LoginFiles",
    "PlanForm",
    "Slots",
    "StallAction",
]


class Backend(Enum):
    """Which ssh is used: OpenSSH's programs or the built-in ones."""

    AUTO = "auto"
    OPENSSH = "openssh"
    BUILTIN = "builtin"


class KeyExchange(Enum):
    """Which key exchange mpirun's ssh prefers: a cheap one, or what OpenSSH itself does."""

    AUTO = "auto"
    DEFAULT = "default"


class Slots(Enum):
    """How many slots a host has, where no number says it: as many as its GPUs or CPUs."""

    AUTO = "auto"


class Form(Enum):
    """For whom something is written: text for people, JSON for machines."""

    TEXT = "text"
    JSON = "json"


class PlanForm(Enum):
    """How a plan is written: text for people, JSON for machines, or a script that runs it."""

    TEXT = "text"
    JSON = "json"
    SHELL = "shell"


class HostfileDialect(Enum):
    """For which MPI a hostfile is written; auto is the one that is installed here."""

    AUTO = "auto"
    OPEN_MPI = "openmpi"
    MPICH = "mpich"
    INTEL_MPI = "intel"


class LoginFiles(Enum):
    """Whether a session on a worker reads bash's start-up files, which may print or hang."""

    SKIP = "skip"
    READ = "read"


class ExitWithLauncher(Enum):
    """What a worker does when the launcher says that the job is over: stay, or end with a code."""

    NEVER = "never"
    ZERO = "zero"
    CODE = "code"


class DrainSignal(Enum):
    """What ranks get when their worker is told to end, so that they may save what they have."""

    TERM = "TERM"
    INT = "INT"
    HUP = "HUP"
    QUIT = "QUIT"
    USR1 = "USR1"
    USR2 = "USR2"


class StallAction(Enum):
    """What becomes of a program whose ranks do nothing."""

    REPORT = "report"
    END = "end"
