"""Nothing of a key is where somebody else may read: layers, logs, command lines, core dumps."""

from __future__ import annotations

import re
from pathlib import Path, PurePosixPath

import pytest

from mpi_agent.setting_words import Backend
from tests.e2e.base_images import Debian
from tests.e2e.conftest import JobFactory
from tests.e2e.engine import Engine
from tests.e2e.images import Images
from tests.e2e.layers import files_in_layers
from tests.e2e.long_jobs import argv_of, job_running, start
from tests.e2e.operator_cluster import OperatorJob

pytestmark = pytest.mark.e2e

# Programs hold the first line of such a file, without what follows it in a real one.
_PRIVATE_KEY = re.compile(
    rb"-----BEGIN [A-Z ]*PRIVATE KEY-----\r?\n(?:[\w-]+: [^\n]*\n)*\s*[A-Za-z0-9+/=]{32,}\r?\n"
)
_ELF = b"\x7fELF"
_PRIVATE_WORDS = "PRIVATE KEY"
_ARGV_OF_ALL = "cat /proc/[0-9]*/cmdline /proc/[0-9]*/environ 2>/dev/null | tr '\\0' '\\n'"
_CORES = (
    'for place in / /tmp "$HOME" "$(dirname "$1")"; do ls -d "$place"/*core* 2>/dev/null; done; :'
)


def _secret_lines(running: OperatorJob) -> tuple[str, ...]:
    """Return the lines of the private key, each of which alone says too much."""
    lines = tuple(line for line in running.private_key.splitlines() if not line.startswith("---"))
    assert len(lines) > 3
    return lines


def _assert_nothing_secret_in(text: str, running: OperatorJob) -> None:
    assert _PRIVATE_WORDS not in text
    for line in _secret_lines(running):
        assert line not in text


def _holds_a_key(path: PurePosixPath, content: bytes) -> bool:
    if path.name.startswith("ssh_host_"):
        return True
    return not content.startswith(_ELF) and _PRIVATE_KEY.search(content) is not None


def test_no_layer_of_the_image_holds_a_private_key(
    debian: Debian, engine: Engine, images: Images, tmp_path: Path
) -> None:
    """Not even one that a later layer hides; what libgnutls tests itself with is no secret."""
    found = [
        name
        for name, content in files_in_layers(engine, images.reference(debian), tmp_path)
        if _holds_a_key(PurePosixPath(name), content)
    ]

    assert found == []


@pytest.mark.parametrize("ssh", [Backend.OPENSSH, Backend.BUILTIN], ids=lambda ssh: ssh.value)
def test_a_running_job_tells_nobody_its_key(
    ssh: Backend, images: Images, new_job: JobFactory
) -> None:
    """No command line, variable or page while it runs, no log afterwards, and no core dump."""
    job = job_running("staying", ssh, MPI_AGENT_HTTP_PORT="9390")

    with new_job(job, images.pi(Debian.TRIXIE)) as running:
        launcher = start(running)
        for pod in running.pods:
            _assert_nothing_secret_in(pod.execute("sh", "-c", _ARGV_OF_ALL).stdout, running)
            pages = pod.execute(*argv_of("pages"))
            assert pages.returncode == 0, pages.stderr
            _assert_nothing_secret_in(pages.stdout, running)
        launcher.terminate()
        ended = running.ended(launcher)

        _assert_nothing_secret_in(ended.output + ended.message, running)
        pattern = Path("/proc/sys/kernel/core_pattern").read_text().strip()
        for worker in running.workers:
            _assert_nothing_secret_in(worker.log(), running)
            assert worker.execute("sh", "-c", _CORES, "sh", pattern).stdout == ""
