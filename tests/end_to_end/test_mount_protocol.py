"""[NFS-2]: MOUNT version 3, and version 1 for old umount and showmount."""

from collections.abc import Iterator
from dataclasses import replace

import pytest

from dittofs.client import mount as m
from dittofs.client.transports import TcpTransport, Transport, UdpTransport
from dittofs.protocols.mount.types import dirpath, fhstatus, mountstat3
from dittofs.rpc.calling import Exchange
from tests.end_to_end.server_process import EMBEDDED, ServerProcess

pytestmark = pytest.mark.slow

SHARES = """
[[shares]]
name = "/export"
squash = "none"
security = ["sys", "none"]
[[shares]]
name = "/export/inner"
[[shares]]
name = "/some"
clients = ["127.0.0.0/8", "2001:db8::/32"]
"""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    with ServerProcess(
        tmp_path_factory.mktemp("server"), EMBEDDED + SHARES, server='listen = ["0.0.0.0", "::1"]'
    ) as running:
        yield running


@pytest.fixture(params=[TcpTransport, UdpTransport], ids=["tcp", "udp"])
def transport(request: pytest.FixtureRequest, server: ServerProcess) -> Iterator[Transport]:
    with server.transport(over=request.param) as made:
        made.call(m.UMNTALL)
        yield made


def version_1(exchange: Exchange) -> Exchange:
    return replace(exchange, version=1)


def test_mnt_gives_the_handle_and_the_flavours(server: ServerProcess, transport: Transport) -> None:
    granted = m.mount(transport, "/export")
    assert granted.auth_flavors == [1, 0]
    with server.connect() as client:
        assert client.root == granted.fhandle
        directory = bytes(client.mkdir(client.root, b"directory").obj)
        assert m.mount(transport, "/export/directory").fhandle == directory
        client.rmdir(client.root, b"directory")
    assert m.mount(transport, "/export/inner").fhandle != granted.fhandle, "the longest name of a share counts"
    assert m.mount(transport, "//export/").fhandle == granted.fhandle


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/nowhere", mountstat3.MNT3ERR_NOENT),
        ("/export/missing", mountstat3.MNT3ERR_NOENT),
        ("/", mountstat3.MNT3ERR_NOENT),
        ("", mountstat3.MNT3ERR_NOENT),
        ("/export/../..", mountstat3.MNT3_OK),
        ("/export/" + "n" * 300, mountstat3.MNT3ERR_NAMETOOLONG),
    ],
)
def test_mnt_of_what_is_not_there(transport: Transport, path: str, status: mountstat3) -> None:
    if status is mountstat3.MNT3_OK:
        assert m.mount(transport, path).fhandle == m.mount(transport, "/export").fhandle, "above a share is the share"
        return
    with pytest.raises(m.MountRefused) as refused:
        m.mount(transport, path)
    assert refused.value.status is status


def test_mnt_of_a_file_is_refused(server: ServerProcess) -> None:
    with server.connect() as client:
        client.create(client.root, b"file")
        with pytest.raises(m.MountRefused) as refused:
            m.mount(client.transport, "/export/file")
        assert refused.value.status is mountstat3.MNT3ERR_NOTDIR


def test_dump_lists_who_mounted_what_until_umnt(transport: Transport) -> None:
    m.mount(transport, "/export")
    m.mount(transport, "/some")
    m.mount(transport, "/some")
    assert m.mounts(transport) == [("127.0.0.1", "/export"), ("127.0.0.1", "/some")]
    m.unmount(transport, "/export")
    assert m.mounts(transport) == [("127.0.0.1", "/some")]
    m.unmount(transport, "/never mounted")
    assert transport.call(version_1(m.DUMP)) == transport.call(m.DUMP)


def test_umntall_takes_out_the_caller_only(server: ServerProcess) -> None:
    with server.transport(source="127.0.0.7") as one, server.transport(source="127.0.0.8") as two:
        m.mount(one, "/export")
        m.mount(one, "/some")
        m.mount(two, "/export")
        one.call(version_1(m.UMNTALL))
        assert ("127.0.0.8", "/export") in m.mounts(two)
        assert not [host for host, _ in m.mounts(two) if host == "127.0.0.7"]
        two.call(m.UMNTALL)


def test_export_lists_shares_and_their_networks(transport: Transport) -> None:
    assert m.exports(transport) == {"/export": [], "/export/inner": [], "/some": ["127.0.0.0/8", "2001:db8::/32"]}
    assert transport.call(version_1(m.EXPORT)) == transport.call(m.EXPORT)


def test_version_1_gives_no_handles(transport: Transport) -> None:
    """They would be for NFS version 2, which is not served; NULL, UMNT and the lists are."""
    transport.call(version_1(m.NULL))
    answer = transport.call(Exchange("MOUNTPROC_MNT", m.PROGRAM, 1, 1, dirpath, fhstatus), b"/export")
    assert answer.discriminant == mountstat3.MNT3ERR_NOTSUPP
    m.mount(transport, "/export")
    transport.call(version_1(m.UMNT), b"/export")
    assert m.mounts(transport) == []
