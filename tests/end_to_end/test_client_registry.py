"""The client registry and its settings in a running server [CLIENT-1]."""

from pathlib import Path

import pytest

from dittofs.client.nsm import NsmClient
from tests.end_to_end.locking import ALICE, BLOCKED, BOB, DENIED, GRANTED, NOLOCKS, lock_world
from tests.end_to_end.server_process import EMBEDDED, ONE_SHARE

pytestmark = [pytest.mark.slow, pytest.mark.root]

CONFIG = EMBEDDED + ONE_SHARE + "[clients.nlm]\n"


def test_over_the_limit_of_clients_a_new_one_gets_no_locks(tmp_path: Path) -> None:
    """`clients.nlm.max` [LOCK-6]: those that are known go on, and one that has nothing makes room."""
    with lock_world(tmp_path, CONFIG + "max = 2\n") as world:
        first, second, third = (world.nlm(world.host()) for _ in range(3))
        files = [world.file() for _ in range(4)]
        assert first.lock(ALICE, files[0]) is GRANTED
        assert second.lock(ALICE, files[1]) is GRANTED
        assert third.lock(ALICE, files[2]) is NOLOCKS
        assert first.lock(ALICE, files[3]) is GRANTED
        assert second.unlock(ALICE, files[1]) is GRANTED
        for _ in range(100):  # the registry looks through its clients once a second
            answer = third.lock(ALICE, files[2])
            if answer is GRANTED:
                break
            assert answer is NOLOCKS
            third.transport.socket.settimeout(0.05)
            with pytest.raises(TimeoutError):
                third.transport.socket.recv(1)
        assert answer is GRANTED
        assert first.lock(BOB, files[2]) is DENIED


def test_with_a_ttl_the_locks_of_a_rebooted_client_wait_for_it(tmp_path: Path) -> None:
    """`clients.nlm.ttl_seconds` and `stale_check_seconds`: the check frees what nobody came back for."""
    with lock_world(tmp_path, CONFIG + "ttl_seconds = 1.5\nstale_check_seconds = 0.2\n") as world:
        holder, waiter, file = world.host(), world.host(), world.file()
        assert world.nlm(holder).lock(ALICE, file, state=3) is GRANTED
        waiting = world.nlm(waiter)
        NsmClient(holder.transport(world.server.port)).notify(holder.name, 5)
        assert waiting.lock(BOB, file) is DENIED, "without a TTL it would be free now"
        assert waiting.lock(BOB, file, block=True) is BLOCKED
        waiter.grants.wait(1)
        assert "a client did not come back" in world.server.log()


def test_with_a_ttl_a_client_that_comes_back_keeps_its_locks(tmp_path: Path) -> None:
    """The disconnect is off when the client is heard in its old state: nothing of it was lost."""
    with lock_world(tmp_path, CONFIG + "ttl_seconds = 0.5\nstale_check_seconds = 0.1\n") as world:
        holder, files = world.host(), [world.file(), world.file()]
        locking = world.nlm(holder)
        assert locking.lock(ALICE, files[0], state=3) is GRANTED
        NsmClient(holder.transport(world.server.port)).notify(holder.name, 5)
        assert locking.lock(ALICE, files[1], state=3) is GRANTED
        # Another client's TTL, begun later, shows that the time is over.
        other, other_file = world.host(), world.file()
        assert world.nlm(other).lock(ALICE, other_file, state=3) is GRANTED
        NsmClient(other.transport(world.server.port)).notify(other.name, 5)
        watcher = world.host()
        watching = world.nlm(watcher)
        assert watching.lock(BOB, other_file, block=True) is BLOCKED
        watcher.grants.wait(1)
        assert [watching.lock(BOB, file) for file in files] == [DENIED, DENIED]


def test_free_all_frees_one_host_only(tmp_path: Path) -> None:
    """[NLM-7]: a disconnect as NLM knows it, believed from the host itself only."""
    with lock_world(tmp_path, CONFIG) as world:
        holder, stranger, file = world.host(), world.host(), world.file()
        holding, other = world.nlm(holder), world.nlm(stranger)
        assert holding.lock(ALICE, file) is GRANTED
        world.nlm(stranger, name=holder.name).free_all()
        world.nlm(holder, name=stranger.name).free_all()
        assert other.lock(BOB, file) is DENIED
        holding.free_all()
        assert other.lock(BOB, file) is GRANTED
