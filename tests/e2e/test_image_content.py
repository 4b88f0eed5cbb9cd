"""What is in the reference image, and what must not be."""

from __future__ import annotations

import json

import pytest

from tests.e2e.base_images import Debian
from tests.e2e.engine import Engine
from tests.e2e.images import Images

pytestmark = pytest.mark.e2e

_LABELS = ("title", "description", "version", "licenses", "base.name")


def test_no_private_key_is_in_the_image(debian: Debian, engine: Engine, images: Images) -> None:
    """Neither sshd's host keys, which the package makes, nor any other."""
    search = (
        "grep -rlE --binary-files=without-match -e '^-----BEGIN [A-Z ]*PRIVATE KEY-----' "
        "/etc /home /root /opt /srv /tmp /usr/local /var || true; ls /etc/ssh/ssh_host_* || true"
    )

    found = engine.output_of(images.reference(debian), "sh", "-c", search)

    assert found == ""


def test_no_file_of_ours_raises_rights(debian: Debian, engine: Engine, images: Images) -> None:
    """Files with a set-uid or set-gid bit are Debian's; no file has capabilities."""
    # By name alone: dpkg knows a file of a merged /usr by the path of its package.
    search = "find / -xdev -perm /6000 -type f -printf '*/%f\\n' | xargs dpkg -S 2>&1 >/dev/null"
    capabilities = (
        "import os\n"
        "for top, _, names in os.walk('/'):\n"
        "    if top.startswith(('/proc', '/sys', '/dev')): continue\n"
        "    for path in (os.path.join(top, name) for name in names):\n"
        "        if not os.path.islink(path) and 'security.capability' in os.listxattr(path):\n"
        "            print(path)\n"
    )
    image = images.reference(debian)

    assert engine.output_of(image, "sh", "-c", search) == ""
    assert engine.output_of(image, "python3", "-c", capabilities) == ""


def test_labels_say_what_the_image_is(debian: Debian, engine: Engine, images: Images) -> None:
    """The OCI annotations, with the base it was built on."""
    inspected = engine.do("image", "inspect", images.reference(debian))
    labels = json.loads(inspected)[0]["Labels"]

    assert all(labels.get(f"org.opencontainers.image.{name}") for name in _LABELS)
    assert labels["org.opencontainers.image.base.name"] == debian.image


def test_outside_a_job_the_shims_stand_aside(
    debian: Debian, engine: Engine, images: Images
) -> None:
    """Without a job mpirun and sshd are the packages' own."""
    image = images.reference(debian)
    local = "mpirun -n 2 --oversubscribe sh -c 'echo here; sleep 0.5'"

    assert f"{debian.open_mpi}." in engine.output_of(image, "mpirun", "--version")
    assert engine.output_of(image, "su", "mpiuser", "-c", local).split() == ["here", "here"]
    assert "port 2222" in engine.output_of(image, "sh", "-c", "ssh-keygen -A >&2; sshd -T")


def test_the_agents_python_is_not_the_users(debian: Debian, engine: Engine, images: Images) -> None:
    """The image's python3 has none of the agent's packages, and the agent's has no pip."""
    image = images.reference(debian)
    look_up = "import importlib.util as u, sys; sys.exit(u.find_spec(sys.argv[1]) is not None)"

    engine.output_of(image, "python3", "-c", look_up, "mpi_agent")
    engine.output_of(image, "python3", "-c", look_up, "asyncssh")
    engine.output_of(image, "/opt/mpi-agent/bin/python", "-c", look_up, "pip")
