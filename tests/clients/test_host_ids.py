"""Ids of NLM hosts: no two hosts share one, whatever they call themselves [LOCK-2] [NLM-7] [KEEP-2]."""

from hypothesis import given
from hypothesis import strategies as st

from dittofs.clients.host_ids import host_id, host_name

ADDRESSES = st.one_of(st.ip_addresses(v=4).map(str), st.ip_addresses(v=6).map(str))


@given(st.tuples(st.binary(max_size=40), ADDRESSES), st.tuples(st.binary(max_size=40), ADDRESSES))
def test_two_hosts_never_share_an_id(one: tuple[bytes, str], other: tuple[bytes, str]) -> None:
    """Names hold any byte, such as the space and the colon that join other parts."""
    assert (host_id(*one) == host_id(*other)) == (_plain(one) == _plain(other))


@given(st.binary(max_size=1024))
def test_every_name_becomes_printable_text(name: bytes) -> None:
    assert host_name(name).isprintable()
    assert host_name(name).isascii()


def test_a_name_cannot_reach_into_the_address() -> None:
    assert host_id(b"a", "192.0.2.1") != host_id(b"192.0.2.1 a", "")
    assert host_id(b"%41", "192.0.2.1") != host_id(b"A", "192.0.2.1")


def test_an_ipv4_address_inside_an_ipv6_one_is_the_same_host() -> None:
    """[NLM-7]: what a dual-stack socket tells."""
    assert host_id(b"a", "::ffff:192.0.2.1") == host_id(b"a", "192.0.2.1")


def test_ordinary_names_are_readable() -> None:
    assert host_id(b"web-1.example.org", "192.0.2.1") == "192.0.2.1 web-1.example.org"


def _plain(host: tuple[bytes, str]) -> tuple[bytes, str]:
    name, address = host
    return name, address.removeprefix("::ffff:") if "." in address else address
