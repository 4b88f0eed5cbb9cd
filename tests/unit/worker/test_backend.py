"""Which ssh server serves which account."""

from __future__ import annotations

from dataclasses import replace

import pytest

from mpi_agent.errors import SettingsError, SshdConfigError
from mpi_agent.setting_words import Backend
from mpi_agent.worker.backend import (
    NEEDED_AS_ROOT,
    ServerFacts,
    check_port,
    choose_backend,
)

ROOT = ServerFacts(
    uid=0,
    has_passwd_entry=True,
    shell_takes_commands=True,
    is_locked=False,
    has_chroot_directory=True,
    capabilities=frozenset({*NEEDED_AS_ROOT, "CAP_NET_BIND_SERVICE"}),
    nss_wrapper=None,
    sshd="/usr/sbin/sshd",
)
ORDINARY = replace(ROOT, uid=1000, capabilities=frozenset(), has_chroot_directory=False)
ARBITRARY = replace(ORDINARY, uid=1000650000, has_passwd_entry=False)


@pytest.mark.parametrize(
    "facts",
    [ROOT, ORDINARY, replace(ORDINARY, is_locked=True)],
    ids=["root", "ordinary", "ordinary and locked"],
)
def test_openssh_serves_where_it_can(facts: ServerFacts) -> None:
    """An sshd that is not root logs in its own account, locked or not."""
    choice = choose_backend(Backend.AUTO, facts)

    assert choice.backend is Backend.OPENSSH
    assert choice.why_not_openssh is None
    assert not choice.needs_nss_wrapper


OBSTACLES = {
    "no sshd": (replace(ROOT, sshd=None), "there is no sshd in this image"),
    "no chroot": (
        replace(ROOT, capabilities=frozenset({"CAP_SETUID", "CAP_SETGID"})),
        "as root it needs CAP_SYS_CHROOT, which",
    ),
    "all dropped": (
        replace(ROOT, capabilities=frozenset()),
        "CAP_SETGID, CAP_SETUID and CAP_SYS_CHROOT",
    ),
    "locked": (replace(ROOT, is_locked=True), "locked with `!`"),
    "read-only root": (replace(ROOT, has_chroot_directory=False), "/run/sshd"),
    "no entry": (ARBITRARY, "it refuses uid 1000650000, which has no passwd entry"),
    "nologin": (replace(ORDINARY, shell_takes_commands=False), "takes no commands"),
}


@pytest.mark.parametrize(("facts", "words"), OBSTACLES.values(), ids=OBSTACLES)
def test_the_builtin_server_stands_in_and_says_why(facts: ServerFacts, words: str) -> None:
    """Rather than an sshd that refuses its first login."""
    choice = choose_backend(Backend.AUTO, facts)

    assert choice.backend is Backend.BUILTIN
    assert choice.why_not_openssh is not None
    assert words in choice.why_not_openssh


@pytest.mark.parametrize(("facts", "words"), OBSTACLES.values(), ids=OBSTACLES)
def test_openssh_that_cannot_serve_is_refused_by_name(facts: ServerFacts, words: str) -> None:
    """Whoever asks for it reads the cause, and what would help."""
    with pytest.raises(SshdConfigError) as refusal:
        choose_backend(Backend.OPENSSH, facts)

    assert words in refusal.value.summary
    assert refusal.value.exit_code == 78
    assert refusal.value.hint


def test_builtin_server_needs_nothing() -> None:
    """It opens a socket and starts programs, as whoever it is."""
    facts = replace(ARBITRARY, sshd=None)

    assert choose_backend(Backend.BUILTIN, facts).backend is Backend.BUILTIN


def test_the_library_cures_a_uid_without_passwd_entry() -> None:
    """libnss_wrapper shows OpenSSH's programs the account."""
    choice = choose_backend(Backend.AUTO, replace(ARBITRARY, nss_wrapper="/usr/lib/x.so"))

    assert (choice.backend, choice.needs_nss_wrapper) == (Backend.OPENSSH, True)


def test_low_port_without_the_right_is_refused_with_another() -> None:
    """Sshd would only say `Bind to port 22 failed`."""
    check_port(22, ROOT)
    check_port(2222, ORDINARY)
    check_port(22, replace(ORDINARY, first_free_port=0))

    with pytest.raises(SettingsError, match="cannot listen on port 22: below 1024") as refusal:
        check_port(22, ORDINARY)

    assert refusal.value.hint is not None
    assert "2222" in refusal.value.hint
