"""What was answered before is told again only while it is true [NFS-1]: `World` compares."""

import random
from collections.abc import Iterator

import pytest

from dittofs.client.nfs3 import EXCHANGES, Nfs3Client, Nfs3Error, attributes
from dittofs.protocols.nfs3 import types as t
from dittofs.stores.volatile import VolatileTransactions
from tests.protocols.world import ALICE, BOB, ROOT, World

NAMES = [b"a", b"b", b"c"]


@pytest.fixture(params=["kept as they are", "encoded"])
def world(request: pytest.FixtureRequest) -> Iterator[World]:
    """With either of the drivers that can tell what has changed."""
    made = World(transactions=VolatileTransactions()) if request.param == "kept as they are" else World()
    yield made
    made.close()


def ask_everything(clients: list[Nfs3Client], root: bytes) -> None:
    for client in clients:
        client.getattr(root)
        client.access(root, 63)
        for name in NAMES:
            try:
                file = client.lookup(root, name).object
                client.getattr(file)
                client.access(file, 63)
                for offset in (0, 10, 20, 90):
                    client.read(file, offset, 10)
            except Nfs3Error:
                pass


def change_something(chance: random.Random, nfs: Nfs3Client, root: bytes) -> None:
    name, other = chance.choice(NAMES), chance.choice(NAMES)
    file = None
    try:
        file = nfs.lookup(root, name).object
    except Nfs3Error:
        nfs.create(root, name)
        return
    match chance.randrange(8):
        case 0:
            nfs.remove(root, name)
        case 1:
            nfs.rename(root, name, root, other)
        case 2:
            nfs.setattr(file, attributes(mode=chance.choice([0o600, 0o644, 0o666])))
        case 3:
            nfs.write(file, 0, chance.randbytes(chance.randrange(1, 100)), t.stable_how.UNSTABLE)
        case 4:
            nfs.write(file, 0, chance.randbytes(chance.randrange(1, 100)), t.stable_how.FILE_SYNC)
        case 5:
            nfs.commit(file)
        case 6:
            nfs.setattr(root, attributes(mode=chance.choice([0o755, 0o1777])))
        case 7:
            nfs.setattr(file, attributes(size=chance.randrange(100)))


def test_whatever_changes_no_old_answer_is_told(world: World, root: bytes) -> None:
    seed = random.randrange(2**32)
    print("seed", seed)
    chance = random.Random(seed)
    clients = [world.nfs(ROOT), world.nfs(ALICE), world.nfs(BOB)]
    for _ in range(60):
        change_something(chance, clients[0], root)
        for _ in range(3):
            ask_everything(clients, root)
    assert world.dispatcher.remembered > 500


def test_only_the_same_client_is_told_again(world: World, root: bytes) -> None:
    for address in ("192.0.2.1", "192.0.2.2"):
        before = world.dispatcher.remembered
        world.nfs(address=address).getattr(root)
        assert world.dispatcher.remembered == before
        for _ in range(2):  # only what is asked a second time is kept
            world.nfs(address=address).getattr(root)
        assert world.dispatcher.remembered > before


def test_who_reads_on_is_answered_from_what_is_known(world: World, root: bytes) -> None:
    nfs = world.nfs(ALICE)
    file = nfs.create(root, b"file", attributes(mode=0o600)).obj
    assert file is not None
    nfs.write(file, 0, b"one, two, three", t.stable_how.UNSTABLE)
    assert [bytes(nfs.read(file, offset, 5).data) for offset in (0, 5, 10)] == [b"one, ", b"two, ", b"three"]
    assert world.dispatcher.remembered == 2
    world.nfs(ALICE).write(file, 5, b"TWO", t.stable_how.UNSTABLE)
    assert bytes(nfs.read(file, 5, 3).data) == b"TWO"
    nfs.read(file, 0, 3)
    assert world.dispatcher.remembered == 3
    with pytest.raises(Nfs3Error, match="ACCES"):
        world.nfs(BOB).read(file, 0, 3)
    world.nfs(ROOT).setattr(file, attributes(mode=0o000, uid=0))
    with pytest.raises(Nfs3Error, match="ACCES"):
        nfs.read(file, 5, 3)
    world.nfs(ROOT).remove(root, b"file")
    with pytest.raises(Nfs3Error, match="STALE"):
        nfs.read(file, 0, 3)
    assert world.dispatcher.remembered == 3


def test_what_lies_behind_the_arguments_is_not_taken_for_a_place(world: World, root: bytes) -> None:
    nfs, transport = world.nfs(), world.transport()
    file = nfs.create(root, b"file").obj
    assert file is not None
    nfs.write(file, 0, b"0123456789", t.stable_how.UNSTABLE)
    for xid in range(3):
        place = t.READ3args(file, 2, 3)
        transport.send_record(EXCHANGES["READ"].encode(xid, place, credential=ROOT) + bytes(11) + b"\x05")
        reply = EXCHANGES["READ"].decode(transport.receive_record(xid), xid)
        assert bytes(reply.value.data) == b"234"


def test_a_file_that_is_read_in_one_piece_is_not_remembered(world: World, root: bytes) -> None:
    nfs = world.nfs()
    file = nfs.create(root, b"file").obj
    assert file is not None
    nfs.write(file, 0, b"all of it", t.stable_how.UNSTABLE)
    nfs.read(file, 0, 100)
    assert len(world.dispatcher.memory) == 0


def test_errors_are_not_told_again(world: World, root: bytes) -> None:
    nfs = world.nfs()
    for _ in range(3):
        with pytest.raises(Nfs3Error, match="NOENT"):
            nfs.lookup(root, b"missing")
    assert world.dispatcher.remembered == 0
    nfs.create(root, b"missing")
    nfs.lookup(root, b"missing")
