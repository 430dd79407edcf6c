"""MOUNT without sockets [NFS-2]: the list of mounts is a courtesy with a bound, and every error has a status."""

from ipaddress import ip_network

import pytest

from dittofs.client import mount as m
from dittofs.model import errors
from dittofs.protocols.mount.errors import STATUS, status_of
from dittofs.protocols.mount.mounts import MOUNTS_KEPT, Mount, MountList
from dittofs.protocols.mount.types import mountstat3
from tests.protocols.world import World


def test_the_list_keeps_the_newest() -> None:
    mounts = MountList()
    for number in range(MOUNTS_KEPT + 5):
        mounts.add(Mount(f"192.0.2.{number}", b"/export"))
    kept = {mount.address for mount in mounts}
    assert len(kept) == MOUNTS_KEPT
    assert "192.0.2.4" not in kept
    assert f"192.0.2.{MOUNTS_KEPT + 4}" in kept


def test_a_client_outside_the_networks_hears_that_it_may_not(world: World) -> None:
    world.add_share("/some", clients=(ip_network("192.0.2.0/24"),))
    assert m.mount(world.transport(address="192.0.2.77"), "/some").fhandle
    with pytest.raises(m.MountRefused) as refused:
        m.mount(world.transport(address="198.51.100.1"), "/some")
    assert refused.value.status is mountstat3.MNT3ERR_ACCES
    assert m.mounts(world.transport()) == [("192.0.2.77", "/some")], "a refused mount is none"


def test_every_error_of_files_has_a_status() -> None:
    def every(kind: type[errors.FileError]) -> list[type[errors.FileError]]:
        return [kind, *(deeper for sub in kind.__subclasses__() for deeper in every(sub))]

    for kind in every(errors.FileError):
        assert status_of(kind("why")) in mountstat3
    assert set(STATUS) <= set(every(errors.FileError))


def test_a_list_fits_a_datagram(world: World) -> None:
    """[NFS-6]: over UDP it is cut, for an answer that cannot be sent is none; over TCP it is whole."""
    world.add_share()
    for number in range(100):
        m.mount(world.transport(address=f"192.0.2.{number}"), "/export" + "/." * 450)
    over_udp = world.transport(transport="udp")
    assert len(m.mounts(world.transport())) == 100
    assert 50 < len(m.mounts(over_udp)) < 100
    assert over_udp.sizes[-1] <= 65_507
