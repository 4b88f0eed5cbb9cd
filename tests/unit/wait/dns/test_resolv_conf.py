"""What a resolv.conf says."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mpi_agent.wait.dns.resolv_conf import ResolverSettings, parse_resolv_conf

POD = """\
search default.svc.cluster.local svc.cluster.local cluster.local
nameserver 10.96.0.10
options ndots:5
"""


def test_a_pods_file_is_read() -> None:
    """As the kubelet writes it."""
    assert parse_resolv_conf(POD) == ResolverSettings(
        servers=("10.96.0.10",),
        search=("default.svc.cluster.local", "svc.cluster.local", "cluster.local"),
        ndots=5,
    )


@pytest.mark.parametrize(
    ("option", "settings"),
    [
        ("ndots:2", ResolverSettings(ndots=2)),
        ("ndots:99", ResolverSettings(ndots=15)),
        ("timeout:1", ResolverSettings(timeout_s=1)),
        ("timeout:0", ResolverSettings(timeout_s=1)),
        ("timeout:600", ResolverSettings(timeout_s=30)),
        ("attempts:4", ResolverSettings(attempts=4)),
        ("attempts:0", ResolverSettings(attempts=1)),
        ("attempts:9", ResolverSettings(attempts=5)),
        ("rotate", ResolverSettings(rotates=True)),
        ("edns0", ResolverSettings(extended=True)),
        ("use-vc", ResolverSettings(tcp_only=True)),
        ("no-aaaa", ResolverSettings(asks_ipv6=False)),
        ("ndots:many", ResolverSettings()),
        ("single-request-reopen", ResolverSettings()),
    ],
)
def test_an_option_means_what_it_means_to_libc(option: str, settings: ResolverSettings) -> None:
    """Within libc's limits; what is not understood is skipped."""
    assert parse_resolv_conf(f"options {option}\n") == settings


def test_the_last_of_search_and_domain_counts() -> None:
    """They exclude each other."""
    assert parse_resolv_conf("search a b\ndomain c\n").search == ("c",)
    assert parse_resolv_conf("domain c\nsearch a b\n").search == ("a", "b")


def test_servers_are_addresses_of_either_family_and_three_at_most() -> None:
    """The fourth is never asked by libc either."""
    text = "nameserver fd00::10\nnameserver dns.example\n" + "nameserver 10.0.0.1\n" * 4

    assert parse_resolv_conf(text).servers == ("fd00::10", "10.0.0.1", "10.0.0.1")


def test_comments_and_indented_lines_are_skipped() -> None:
    """A keyword starts in the first column."""
    text = "# nameserver 10.0.0.1\n; nameserver 10.0.0.2\n  nameserver 10.0.0.3\n"

    assert parse_resolv_conf(text) == ResolverSettings()


@given(st.text())
def test_no_text_is_too_strange(text: str) -> None:
    """The file may be anything; it is then read as an empty one."""
    assert isinstance(parse_resolv_conf(text), ResolverSettings)
