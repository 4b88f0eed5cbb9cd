"""Workers under every kind of account and right, each with a real login from such an account."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from mpi_agent.container import Account
from mpi_agent.setting_words import Backend
from mpi_agent.ssh.installed import client_command, write_client
from mpi_agent.ssh.nss_wrapper import find_nss_wrapper
from mpi_agent.ssh.trust import SshTarget, SshTerms, render_known_hosts, render_ssh_config
from mpi_agent.state import StateDirectory
from tests.waiting import wait_until
from tests.workers import (
    LIMIT_S,
    JobKeys,
    environment_for,
    free_address,
    python_for,
    require_program,
    worker_arguments,
)

pytestmark = pytest.mark.integration

ARBITRARY_UID = 1000650000
AS_ARBITRARY = (
    *("--reuid", str(ARBITRARY_UID), "--regid", "0", "--clear-groups"),
    *("--bounding-set=-all", "--no-new-privs"),
)
ROOT_WITHOUT_RIGHTS = ("--bounding-set=-all",)


def restricted(*options: str) -> tuple[str, ...]:
    """Return what runs a program under an account and rights; skip where that cannot be tried."""
    if os.getuid() != 0:
        pytest.skip("only root can give rights away")
    return (require_program("setpriv"), *options)


def require_library() -> str:
    """Return the path of libnss_wrapper; skip without it."""
    library = find_nss_wrapper()
    if library is None:
        pytest.skip("libnss-wrapper is not installed")
    return library


class Site:
    """One worker's directory, owned by whoever runs it, and how it is dialled."""

    def __init__(self, root: Path, keys: JobKeys, owner: int) -> None:
        self.keys = keys
        self.owner = owner
        self.home = root / "home"
        self.home.mkdir()
        os.chown(self.home, owner, 0)
        self.state = self.home / "state"
        self.log = root / "log"
        self.address, self.port = free_address()
        self.python = python_for(owner or None)
        self.environ = {**environment_for(owner or None), "HOME": str(self.home)}

    @property
    def words(self) -> str:
        """What the worker said."""
        return self.log.read_text()

    def start(self, before: tuple[str, ...], *more: str) -> subprocess.Popen[bytes]:
        """Start a worker behind a program that takes rights away."""
        arguments = worker_arguments(self.keys, self.state, "pi-worker-0", self.address, self.port)
        with self.log.open("wb") as stream:
            return subprocess.Popen(
                (*before, self.python, *arguments, *more),
                stdout=stream,
                stderr=subprocess.STDOUT,
                stdin=subprocess.DEVNULL,
                env=self.environ,
                cwd="/",
            )

    @contextmanager
    def running(self, before: tuple[str, ...], *more: str) -> Iterator[None]:
        """Run a worker that becomes ready."""
        popen = self.start(before, *more)
        try:
            wait_until(
                "the worker is ready",
                lambda: (self.state / "ready").exists() or popen.poll() is not None,
            )
            assert popen.poll() is None, self.words
            yield
        finally:
            popen.send_signal(signal.SIGTERM)
            popen.wait(LIMIT_S)

    def write_config(self, user: str) -> Path:
        """Write what an ssh client of this owner needs; return the configuration's path."""
        key, known_hosts = self.home / "key", self.home / "known_hosts"
        key.touch(mode=0o600)
        key.write_bytes(self.keys.private_path.read_bytes())
        os.chown(key, self.owner, 0)
        known_hosts.write_text(render_known_hosts(self.keys.public))
        terms = SshTerms(
            key_path=str(key), known_hosts_path=str(known_hosts), user=user, checks_host_keys=True
        )
        target = SshTarget(name="pi-worker-0", port=self.port, address=self.address)
        config = self.home / "ssh_config"
        config.write_text(render_ssh_config(terms, (target,)))
        return config

    def dial(
        self, before: tuple[str, ...], client: str, user: str, command: str
    ) -> subprocess.CompletedProcess[str]:
        """Run a command on the worker by a client, as mpirun would call it."""
        config = self.write_config(user)
        return subprocess.run(
            [*before, *client.split(), "-F", str(config), "pi-worker-0", command],
            env=self.environ,
            cwd="/",
            capture_output=True,
            text=True,
            timeout=LIMIT_S,
            check=False,
        )


def test_arbitrary_uid_is_served_by_openssh_with_the_library(root: Path, keys: JobKeys) -> None:
    """As on OpenShift: no passwd entry, group 0, no capability; sessions lack the library."""
    require_program("sshd")
    require_library()
    before, site = restricted(*AS_ARBITRARY), Site(root, keys, ARBITRARY_UID)
    name = f"uid-{ARBITRARY_UID}"
    with site.running(before, "--sshd", "openssh"):
        told = site.dial(
            before, f"/bin/sh {site.state}/ssh_client", name, "id -u; echo $HOME $LOGNAME; env"
        )

    assert told.stdout.splitlines()[:2] == [str(ARBITRARY_UID), f"{site.home} {name}"]
    assert "LD_PRELOAD" not in told.stdout
    assert "NSS_WRAPPER" not in told.stdout
    assert "server=openssh" in site.words


def test_arbitrary_uid_prefers_openssh_where_the_library_is(root: Path, keys: JobKeys) -> None:
    """`--sshd auto` is what images set."""
    require_program("sshd")
    require_library()
    site = Site(root, keys, ARBITRARY_UID)
    with site.running(restricted(*AS_ARBITRARY)):
        words = site.words

    assert "server=openssh" in words


def test_arbitrary_uid_is_served_by_the_builtin_server(root: Path, keys: JobKeys) -> None:
    """It needs neither entry nor library."""
    before, site = restricted(*AS_ARBITRARY), Site(root, keys, ARBITRARY_UID)
    client = f"{site.python} -m mpi_agent ssh"
    with site.running(before, "--sshd", "builtin"):
        told = site.dial(before, client, f"uid-{ARBITRARY_UID}", "id -u; echo $LOGNAME")

    assert told.stdout.splitlines() == [str(ARBITRARY_UID), f"uid-{ARBITRARY_UID}"]


def test_root_without_capabilities_is_served_by_the_builtin_server_and_reads_why(
    root: Path, keys: JobKeys
) -> None:
    """OpenSSH's sshd would start, listen, and refuse every login."""
    require_program("sshd")
    before, site = restricted(*ROOT_WITHOUT_RIGHTS), Site(root, keys, 0)
    client = f"{site.python} -m mpi_agent ssh"
    with site.running(before):
        told = site.dial(before, client, "root", "id -u")
        words = site.words

    assert told.stdout == "0\n"
    assert "server=builtin" in words
    assert "as root it needs CAP_SETGID, CAP_SETUID and CAP_SYS_CHROOT" in words


@pytest.mark.parametrize("name", ["setuid", "setgid", "sys_chroot"])
def test_openssh_as_root_is_refused_without_each_of_its_capabilities(
    root: Path, keys: JobKeys, name: str
) -> None:
    """Whoever insists on it reads which one is missing."""
    require_program("sshd")
    before, site = restricted(f"--bounding-set=-{name}"), Site(root, keys, 0)

    code = site.start(before, "--sshd", "openssh").wait(LIMIT_S)

    assert code == 78
    assert f"as root it needs CAP_{name.upper()}, which this container does not have" in site.words


def test_root_with_the_three_capabilities_is_served_by_openssh(root: Path, keys: JobKeys) -> None:
    """And with nothing else."""
    require_program("sshd")
    require_program("ssh")
    rights = "--bounding-set=-all,+setuid,+setgid,+sys_chroot"
    site = Site(root, keys, 0)
    with site.running(restricted(rights), "--sshd", "openssh"):
        told = site.dial((), "ssh", "root", "id -u")

    assert told.stdout == "0\n"


@pytest.mark.parametrize(("field", "server"), [("!", "builtin"), ("*", "openssh")])
def test_root_that_is_locked_is_served_by_the_builtin_server(
    root: Path, keys: JobKeys, field: str, server: str
) -> None:
    """As images have it after `passwd -l root`; `*` is no lock for a login by key."""
    require_program("sshd")
    shadow = root / "shadow"
    shadow.touch(mode=0o600)
    shadow.write_text(f"root:{field}:20000:0:99999:7:::\nsshd:!:20000::::::\n")
    mount = f'mount --bind {shadow} /etc/shadow && exec "$@"'
    before = restricted("--", require_program("unshare"), "--mount", "sh", "-c", mount, "sh")
    if subprocess.run([*before, "true"], check=False, capture_output=True).returncode != 0:
        pytest.skip("no mount namespace can be made here")
    site = Site(root, keys, 0)
    with site.running(before):
        told = site.dial((), f"{site.python} -m mpi_agent ssh", "root", "id -u")
        words = site.words

    assert told.stdout == "0\n"
    assert f"server={server}" in words
    assert ("locked with `!`" in words) is (server == "builtin")


def test_sessions_need_nothing_that_is_executed_in_the_private_directory(
    root: Path, keys: JobKeys
) -> None:
    """It may be mounted noexec; here the script carries a value with a line break."""
    require_program("sshd")
    require_program("ssh")
    site = Site(root, keys, 0)
    site.environ["LAB_LINES"] = "a\nb"
    mount = f'mount -t tmpfs -o noexec,mode=0700 none {site.home} && exec "$@"'
    before = restricted("--", require_program("unshare"), "--mount", "sh", "-c", mount, "sh")
    popen = site.start((*before,), "--sshd", "openssh", "--ready-file", str(root / "ready"))
    try:
        wait_until("the worker is ready", lambda: (root / "ready").exists())
        told = site.dial((), "ssh", "root", 'echo "$LAB_LINES"')
    finally:
        popen.send_signal(signal.SIGTERM)
        popen.wait(LIMIT_S)

    assert told.stdout == "a\nb\n", told.stderr


def test_low_port_is_refused_by_name(root: Path, keys: JobKeys) -> None:
    """Before sshd says it in its own words."""
    if int(Path("/proc/sys/net/ipv4/ip_unprivileged_port_start").read_text()) <= 22:
        pytest.skip("every account may listen on port 22 here")
    before, site = restricted(*AS_ARBITRARY), Site(root, keys, ARBITRARY_UID)
    site.port = 22

    code = site.start(before).wait(LIMIT_S)

    assert code == 78
    assert "cannot listen on port 22" in site.words
    assert "hint: choose another with --ssh-port" in site.words


def test_launcher_calls_the_client_by_a_command_that_workers_have_too(tmp_path: Path) -> None:
    """Open MPI's daemons look for it on every host."""
    require_library()
    nobody = Account(name="uid-5", uid=5, gid=0, has_passwd_entry=False, home=None)
    somebody = Account(name="a", uid=6, gid=6, has_passwd_entry=True, home=tmp_path)
    state = StateDirectory(tmp_path)

    command = client_command(Backend.OPENSSH, nobody, state)
    write_client(Backend.OPENSSH, nobody, state)

    assert command == f"/bin/sh {tmp_path}/ssh_client"
    assert "LD_PRELOAD" in (tmp_path / "ssh_client").read_text()
    assert client_command(Backend.OPENSSH, somebody, state) is None


def test_job_runs_under_an_arbitrary_uid_through_openssh(root: Path) -> None:
    """Open MPI calls the script in place of ssh, and ranks do not have the library."""
    require_library()
    for program in ("sshd", "ssh", "mpirun.openmpi"):
        require_program(program)
    before = restricted(*AS_ARBITRARY)
    home = root / "home"
    home.mkdir()
    os.chown(home, ARBITRARY_UID, 0)
    job = ("mpirun.openmpi", "sh", "-c", "echo $MPI_AGENT_WORKER_NAME $(id -u) [$LD_PRELOAD]")
    python = python_for(ARBITRARY_UID)

    options = ("--workers", "2", "--slots", "1", "--sshd", "openssh", "--ssh", "openssh")
    ended = subprocess.run(
        [*before, python, "-m", "mpi_agent", "local", *options, "--", *job],
        env={**environment_for(ARBITRARY_UID), "HOME": str(home), "PATH": "/usr/bin:/bin"},
        cwd=home,
        capture_output=True,
        text=True,
        timeout=2 * LIMIT_S,
        check=False,
    )

    assert ended.returncode == 0, ended.stderr
    assert sorted(ended.stdout.splitlines()) == [
        f"local-worker-{number} {ARBITRARY_UID} []" for number in (0, 1)
    ]
