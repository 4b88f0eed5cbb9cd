"""What a container has for an ssh server, found without changing it."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tests.workers import LIMIT_S, require_program

pytestmark = pytest.mark.integration

TELLS = """
import os
from mpi_agent.container import own_account
from mpi_agent.worker.server_facts import gather_server_facts, make_chroot_directory
facts = gather_server_facts(own_account())
print(facts.has_chroot_directory, os.path.exists("/run/sshd"))
{then}
"""
MAKES = 'make_chroot_directory(); print(oct(os.stat("/run/sshd").st_mode))'


def told_with_run(options: str, then: str = "") -> list[str]:
    """Return the lines that are told where /run is another file system; skip where it cannot be."""
    require_program("unshare")
    if os.getuid() != 0:
        pytest.skip("only root mounts")
    program = TELLS.format(then=then)
    mount = f'mount -t tmpfs -o mode=0755,{options} tmpfs /run || exit 77; exec "$@"'
    ended = subprocess.run(
        ["unshare", "--mount", "sh", "-c", mount, "sh", sys.executable, "-c", program],
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )
    if ended.returncode == 77 or "unshare" in ended.stderr:
        pytest.skip(f"mount is not permitted: {ended.stderr.strip()}")
    assert ended.returncode == 0, ended.stderr
    return ended.stdout.splitlines()


def test_roots_directory_for_sshd_is_made_when_openssh_serves_and_not_before() -> None:
    """A worker with the built-in server leaves no trace of the other one."""
    assert told_with_run("rw", MAKES) == ["True False", "0o40755"]


def test_where_the_directory_cannot_be_made_openssh_cannot_serve() -> None:
    """As with a read-only root."""
    assert told_with_run("ro") == ["False False"]
