"""A unix socket that this account alone can reach, at a path of any length.

Its mode is 0600 before it has a name, and it takes the place of a dead one in one step, so nobody
ever finds it open to others or missing. Who connects is asked of the kernel too: root and we
ourselves, whatever the modes on the way may say.
"""

from __future__ import annotations

import contextlib
import errno
import os
import socket
import stat
import struct
from asyncio import StreamWriter
from collections.abc import Iterator

from mpi_agent.errors import SettingsError, StateDirectoryError
from mpi_agent.state import StateDirectory

__all__ = ["is_own_peer", "listen_at"]

_LONGEST_PATH = 107
"""Source: unix(7), Linux man-pages 6.03: `sun_path` has 108 bytes, with the NUL behind the path."""
_BACKLOG = 128
_MODE = 0o600
_PEER = struct.Struct("3i")
"""Source: unix(7), SO_PEERCRED: `struct ucred` is pid, uid and gid."""


def listen_at(state: StateDirectory, name: str) -> socket.socket:
    """Return a socket that listens under a name in the state directory.

    Raises:
        SettingsError: a worker that is alive listens there.
        StateDirectoryError: the directory takes no socket.
    """
    path = state.file(name)
    try:
        with _short(state, name) as short, _short(state, f".{name}.{os.getpid()}") as beside:
            if _is_answered(short):
                raise SettingsError(
                    f'cannot listen at "{path}": another worker does',
                    hint="one worker a container; a second one needs --state-dir of its own",
                )
            return _listen(short, beside)
    except OSError as error:
        raise StateDirectoryError(
            f'cannot listen at "{path}": {error.strerror or error}',
            hint="name a directory on a local file system with --state-dir",
        ) from error


def is_own_peer(writer: StreamWriter) -> bool:
    """Return whether the other side of a connection is this account or root."""
    connection = writer.get_extra_info("socket")
    credentials = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _PEER.size)
    _, uid, _ = _PEER.unpack(credentials)
    return uid in (0, os.getuid())


@contextlib.contextmanager
def _short(state: StateDirectory, name: str) -> Iterator[str]:
    """Provide a path that fits into a socket's address while the block runs."""
    path = str(state.file(name))
    if len(os.fsencode(path)) <= _LONGEST_PATH:
        yield path
        return
    directory = os.open(state.path, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield f"/proc/self/fd/{directory}/{name}"
    finally:
        os.close(directory)


def _is_answered(path: str) -> bool:
    """Return whether somebody listens at a path; a queue that is full is an answer too."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as caller:
        caller.setblocking(False)
        return caller.connect_ex(path) in (0, errno.EAGAIN)


def _listen(path: str, beside: str) -> socket.socket:
    with contextlib.suppress(FileNotFoundError):
        os.unlink(beside)
    listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        # Linux gives the name the mode of the socket itself (net/unix/af_unix.c, unix_bind_bsd,
        # 6.1), so there is no moment at which it is open and no umask to be changed
        os.fchmod(listening.fileno(), _MODE)
        listening.bind(beside)
        if stat.S_IMODE(os.lstat(beside).st_mode) != _MODE:  # a kernel that does otherwise
            os.chmod(beside, _MODE)
        listening.listen(_BACKLOG)
        listening.setblocking(False)
        os.rename(beside, path)
    except OSError:
        listening.close()
        raise
    return listening
