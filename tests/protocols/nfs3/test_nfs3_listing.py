"""READDIR and READDIRPLUS: what is kept of a listing never shows.  Every answer is compared with one that is made from
the plain definition, entry by entry, while the directory and its files change between any two calls."""

import asyncio
import errno
import random
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from dittofs.client.nfs3 import EXCHANGES, NO_VERIFIER, Nfs3Client, Nfs3Error, attributes
from dittofs.files import runs
from dittofs.files.cookies import END_OF_PLACES
from dittofs.files.inodes import load
from dittofs.files.namespace import read_directory
from dittofs.model.errors import TooSmall
from dittofs.model.identity import Identity
from dittofs.model.ids import FileId
from dittofs.protocols.nfs3 import types as t
from dittofs.protocols.nfs3.attributes import fattr3_of
from dittofs.protocols.nfs3.entries import EntryCache
from dittofs.protocols.nfs3.listing import EMPTY, EMPTY_PLUS
from dittofs.rpc.program import Peer
from dittofs.shares.share import Share
from dittofs.stores.data_directory import flush_file
from dittofs.stores.metadata.embedded import EmbeddedMetadataStore
from dittofs.stores.metadata.memory import MemoryMetadataStore
from dittofs.stores.shared import SharedTransactions
from dittofs.stores.tables import View
from dittofs.stores.transactions import LocalTransactions
from dittofs.testing.shared_memory import MemorySharedStore, SharedMemory
from dittofs.xdr.types import decode_exactly, encoded
from tests.protocols.world import ALICE, ROOT, World

STEPS = 100
NAMES = [b"%d" % number for number in range(60)]
NOW = 1_700_000_000_000_000_000

Make = Callable[[], World]


def clock() -> int:
    """Stands still, so that nothing is told apart by when it happened."""
    return NOW


def crowded(name: bytes) -> int:
    """All names next to each other, and many at the same place."""
    return 1000 + (sum(name) & 15)


def local_world(store: Any) -> World:
    """With a cache so small that records come and go."""
    loop = asyncio.new_event_loop()
    transactions = LocalTransactions(store, cache_records=40, clock=clock)
    transactions.open()
    transactions.start(loop)
    return World(loop, transactions)


def shared_world(memory: SharedMemory, loop: asyncio.AbstractEventLoop) -> World:
    transactions = SharedTransactions(MemorySharedStore(memory))
    loop.run_until_complete(transactions.open())
    return World(loop, transactions)


@pytest.fixture(params=["memory", "embedded", "shared"])
def world(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[World]:
    if request.param == "shared":
        made = shared_world(SharedMemory(), asyncio.new_event_loop())
    elif request.param == "memory":
        made = local_world(MemoryMetadataStore())
    else:
        # With an overlay that is folded again and again.
        made = local_world(EmbeddedMetadataStore(tmp_path / "store", overlay_bytes=20_000))
    yield made
    made.close()


@pytest.fixture(autouse=True)
def short_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runs, "RUN_ENTRIES", 8)
    monkeypatch.setattr(runs, "LONGEST_RUN", 24)
    monkeypatch.setattr(runs, "SHORT_RUN", 5)


def plainly(
    view: View, share: Share, id_: FileId, identity: Identity, cookie: int, room: int, plain_room: int | None
) -> tuple[list[bytes], bool]:
    """The encoded entries of a listing, one after the other; READDIR has no `plain_room`."""
    directory = load(view, id_)
    entries: list[bytes] = []
    volume = share.volume
    while True:
        listing = read_directory(view, volume.tree, identity, directory, cookie, 7, with_files=plain_room is not None)
        for listed in listing.entries:
            plain = encoded(t.entry3, t.entry3(listed.id, listed.name, listed.cookie))
            entry = plain
            if plain_room is not None:
                file = listed.file
                told = (None, None) if file is None else (fattr3_of(file, share.fsid), volume.codec.encode(listed.id))
                entry = encoded(t.entryplus3, t.entryplus3(listed.id, listed.name, listed.cookie, *told))
                plain_room -= len(plain)
            room -= 4 + len(entry)
            if room < 0 or (plain_room is not None and plain_room < 0):
                if not entries:
                    raise TooSmall("not even one")
                return entries, False
            entries.append(entry)
            cookie = listed.cookie
        if listing.at_end:
            return entries, True


class Story:
    """Random changes to two directories, and listings of them."""

    def __init__(self, world: World, seed: int, place_of: Callable[[bytes], int] | None = None):
        self.world = world
        self.chance = random.Random(seed)
        self.share = world.add_share(place_of=place_of)
        self.users = {Identity(0, 0): world.nfs(ROOT), Identity(1000, 1000, frozenset({2000})): world.nfs(ALICE)}
        self.nfs = world.nfs(ROOT)
        root = world.root()
        made = [self.nfs.mkdir(root, name, attributes(mode=mode)).obj for name, mode in ((b"a", 0o777), (b"b", 0o744))]
        self.directories = [directory for directory in made if directory is not None]
        self.cookies = [0, 1, 2, 3, END_OF_PLACES - 1]

    def change(self) -> None:
        """Anything at all; most of it is refused now and then."""
        nfs, choice = self.nfs, self.chance.choice
        directory, other = choice(self.directories), choice(self.directories)
        name, to_name = choice(NAMES), choice(NAMES)
        kinds: list[Callable[[], object]] = [
            *[lambda: nfs.create(directory, name, attributes(mode=0o644))] * 6,
            *[lambda: nfs.mkdir(directory, name)] * 2,
            lambda: nfs.symlink(directory, name, b"target"),
            *[lambda: nfs.remove(directory, name)] * 3,
            lambda: nfs.rmdir(directory, name),
            *[lambda: nfs.rename(directory, name, other, to_name)] * 2,
            lambda: nfs.link(self._file(directory, name), other, to_name),
            lambda: nfs.setattr(self._file(directory, name), attributes(mode=choice((0o600, 0o755)))),
            lambda: nfs.setattr(directory, attributes(mode=choice((0o744, 0o755, 0o777)))),
            *[lambda: nfs.create(self._file(directory, name), to_name)] * 3,
            *[lambda: nfs.write(self._file(directory, name), 0, b"x" * 9, choice(list(t.stable_how)))] * 3,
            lambda: nfs.commit(self._file(directory, name)),
        ]
        with suppress(Nfs3Error):
            choice(kinds)()

    def _file(self, directory: bytes, name: bytes) -> bytes:
        return self.nfs.lookup(directory, name).object

    def look(self) -> None:
        """One answer, from anywhere, with any room."""
        chance = self.chance
        identity, nfs = chance.choice(list(self.users.items()))
        directory = chance.choice(self.directories)
        cookie = chance.choice(self.cookies)
        room = chance.choice((100, 400, 1500, 8000))
        plain_room = chance.choice((None, 30, 200, 8000))
        expected = self._expected(identity, directory, cookie, room, plain_room)
        assert self._answered(nfs, directory, cookie, room, plain_room) == expected
        if expected is not None and expected[0]:
            self.cookies.append(chance.choice(expected[0]).cookie)

    def look_at_all(self) -> None:
        """All of both directories, with changes between the answers."""
        for directory in self.directories:
            cookie: int = 0
            while True:
                expected = self._expected(Identity(0, 0), directory, cookie, 1500, 8000)
                assert self._answered(self.nfs, directory, cookie, 1500, 8000) == expected
                assert expected is not None
                if expected[1]:
                    break
                cookie = expected[0][-1].cookie
                self.change()

    def _expected(
        self, identity: Identity, directory: bytes, cookie: int, room: int, plain_room: int | None
    ) -> tuple[list[Any], bool] | None:
        id_ = self.share.volume.codec.decode(directory)
        perform = self.world.transactions.perform
        empty, kind = (EMPTY, t.entry3) if plain_room is None else (EMPTY_PLUS, t.entryplus3)
        arguments = (self.share, id_, identity, cookie, room - empty, plain_room)
        try:
            entries, at_end = self.world.loop.run_until_complete(perform(plainly, *arguments))
        except TooSmall:
            return None
        return [decode_exactly(kind, entry) for entry in entries], at_end

    def _answered(
        self, nfs: Nfs3Client, directory: bytes, cookie: int, room: int, plain_room: int | None
    ) -> tuple[list[Any], bool] | None:
        reply: Any
        try:
            if plain_room is None:
                reply = nfs.readdir(directory, cookie, NO_VERIFIER, room).reply
            else:
                reply = nfs.readdirplus(directory, cookie, NO_VERIFIER, plain_room, room).reply
        except Nfs3Error as error:
            if error.status is t.nfsstat3.NFS3ERR_TOOSMALL:
                return None
            raise
        return reply.entries, reply.eof


@pytest.mark.parametrize("place_of", [None, crowded], ids=["spread", "crowded"])
@pytest.mark.parametrize("seed", range(3))
def test_answers_are_as_if_nothing_was_kept(world: World, seed: int, place_of: Callable[[bytes], int] | None) -> None:
    story = Story(world, seed, place_of)
    for _ in range(STEPS):
        story.change()
        story.look()
    story.look_at_all()


def test_what_another_server_changes_is_listed() -> None:
    memory, loop = SharedMemory(), asyncio.new_event_loop()
    one, other = shared_world(memory, loop), shared_world(memory, loop)
    story = Story(one, 7)
    other.add_share()
    other_nfs = other.nfs(ROOT)
    for _ in range(STEPS):
        story.nfs = story.chance.choice((one.nfs(ROOT), other_nfs))
        story.change()
        story.look()
    loop.run_until_complete(other.transactions.close())
    one.close()


def test_changes_within_a_subdirectory_show_in_its_attributes(world: World) -> None:
    world.add_share()
    nfs, root = world.nfs(ROOT), world.root()
    below = nfs.mkdir(root, b"below").obj
    assert below is not None

    def told() -> t.fattr3 | bytes | None:
        return next(entry.name_attributes for entry in nfs.list_directory(root) if entry.name == b"below")

    assert told() == nfs.getattr(below)
    for name in NAMES[:3]:
        nfs.mkdir(below, name)
        assert told() == nfs.getattr(below)


def test_what_is_kept_stays_within_its_bound(world: World) -> None:
    story = Story(world, 5)
    cache = world.nfs3._entries[story.share] = EntryCache(
        story.share.volume, world.nfs3.attributes_of(story.share), capacity=10_000
    )
    for _ in range(STEPS):
        story.change()
        story.look()
        assert cache.cost <= 10_000
        assert cache.cost == sum(kept.cost for kept in cache._kept.values())
    assert cache._kept, "something is kept at all"


def test_of_a_directory_that_is_too_large_a_part_is_kept() -> None:
    world = local_world(MemoryMetadataStore())
    share = world.add_share()
    cache = EntryCache(share.volume, world.nfs3.attributes_of(share), capacity=60_000)
    world.nfs3._entries[share] = cache
    nfs, root = world.nfs(ROOT), world.root()
    for number in range(200):
        nfs.create(root, b"%d" % number)
    found = set()
    for _ in range(6):
        before = dict(cache._kept)
        assert len(list(nfs.list_directory(root))) == 202
        found = {key for key, kept in cache._kept.items() if before.get(key) is kept}
    assert len(found) > len(cache._kept) // 3
    world.close()


def test_entries_that_were_lost_with_their_batch_are_not_listed(tmp_path: Path) -> None:
    """The clock stands still: the directory's state after the next change is equal to the one that was lost."""
    failures = 0

    def sync(descriptor: int) -> None:
        nonlocal failures
        if failures:
            failures -= 1
            raise OSError(errno.EIO, "told to fail")
        flush_file(descriptor)

    world = local_world(EmbeddedMetadataStore(tmp_path / "store", sync=sync))
    world.add_share()
    nfs, root = world.nfs(ROOT), world.root()
    how = t.createhow3(t.createmode3.UNCHECKED, attributes(mode=0o644))
    create = EXCHANGES["CREATE"].encode(1, t.CREATE3args(t.diropargs3(root, b"lost"), how), credential=ROOT)
    listing = t.READDIRPLUS3args(root, 0, NO_VERIFIER, 8192, 8192)
    peer = Peer(address="192.0.2.1", port=700, local_address="192.0.2.9", transport="tcp", is_loopback=False)

    async def create_and_list() -> None:
        """In one turn, so that the listing sees what will be lost."""
        list_ = EXCHANGES["READDIRPLUS"].encode(2, listing, credential=ROOT)
        answers = await asyncio.gather(world.answer(create, peer), world.answer(list_, peer))
        for name, xid, answer in zip(("CREATE", "READDIRPLUS"), (1, 2), answers, strict=True):
            assert answer is not None
            assert EXCHANGES[name].decode(answer, xid).discriminant == t.nfsstat3.NFS3ERR_IO

    def names() -> list[bytes]:
        return [entry.name for entry in nfs.list_directory(root)]

    assert names() == [b".", b".."]
    failures = 1
    world.loop.run_until_complete(create_and_list())
    nfs.create(root, b"kept", attributes(mode=0o644))
    assert names() == [b".", b"..", b"kept"]
    world.close()
