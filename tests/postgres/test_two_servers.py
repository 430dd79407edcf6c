"""Two servers on one database: DESIGN 2's rules, each on live servers; issue 6."""

from collections.abc import Iterator
from functools import partial

import pytest

from dittofs.client.nfs3 import attributes
from dittofs.client.nlm import LockOwner, NlmClient, Range
from dittofs.protocols.nfs3 import types as t
from dittofs.protocols.nlm.types import nlm4_stats
from tests.postgres.instance import PostgresInstance
from tests.postgres.servers import OK, Pair, at_once, status_of, two_servers

pytestmark = pytest.mark.slow

NOENT = t.nfsstat3.NFS3ERR_NOENT
ROUNDS = 15
GUARDED = t.createmode3.GUARDED


@pytest.fixture(scope="module")
def pair(postgres: PostgresInstance, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    with two_servers(tmp_path_factory.mktemp("two"), postgres.new_database()) as pair:
        yield pair


def guarded() -> t.createhow3:
    return t.createhow3(GUARDED, attributes(mode=0o644))


def names_in(pair: Pair, directory: bytes) -> set[bytes]:
    """Both servers list the same."""
    listed = [{bytes(entry.name) for entry in client.list_directory(directory)} for client in (pair.one, pair.other)]
    assert listed[0] == listed[1]
    return listed[0] - {b".", b".."}


def test_what_one_does_the_other_sees_at_once(pair: Pair) -> None:
    """Nothing is answered from memory that the other server has made untrue."""
    directory = pair.new_directory("seen")
    for number in range(ROUNDS):
        here, there = (pair.one, pair.other) if number % 2 else (pair.other, pair.one)
        name, new = b"f%d" % number, b"g%d" % number
        assert status_of(there.lookup, directory, name) is NOENT
        file = bytes(here.create(directory, name).obj)
        assert there.lookup(directory, name).object == file
        here.setattr(file, attributes(mode=0o600))
        assert there.getattr(file).mode == 0o600
        there.rename(directory, name, directory, new)
        assert status_of(here.lookup, directory, name) is NOENT
        assert here.lookup(directory, new).object == file
        assert new in {bytes(entry.name) for entry in here.list_directory(directory)}
        here.remove(directory, new)
        assert status_of(there.getattr, file) is t.nfsstat3.NFS3ERR_STALE


def test_one_name_is_created_once(pair: Pair) -> None:
    directory = pair.new_directory("once")
    for number in range(ROUNDS):
        name = b"%d" % number
        found = at_once(
            partial(status_of, pair.one.create, directory, name, guarded()),
            partial(status_of, pair.other.create, directory, name, guarded()),
        )
        assert sorted(found) == [OK, t.nfsstat3.NFS3ERR_EXIST]
    assert len(names_in(pair, directory)) == ROUNDS


def test_phantoms_a_directory_goes_or_gets_an_entry(pair: Pair) -> None:
    """RMDIR of a directory that is found empty, while somebody creates in it."""
    top = pair.new_directory("phantoms")
    outcomes = set()
    for number in range(ROUNDS):
        name = b"%d" % number
        directory = bytes(pair.one.mkdir(top, name).obj)
        gone, made = at_once(
            partial(status_of, pair.one.rmdir, top, name),
            partial(status_of, pair.other.create, directory, b"f", guarded()),
        )
        outcomes.add((gone, made))
        if gone is OK:
            assert made is t.nfsstat3.NFS3ERR_STALE
            assert status_of(pair.other.getattr, directory) is t.nfsstat3.NFS3ERR_STALE
        else:
            assert (gone, made) == (t.nfsstat3.NFS3ERR_NOTEMPTY, OK)
            assert names_in(pair, directory) == {b"f"}
    print(outcomes)


def test_phantoms_crossed_renames_make_no_cycle(pair: Pair) -> None:
    """One moves a into b while the other moves b into a: one of them must find out."""
    top = pair.new_directory("crossed")
    for number in range(ROUNDS):
        place = bytes(pair.one.mkdir(top, b"%d" % number).obj)
        a, b = (bytes(pair.one.mkdir(place, name).obj) for name in (b"a", b"b"))
        found = at_once(
            partial(status_of, pair.one.rename, place, b"a", b, b"x"),
            partial(status_of, pair.other.rename, place, b"b", a, b"y"),
        )
        assert found.count(OK) == 1, found
        (left,) = names_in(pair, place)
        inside, outside = (a, b) if left == b"b" else (b, a)
        assert pair.other.lookup(inside, b"..").object == outside
        assert pair.one.lookup(outside, b"..").object == place
        assert pair.one.getattr(place).nlink == 3


def test_hot_parent_takes_everybody(pair: Pair) -> None:
    """All create in one directory from both servers: nobody is told to come again, and every count is right."""
    directory = pair.new_directory("hot")
    clients = [server.connect() for server in pair.servers for _ in range(3)]

    def work(number: int) -> list[t.nfsstat3]:
        client = clients[number]
        made = [status_of(client.mkdir, directory, b"d%d-%d" % (number, name)) for name in range(15)]
        gone = [status_of(client.rmdir, directory, b"d%d-%d" % (number, name)) for name in range(5)]
        return made + gone

    found = at_once(*[partial(work, number) for number in range(len(clients))])
    assert {status for statuses in found for status in statuses} == {OK}
    assert len(names_in(pair, directory)) == 60
    assert [client.getattr(directory).nlink for client in (pair.one, pair.other)] == [62, 62]
    for client in clients:
        client.transport.close()


def test_ids_are_of_one_file_only(pair: Pair) -> None:
    """[NFS-7]: reserved for each server before it uses them."""
    directory = pair.new_directory("ids")
    for number in range(ROUNDS):
        pair.one.create(directory, b"a%d" % number)
        pair.other.create(directory, b"b%d" % number)
    ids = [entry.fileid for entry in pair.one.list_directory(directory) if entry.name not in (b".", b"..")]
    assert len(set(ids)) == 2 * ROUNDS


def test_miss_rounds_show_what_is_or_what_is_not(pair: Pair) -> None:
    """A name that comes and goes is found, or it is not; what it leads to is never half there."""
    directory = pair.new_directory("rounds")

    def come_and_go() -> set[t.nfsstat3]:
        done = set()
        for _ in range(3 * ROUNDS):
            done.add(status_of(pair.one.create, directory, b"f", guarded()))
            done.add(status_of(pair.one.remove, directory, b"f"))
        return done

    def look() -> set[t.nfsstat3]:
        return {status_of(pair.other.lookup, directory, b"f") for _ in range(6 * ROUNDS)}

    changed, seen = at_once(come_and_go, look)
    assert changed == {OK}
    assert seen <= {OK, NOENT}


def test_a_lock_held_through_one_server_is_honoured_by_the_other(pair: Pair) -> None:
    """Non-blocking: DENIED with the holder; free is free at once."""
    directory = pair.new_directory("locks")
    file = bytes(pair.one.create(directory, b"f").obj)
    locks = [
        NlmClient(server.transport(), caller) for server, caller in zip(pair.servers, (b"alice", b"bob"), strict=True)
    ]
    alice, bob, whole = LockOwner(1, b"a"), LockOwner(2, b"b"), Range(handle=file)
    assert locks[0].lock(alice, Range(handle=file, offset=0, length=10)) is nlm4_stats.NLM4_GRANTED
    assert locks[1].lock(bob, Range(handle=file, offset=5, length=10)) is nlm4_stats.NLM4_DENIED
    status, holder = locks[1].test(bob, Range(handle=file, offset=5, length=10))
    assert status is nlm4_stats.NLM4_DENIED
    assert (holder.svid, bytes(holder.oh), holder.l_offset) == (1, b"a", 0)
    assert locks[1].lock(bob, Range(handle=file, offset=10, length=10)) is nlm4_stats.NLM4_GRANTED
    assert locks[0].unlock(alice, whole) is nlm4_stats.NLM4_GRANTED
    assert locks[1].lock(bob, Range(handle=file, offset=5, length=10)) is nlm4_stats.NLM4_GRANTED
    for _ in range(ROUNDS):
        for client, owner in zip(locks, (alice, bob), strict=True):
            client.unlock(owner, whole)
        found = at_once(partial(locks[0].lock, alice, whole), partial(locks[1].lock, bob, whole))
        assert sorted(found) == [nlm4_stats.NLM4_GRANTED, nlm4_stats.NLM4_DENIED]
    for client in locks:
        client.transport.close()
