"""The printed mount commands fit the situation [OPS-1] [NFS-3]."""

import shlex
from dataclasses import replace

import pytest

from dittofs.cli.mounting import PortMapper, Situation, linux_command, macos_command, mount_text


def situation(
    port_mapper: PortMapper = PortMapper.OURS,
    *,
    addresses: tuple[str, ...] = ("192.0.2.7", "127.0.0.1"),
    shares: tuple[str, ...] = ("/export",),
    why: str = "",
    is_macos: bool = False,
    is_portmap_off: bool = False,
) -> Situation:
    return Situation(
        addresses=addresses,
        port=12049,
        port_mapper=port_mapper,
        shares=shares,
        why_no_port_mapper=why,
        is_macos=is_macos,
        is_portmap_off=is_portmap_off,
    )


def options_of(command: str) -> set[str]:
    words = shlex.split(command)
    return set(words[words.index("-o") + 1].split(","))


def test_without_our_lock_service_there_are_no_locks() -> None:
    """[NFS-3]: the kernel's lockd of the server's host has the program, and rpcbind names it."""
    taken = replace(situation(PortMapper.HOST), is_lock_service_taken=True)
    assert options_of(linux_command(taken, "192.0.2.7", "/export")) == {"vers=3", "nolock"}
    assert "another lock service" in mount_text(taken)


@pytest.mark.parametrize("port_mapper", [PortMapper.OURS, PortMapper.HOST])
def test_with_a_port_mapper_no_ports_are_needed(port_mapper: PortMapper) -> None:
    command = linux_command(situation(port_mapper), "192.0.2.7", "/export")
    assert command == ("sudo mkdir -p /mnt/export && sudo mount -t nfs -o vers=3 192.0.2.7:/export /mnt/export")
    assert options_of(macos_command(situation(port_mapper), "192.0.2.7", "/export")) == {"vers=3", "tcp"}


def test_without_a_port_mapper_every_port_is_named_and_locks_are_off() -> None:
    where = situation(PortMapper.NOBODY)
    ports = {"vers=3", "port=12049", "mountport=12049"}
    assert options_of(linux_command(where, "192.0.2.7", "/export")) == ports | {
        "proto=tcp",
        "mountproto=tcp",
        "nolock",
    }
    assert options_of(macos_command(where, "192.0.2.7", "/export")) == ports | {"tcp", "nolocks"}


def test_without_port_111_the_text_says_why_and_how_to_get_it() -> None:
    text = mount_text(situation(PortMapper.NOBODY, why="permission denied"))
    assert "permission denied" in text
    assert "nolock: clients find the lock service only through port 111" in text
    assert all(hint in text for hint in ("root", "setcap", "ip_unprivileged_port_start=111", "rpcbind"))


def test_on_macos_the_advice_has_no_linux_commands() -> None:
    text = mount_text(situation(PortMapper.NOBODY, is_macos=True))
    assert "run as root" in text
    assert "setcap" not in text
    assert "sysctl" not in text


def test_no_advice_on_port_111_for_whoever_turned_it_off() -> None:
    text = mount_text(situation(PortMapper.NOBODY, is_portmap_off=True))
    assert "To allow it" not in text
    assert "port=12049" in text


@pytest.mark.parametrize("is_macos", [False, True])
def test_on_the_servers_own_host_locks_are_off_and_it_says_why(is_macos: bool) -> None:
    """[NFS-3]: the kernel's lockd claims program 100021 on its own host."""
    text = mount_text(situation(PortMapper.OURS, is_macos=is_macos))
    here = text[text.index("From this machine") :]
    assert "127.0.0.1:/export" in here
    assert ("nolocks" if is_macos else "vers=3,nolock ") in here
    assert "the kernel's own lock service claims the same RPC program" in here
    assert "nolock" not in text[: text.index("From this machine")]


def test_ipv6_addresses_are_bracketed_and_quoted_for_the_shell() -> None:
    where = situation(PortMapper.NOBODY)
    words = shlex.split(linux_command(where, "2001:db8::1", "/export"))
    assert words[-2] == "[2001:db8::1]:/export"
    assert {"proto=tcp6", "mountproto=tcp6"} <= options_of(linux_command(where, "2001:db8::1", "/export"))


def test_odd_share_names_survive_the_shell() -> None:
    words = shlex.split(linux_command(situation(), "192.0.2.7", "/it's a share"))
    assert words[-2:] == ["192.0.2.7:/it's a share", "/mnt/it's a share"]
    assert shlex.split(linux_command(situation(), "192.0.2.7", "/"))[-2:] == ["192.0.2.7:/", "/mnt"]


def test_a_server_on_loopback_only_has_nothing_for_other_machines() -> None:
    assert "From another machine" not in mount_text(situation(addresses=("127.0.0.1", "::1")))
