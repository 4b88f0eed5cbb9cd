"""The accounts that OpenSSH's programs are shown under a uid without a passwd entry."""

from __future__ import annotations

from pathlib import Path

from mpi_agent.container import Account
from mpi_agent.ssh.nss_wrapper import (
    find_nss_wrapper,
    nss_wrapper_variables,
    render_group,
    render_passwd,
)
from mpi_agent.state import StateDirectory

EXISTING = "root:x:0:0:root:/root:/bin/bash\nsshd:x:102:65534::/run/sshd:/usr/sbin/nologin"
ACCOUNT = Account(
    name="uid-1000650000", uid=1000650000, gid=0, has_passwd_entry=False, home=Path("/data")
)


def test_the_account_is_added_to_those_of_the_image() -> None:
    """The others are still looked up, such as sshd's own."""
    assert render_passwd(EXISTING, ACCOUNT).splitlines() == [
        *EXISTING.splitlines(),
        "uid-1000650000:x:1000650000:0::/data:/bin/sh",
    ]


def test_home_that_cannot_stand_in_passwd_is_replaced() -> None:
    """A colon would shift every field."""
    account = Account(name="a", uid=5, gid=5, has_passwd_entry=False, home=Path("/a:b"))

    assert render_passwd("", account) == "a:x:5:5::/:/bin/sh\n"


def test_a_group_is_added_only_where_it_has_no_name() -> None:
    """OpenShift's group 0 is root's."""
    assert render_group("root:x:0:\n", 0) == "root:x:0:\n"
    assert render_group("root:x:0:\n", 7).endswith("gid-7:x:7:\n")


def test_what_was_preloaded_stays() -> None:
    """Such as an allocator of the image's."""
    state = StateDirectory(Path("/run/x"))

    variables = dict(nss_wrapper_variables("/usr/lib/w.so", state, "/usr/lib/j.so"))

    assert variables["LD_PRELOAD"] == "/usr/lib/w.so:/usr/lib/j.so"
    assert variables["NSS_WRAPPER_PASSWD"] == "/run/x/passwd"


def test_library_is_found_where_distributions_put_it(tmp_path: Path) -> None:
    """Debian below the machine's triplet, Fedora in lib64."""
    assert find_nss_wrapper(tmp_path) is None

    library = tmp_path / "usr/lib64/libnss_wrapper.so"
    library.parent.mkdir(parents=True)
    library.touch()

    assert find_nss_wrapper(tmp_path) == str(library)
