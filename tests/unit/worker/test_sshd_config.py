"""The text of sshd_config."""

from __future__ import annotations

from dataclasses import replace

import pytest

from mpi_agent.worker.sshd_config import (
    SshdPlan,
    announcement_of,
    quote_argument,
    render_sshd_config,
)

PLAN = SshdPlan(
    port=2222,
    listen_address=None,
    account="mpiuser",
    worker_name="pi-worker-0",
    host_key="/run/mpi-agent/host_key",
    host_certificate="/run/mpi-agent/host_key-cert.pub",
    authorized_keys="/run/mpi-agent/authorized_keys",
    strict_modes=True,
    variables=(("PATH", "/opt/a b:/bin"), ("SHLVL", "1")),
)


def lines_of(plan: SshdPlan, version: tuple[int, int] = (9, 2)) -> list[str]:
    """Return the rendered lines."""
    return render_sshd_config(plan, version=version).splitlines()


@pytest.mark.parametrize(
    "line",
    [
        "Port 2222",
        "AllowUsers mpiuser",
        "AuthenticationMethods publickey",
        "PasswordAuthentication no",
        "KbdInteractiveAuthentication no",
        "PermitRootLogin prohibit-password",
        "UsePAM no",
        "DisableForwarding yes",
        "PermitTTY no",
        "PermitTunnel no",
        "UseDNS no",
        "StrictModes yes",
        "VersionAddendum mpi-agent pi-worker-0",
    ],
)
def test_configuration_says_it_without_being_asked(line: str) -> None:
    """Secure without configuration, and nothing is left to defaults that differ by version."""
    assert line in lines_of(PLAN)


def test_no_file_transfer_is_offered() -> None:
    """Commands are all that mpirun needs."""
    assert not [line for line in lines_of(PLAN) if line.startswith("Subsystem")]


def test_all_variables_stand_in_one_line() -> None:
    """OpenSSH 9.2 takes the first SetEnv line and drops the others without a word."""
    (line,) = [line for line in lines_of(PLAN) if line.startswith("SetEnv")]

    assert line == 'SetEnv "PATH=/opt/a b:/bin" "SHLVL=1"'


def test_address_is_left_out_when_every_address_is_meant() -> None:
    """ListenAddress 0.0.0.0 would leave IPv6 pods alone."""
    assert not [line for line in lines_of(PLAN) if line.startswith("ListenAddress")]
    assert "ListenAddress 127.1.2.3" in lines_of(replace(PLAN, listen_address="127.1.2.3"))


def test_certificate_is_left_out_when_there_is_none() -> None:
    """A worker with the public key alone still serves."""
    plan = replace(PLAN, host_certificate=None)

    assert not [line for line in lines_of(plan) if line.startswith("HostCertificate")]


@pytest.mark.parametrize(("version", "said"), [((9, 2), False), ((9, 8), True), ((10, 0), True)])
def test_penalties_are_off_where_sshd_knows_them(version: tuple[int, int], said: bool) -> None:
    """An older sshd refuses the word, a newer one would shut our own probes out."""
    assert ("PerSourcePenalties no" in lines_of(PLAN, version)) is said


def test_percent_in_a_path_is_doubled_where_sshd_expands_it() -> None:
    """AuthorizedKeysFile knows tokens such as %h."""
    plan = replace(PLAN, authorized_keys="/tmp/100%/keys")

    assert 'AuthorizedKeysFile "/tmp/100%%/keys"' in lines_of(plan)


@pytest.mark.parametrize(
    ("text", "quoted"),
    [
        ("plain", '"plain"'),
        ("a b", '"a b"'),
        ('say "x"', '"say \\"x\\""'),
        ("it's", '"it\\\'s"'),
        ("a\\b", '"a\\\\b"'),
        ("#$;", '"#$;"'),
    ],
)
def test_argument_is_quoted_as_sshd_reads_it(text: str, quoted: str) -> None:
    """The contract tests send these through a real sshd."""
    assert quote_argument(text) == quoted


def test_line_break_is_refused() -> None:
    """It would end the directive and start another."""
    with pytest.raises(ValueError, match="line break"):
        quote_argument("a\nPermitRootLogin yes")


def test_announcement_is_fit_for_a_banner() -> None:
    """RFC 4253 allows 255 printable characters."""
    assert announcement_of("wörker 1\r\n") == "mpi-agent w_rker_1__"
    assert len(announcement_of("x" * 300)) < 120
