"""What is in the images, and what must not be."""

from __future__ import annotations

import json
import re
import secrets
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

import pytest

import mpi_agent
from tests.e2e.base_images import Debian
from tests.e2e.confinement import PodUser
from tests.e2e.engine import Engine
from tests.e2e.images import Images, Mpi
from tests.e2e.layers import files_in_layers
from tests.e2e.pod_options import HARDENED
from tests.waiting import wait_until

pytestmark = pytest.mark.e2e

_LABELS = ("title", "description", "licenses", "documentation")
_CALLED_PLAINLY = ("--entrypoint=",)
_AS_ROOT = (*_CALLED_PLAINLY, "--user=0")
# Programs hold the first line of such a file, without what follows it in a real one.
_PRIVATE_KEY = re.compile(
    rb"-----BEGIN [A-Z ]*PRIVATE KEY-----\r?\n(?:[\w-]+: [^\n]*\n)*\s*[A-Za-z0-9+/=]{32,}\r?\n"
)
_ELF = b"\x7fELF"
_RAISING = "find / -xdev -type f -perm /6000"
_WITH_CAPABILITIES = """
import os
for top, _, names in os.walk("/"):
    if top.startswith(("/proc", "/sys", "/dev")): continue
    for path in (os.path.join(top, name) for name in names):
        if not os.path.islink(path) and "security.capability" in os.listxattr(path):
            print(path)
"""
_LOOK_UP = "import importlib.util as u, sys; print([n for n in sys.argv[1:] if u.find_spec(n)])"
_PACKAGES_OF_THE_AGENT = (
    *("mpi_agent", "asyncssh", "click", "cryptography", "dns", "prometheus_client"),
    *("psutil", "tenacity"),
)
_README = "opt/mpi-agent/README.md"
_AGENT_FILES = "cd /opt/mpi-agent && find . -type f -exec sha256sum {} + | sort"
_IS_HEALTHY = """
import urllib.request
urllib.request.urlopen("http://127.0.0.1:9390/healthz", timeout=5)
"""
_INTELS_LICENSE = "/opt/intel-mpi/LICENSE.txt"
_OPENSSH_AND_MPI = ("ssh", "sshd", "ssh-keygen", "mpirun", "mpiexec", "mpiexec.hydra", "orted")


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """One of our images.

    Attributes:
        mpi: None for the sidecar's.
    """

    title: str
    mpi: Mpi | None = None

    def __str__(self) -> str:
        return self.title if self.mpi is None else f"{self.mpi.value}-{self.title}"

    @property
    def base(self) -> str:
        """Name of the image that it is built on."""
        return (Debian.TRIXIE if self.mpi is None else self.mpi.debian).image

    def built(self, images: Images) -> str:
        """Return its tag."""
        if self.mpi is None:
            return images.sidecar()
        return images.builder(self.mpi) if self.title == "builder" else images.reference(self.mpi)


SIDECAR = Kind(title="sidecar")
REFERENCES = [Kind(title="reference", mpi=mpi) for mpi in Mpi]
BUILDERS = [Kind(title="builder", mpi=mpi) for mpi in Mpi]
every_image = pytest.mark.parametrize("kind", [*REFERENCES, *BUILDERS, SIDECAR], ids=str)
every_reference = pytest.mark.parametrize("kind", REFERENCES, ids=str)
every_image_without_compilers = pytest.mark.parametrize("kind", [*REFERENCES, SIDECAR], ids=str)


def holds_a_key(path: PurePosixPath, content: bytes) -> bool:
    """Return whether a file is a private key, or sshd's own key whatever is in it."""
    if path.name.startswith("ssh_host_"):
        return True
    return not content.startswith(_ELF) and _PRIVATE_KEY.search(content) is not None


@every_image_without_compilers
def test_no_layer_holds_a_private_key(
    kind: Kind, engine: Engine, images: Images, tmp_path: Path
) -> None:
    """Not even one that a later layer hides.

    A builder adds packages to the same layers (tests/architecture/test_recipes.py). What libgnutls
    tests itself with is no secret.
    """
    files = files_in_layers(engine, kind.built(images), tmp_path)

    has_key = {name: holds_a_key(PurePosixPath(name), content) for name, content in files}

    assert _README in has_key
    assert [name for name, has in has_key.items() if has] == []


@every_image
def test_no_file_raises_rights(kind: Kind, engine: Engine, images: Images) -> None:
    """No set-uid, no set-gid, no capability: where rights may not be raised they end in errors."""
    image = kind.built(images)

    raising = engine.output_of(image, "sh", "-c", _RAISING, options=_AS_ROOT)
    capable = engine.output_of(image, "python3", "-c", _WITH_CAPABILITIES, options=_AS_ROOT)

    assert raising == ""
    assert capable == ""


@every_image_without_compilers
def test_what_a_job_says_to_its_own_python_does_not_reach_the_agents(
    kind: Kind, engine: Engine, images: Images
) -> None:
    """PYTHONPATH and PYTHONHOME are usual in the pods of Python programs."""
    click = "mkdir /tmp/p && echo 'raise SystemExit(9)' >/tmp/p/click.py"
    options = (*_AS_ROOT, "--env=PYTHONPATH=/tmp/p", "--env=PYTHONHOME=/nowhere")

    said = engine.output_of(
        kind.built(images), "sh", "-c", f"{click} && mpi-agent --version", options=options
    )

    assert said.endswith(mpi_agent.__version__)


@every_reference
def test_a_variable_that_is_no_name_for_a_shell_passes_the_shims(
    kind: Kind, engine: Engine, images: Images
) -> None:
    """Kubernetes takes such names; dash would drop the variable."""
    options = (*_AS_ROOT, "--env=my.var=kept")
    shims = "mpirun /usr/sbin/sshd /entrypoint.sh"
    first_lines = f'for shim in {shims}; do head -n 1 "$(command -v $shim)"; done'
    image = kind.built(images)

    said = engine.output_of(image, "/entrypoint.sh", "env", options=options)
    firsts = engine.output_of(image, "sh", "-c", first_lines, options=options)

    assert "my.var=kept" in said.splitlines()
    assert firsts.splitlines() == ["#!/bin/bash -p"] * 3


@every_image
def test_labels_say_what_the_image_is(kind: Kind, engine: Engine, images: Images) -> None:
    """The OCI annotations, with the agent's version and the base that the image was built on."""
    inspected = engine.do("image", "inspect", kind.built(images))
    labels = json.loads(inspected)[0]["Labels"]

    assert [name for name in _LABELS if not labels.get(f"org.opencontainers.image.{name}")] == []
    assert labels["org.opencontainers.image.version"] == mpi_agent.__version__
    assert labels["org.opencontainers.image.base.name"] == kind.base


@every_image_without_compilers
def test_the_documentation_that_the_label_names_is_in_the_image(
    kind: Kind, engine: Engine, images: Images
) -> None:
    """So it fits the agent there."""
    image = kind.built(images)
    one = '{{index .Labels "org.opencontainers.image.documentation"}}'
    scheme, path = engine.do("image", "inspect", f"--format={one}", image).split("://")

    text = engine.output_of(image, "cat", path, options=_CALLED_PLAINLY)

    assert scheme == "file"
    assert "mpi-agent" in text


def test_intels_license_is_named_and_in_the_image(engine: Engine, images: Images) -> None:
    """Whoever passes the image on has to pass that license on."""
    image = images.reference(Mpi.INTEL)
    one = '{{index .Labels "org.opencontainers.image.licenses"}}'
    licenses = engine.do("image", "inspect", f"--format={one}", image).split(" AND ")

    text = engine.output_of(image, "cat", _INTELS_LICENSE)

    assert "LicenseRef-Intel-Simplified-Software-License" in licenses
    assert "Intel Simplified Software License" in text


@every_image
def test_the_agents_python_is_not_the_users(kind: Kind, engine: Engine, images: Images) -> None:
    """The image's python3 has none of the agent's packages, and the agent's has no pip."""
    image = kind.built(images)
    names = (*_PACKAGES_OF_THE_AGENT, "pip")

    users = engine.output_of(image, "python3", "-c", _LOOK_UP, *names, options=_CALLED_PLAINLY)
    agents = engine.output_of(
        image, "/opt/mpi-agent/bin/python", "-c", _LOOK_UP, *names, options=_CALLED_PLAINLY
    )

    assert users == "[]"
    assert agents == str(list(_PACKAGES_OF_THE_AGENT))


def test_a_users_environment_leaves_the_agents_alone(
    mpi: Mpi, engine: Engine, images: Images
) -> None:
    """The user's image has a venv with mpi4py; each side keeps to its own."""
    image = images.pi(mpi)

    before = engine.output_of(images.reference(mpi), "sh", "-c", _AGENT_FILES)
    after = engine.output_of(image, "sh", "-c", _AGENT_FILES)
    users = engine.output_of(
        image, "/opt/user/bin/python", "-c", _LOOK_UP, "mpi4py", "mpi_agent", "asyncssh"
    )
    agents = engine.output_of(image, "/opt/mpi-agent/bin/python", "-c", _LOOK_UP, "mpi4py")

    assert after == before != ""
    assert users == "['mpi4py']"
    assert agents == "[]"


@pytest.mark.parametrize("user", PodUser, ids=lambda user: user.name.lower())
@every_image_without_compilers
def test_the_agent_works_without_rights_and_without_a_place_to_write(
    kind: Kind, user: PodUser, engine: Engine, images: Images
) -> None:
    """A read-only root file system, no capability, no way to more rights; any user."""
    image = kind.built(images)
    options = (*HARDENED, *_CALLED_PLAINLY, f"--user={user.value}")

    version = engine.output_of(image, "mpi-agent", "--version", options=options)

    assert version.split()[-1] == mpi_agent.__version__


@pytest.mark.parametrize("user", PodUser, ids=lambda user: user.name.lower())
def test_a_plan_needs_no_rights_and_no_place_to_write(
    user: PodUser, mpi: Mpi, engine: Engine, images: Images
) -> None:
    """It asks the real mpirun what it is, and writes nothing."""
    options = (*HARDENED, f"--user={user.value}")
    asked = ("mpi-agent", "plan", "--hosts", "w-0:2,w-1:2", "--", "mpirun", "/bin/true")

    plan = engine.output_of(images.reference(mpi), *asked, options=options)

    assert "w-1" in plan
    assert "/bin/true" in plan


def test_the_sidecar_has_no_mpi_and_no_openssh(engine: Engine, images: Images) -> None:
    """Both are next door."""
    search = 'for name; do command -v "$name"; done; true'

    found = engine.output_of(
        *(images.sidecar(), "sh", "-c", search, "sh", *_OPENSSH_AND_MPI), options=_CALLED_PLAINLY
    )

    assert found == ""


def test_the_sidecar_is_nobody_of_rank(engine: Engine, images: Images) -> None:
    """A number that is not root's, so that Kubernetes sees it when it insists (`runAsNonRoot`)."""
    user = engine.do("image", "inspect", "--format={{.User}}", images.sidecar())
    uid = engine.output_of(images.sidecar(), "id", "-u", options=_CALLED_PLAINLY)

    assert user.partition(":")[0] == uid
    assert int(uid) > 0


def test_the_sidecar_starts_without_rights_and_without_a_place_to_write(
    engine: Engine, images: Images
) -> None:
    """As it is called by the image itself: it serves its pages, nobody being next door yet."""
    container = f"mpi-agent-e2e-sidecar-{secrets.token_hex(3)}"

    try:
        engine.start(*HARDENED, f"--name={container}", images.sidecar())
        wait_until(
            "the sidecar is healthy",
            lambda: engine.ask("exec", container, "python3", "-c", _IS_HEALTHY).returncode == 0,
        )
    finally:
        engine.ask("rm", "--force", "--time=0", container)
