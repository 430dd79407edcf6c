"""A thousand owners on twenty hosts wait for one lock, and some of the hosts die."""

import time
from pathlib import Path

import pytest

from dittofs.client.nlm import LockOwner, NlmClient, Range
from dittofs.protocols.nlm.types import nlm4_stats
from tests.end_to_end.locking import ALICE, BLOCKED, GRANTED, LockWorld, lock_world
from tests.end_to_end.server_process import MEMORY, ONE_SHARE
from tests.hosts.host import Grant, Host, never
from tests.hosts.network import Recorded

pytestmark = [pytest.mark.slow, pytest.mark.root, pytest.mark.timeout(300)]

HOSTS = 20
OWNERS_EACH = 50
REFUSING = (3, 11)
"""Hosts that die so that connections are refused."""
SILENT = (7, 16)
"""Hosts that die without a word."""

GIVE_UP_SECONDS = 3.0
HAND_OVER_SECONDS = 2.0
"""One, and another for a machine that is busy with other tests."""
SETTINGS = f"""
[locks]
max_waiters_per_file = 2000
callback_attempt_seconds = {GIVE_UP_SECONDS}
callback_give_up_seconds = {GIVE_UP_SECONDS}
"""

Turn = tuple[int, int]
"""A host and an owner of it."""


class Crowd:
    """Everybody in the queue; whoever is called back gives the lock on as soon as he has it."""

    def __init__(self, world: LockWorld):
        self.file: Range = world.file()
        self.hosts: list[Host] = []
        self.clients: list[NlmClient] = []
        self.turns: Recorded[tuple[Turn, float]] = Recorded()
        for number in range(HOSTS):
            host = world.host(on_granted=lambda grant, number=number: self._granted(number, grant))
            self.hosts.append(host)
            self.clients.append(world.nlm(host))

    def _granted(self, number: int, grant: Grant) -> nlm4_stats:
        if number in SILENT:
            return never(grant)
        self.turns.append(((number, grant.lock.svid), grant.at))
        return GRANTED

    def queue(self) -> list[Turn]:
        """One by one, so that the order of the answers is the order of asking."""
        order = [(host, owner) for owner in range(OWNERS_EACH) for host in range(HOSTS)]
        for host, owner in order:
            assert self.clients[host].lock(LockOwner(owner, b"%d" % owner), self.file, block=True) is BLOCKED
        return order


def test_everybody_alive_gets_it_once_and_in_order(tmp_path: Path) -> None:
    """[LOCK-7] [NLM-5]: each within a second of the release before it, plus one give-up time for each dead host."""
    with lock_world(tmp_path, SETTINGS + MEMORY + ONE_SHARE) as world:
        crowd = Crowd(world)
        holder = world.nlm(world.host())
        assert holder.lock(ALICE, crowd.file) is GRANTED
        order = crowd.queue()
        for number in REFUSING:
            crowd.hosts[number].die()
        expected = [turn for turn in order if turn[0] not in (*REFUSING, *SILENT)]
        assert holder.unlock(ALICE, crowd.file) is GRANTED
        released, waits = time.monotonic(), []
        for position, turn in enumerate(expected):
            got, at = crowd.turns.wait(position + 1)
            assert got == turn
            waits.append(at - released)
            assert crowd.clients[turn[0]].unlock(LockOwner(turn[1], b"%d" % turn[1]), crowd.file) is GRANTED
            released = time.monotonic()
        assert len(crowd.turns) == len(expected)
        slow = [wait for wait in waits if wait > HAND_OVER_SECONDS]
        assert len(slow) <= len(SILENT), "a silent host costs its give-up time once"
        assert all(wait < GIVE_UP_SECONDS * len(SILENT) + HAND_OVER_SECONDS for wait in slow)
        assert [len(crowd.hosts[number].grants) for number in SILENT] == [1, 1]
        assert holder.lock(ALICE, crowd.file) is GRANTED, "nobody who is heard is left"
