"""Who reads a file asks for one piece after the other: answered one behind the other, as each would be alone."""

import random
import struct

import pytest

from dittofs.client.nfs3 import EXCHANGES, attributes
from dittofs.protocols.nfs3 import types as t
from dittofs.rpc.calling import xid_of
from dittofs.rpc.conversation import Conversation
from dittofs.rpc.program import Peer
from dittofs.rpc.records import Reassembler, frame
from tests.protocols.world import ALICE, ROOT, World

SIZE = 200_001


class Stream:
    """A connection: what is sent in one piece, and the answers in the order in which they come."""

    def __init__(self, world: World):
        self.world = world
        self.peer = Peer(address="192.0.2.1", port=700, local_address="192.0.2.9", transport="tcp", is_loopback=False)
        self.conversation = Conversation(
            world.dispatcher, self.peer, bool, self._take, max_record=1 << 21, max_unanswered=16
        )
        self.stops = 0
        """The next so many times that there is enough to be sent, nobody takes it."""
        self._replies = Reassembler(max_record_size=1 << 21)
        self.answers: list[bytes] = []

    def send(self, records: list[bytes]) -> None:
        data = b"".join(map(frame, records))
        position = 0
        while position < len(data):
            position = self.conversation.serve_all(data, position)
            assert position == len(data) or self.conversation.is_full, "it stopped, and nobody knows why"
            self._take()
            self.conversation.is_full = False
        assert not self.conversation.unanswered

    def _take(self) -> None:
        for piece in self.conversation.take_out():
            self.answers += self._replies.feed(bytes(piece))
        if self.stops:
            self.stops -= 1
            self.conversation.is_full = True


def question(chance: random.Random, files: list[bytes], xid: int) -> bytes:
    file = files[0] if chance.random() < 0.8 else chance.choice(files)
    if chance.random() < 0.1:
        return EXCHANGES["GETATTR"].encode(xid, t.GETATTR3args(file), credential=ROOT)
    offset = chance.choice([0, 1, 4096, SIZE - 1, SIZE, SIZE + 7, 2**63, chance.randrange(SIZE)])
    count = chance.choice([0, 1, 2, 3, 4, 512, 4096, 17_000, 70_000, 2**32 - 1])
    credential = ROOT if chance.random() < 0.95 else ALICE
    return EXCHANGES["READ"].encode(xid, t.READ3args(file, offset, count), credential=credential)


def test_each_is_answered_as_if_it_were_alone(world: World, root: bytes) -> None:
    seed = random.randrange(2**32)
    print("seed", seed)
    chance = random.Random(seed)
    nfs = world.nfs()
    files: list[bytes] = []
    for name in (b"one", b"another"):
        file = nfs.create(root, name, attributes(mode=0o600)).obj
        assert file is not None
        nfs.write(file, 0, chance.randbytes(SIZE), t.stable_how.UNSTABLE)
        files.append(file)
    stream = Stream(world)
    xid = 0
    for _ in range(30):
        stream.stops = chance.randrange(3)
        records = [question(chance, files, xid + number) for number in range(chance.randrange(1, 40))]
        xid += len(records)
        stream.send(records)
        assert [xid_of(reply) for reply in stream.answers] == [struct.unpack_from(">I", each)[0] for each in records]
        for record, reply in zip(records, stream.answers, strict=True):
            assert reply == world.loop.run_until_complete(world.answer(record, stream.peer))
        stream.answers.clear()
    assert world.dispatcher.remembered > 100


@pytest.mark.parametrize("cut", [1, 3, 4, 30, 100, 150])
def test_a_call_that_is_not_all_here_yet_is_left_where_it_stands(world: World, root: bytes, cut: int) -> None:
    nfs = world.nfs()
    file = nfs.create(root, b"file").obj
    assert file is not None
    nfs.write(file, 0, bytes(8192), t.stable_how.UNSTABLE)
    stream = Stream(world)
    records = [EXCHANGES["READ"].encode(xid, t.READ3args(file, xid * 10, 100), credential=ROOT) for xid in range(5)]
    whole = b"".join(map(frame, records))
    cut = min(cut, len(records[0]) + 3)
    assert stream.conversation.serve_all(whole[:-cut], 0) == len(whole) - len(frame(records[-1]))
    assert stream.conversation.served == 4


def test_what_is_longer_than_the_others_is_none_of_the_series(world: World, root: bytes) -> None:
    nfs = world.nfs()
    file = nfs.create(root, b"file").obj
    assert file is not None
    nfs.write(file, 0, b"0123456789", t.stable_how.UNSTABLE)
    stream = Stream(world)
    reads = [EXCHANGES["READ"].encode(xid, t.READ3args(file, xid, 2), credential=ROOT) for xid in range(4)]
    reads[2] += bytes(8)  # what lies behind the arguments is none of our business
    stream.send(reads)
    found = [EXCHANGES["READ"].decode(reply, xid).value for xid, reply in enumerate(stream.answers)]
    assert [bytes(each.data) for each in found] == [b"01", b"12", b"23", b"34"]
    assert [each.eof for each in found] == [False] * 4


def test_bytes_that_were_read_are_counted(world: World, root: bytes) -> None:
    nfs = world.nfs()
    file = nfs.create(root, b"file").obj
    assert file is not None
    nfs.write(file, 0, bytes(8192), t.stable_how.UNSTABLE)
    before = world.nfs3.bytes_read
    (counts,) = [each for each in world.dispatcher.counts if each.name == "READ"]
    answered = counts.ok
    stream = Stream(world)
    stream.send([EXCHANGES["READ"].encode(xid, t.READ3args(file, 0, 100), credential=ROOT) for xid in range(20)])
    assert world.nfs3.bytes_read - before == 2000
    assert counts.ok - answered == 20
    assert stream.conversation.served == 20
