"""An exit in words."""

from __future__ import annotations

from mpi_agent.job.endings import ProcessExit, signal_name

__all__ = ["describe_code", "describe_exit", "describe_seconds"]

_FIRST_SIGNAL_CODE, _LAST_SIGNAL_CODE = 129, 159


def describe_exit(process_exit: ProcessExit) -> str:
    """Return `exit code 7`, `signal 9 (SIGKILL)` or `exit code 137 (128 + SIGKILL)`."""
    if process_exit.signal is not None:
        return f"signal {process_exit.signal} ({signal_name(process_exit.signal)})"
    return describe_code(process_exit.code or 0)


def describe_code(code: int, *, is_launchers: bool = False) -> str:
    """Return `exit code 7` or `exit code 137 (128 + SIGKILL)`.

    Args:
        is_launchers: a launcher made it up, so that it tells of no signal.
    """
    if not is_launchers and _FIRST_SIGNAL_CODE <= code <= _LAST_SIGNAL_CODE:
        return f"exit code {code} (128 + {signal_name(code - 128)})"
    return f"exit code {code}"


def describe_seconds(seconds: float) -> str:
    """Return a time as `1.7 s`, `4 min 10 s` or `2 h 14 min`."""
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest_s = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest_s} s"
    return f"{minutes // 60} h {minutes % 60} min"
