"""Nothing of a key is where somebody else may read: logs, command lines, pages, core dumps.

That the images' layers hold none either is promised in `test_image_content.py`.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from mpi_agent.setting_words import Backend
from tests.e2e.conftest import JobFactory
from tests.e2e.images import Images, Mpi
from tests.e2e.long_jobs import argv_of, job_running, start
from tests.e2e.operator_cluster import OperatorJob

pytestmark = pytest.mark.e2e

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


@pytest.mark.parametrize("ssh", [Backend.OPENSSH, Backend.BUILTIN], ids=lambda ssh: ssh.value)
def test_a_running_job_tells_nobody_its_key(
    ssh: Backend, images: Images, new_job: JobFactory
) -> None:
    """No command line, variable or page while it runs, no log afterwards, and no core dump."""
    job = job_running("staying", ssh, MPI_AGENT_HTTP_PORT="9390")

    with new_job(job, images.pi(Mpi.OPEN_MPI_5)) as running:
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
