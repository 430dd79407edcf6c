"""The short ways of clients that are known: whatever changes between two of their calls counts for the second.

There are two: the procedures' own, and that of calls that are done again without being decoded.
"""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from dittofs.client.nfs3 import EXCHANGES, attributes
from dittofs.client.nlm import exchange_of
from dittofs.protocols.nfs3 import types as nfs
from dittofs.protocols.nlm import at_once
from dittofs.protocols.nlm.dialects import NLM4
from dittofs.protocols.nlm.types import nlm4_lock, nlm4_stats
from dittofs.rpc.calling import Exchange, auth_sys
from dittofs.rpc.conversation import Conversation
from dittofs.rpc.program import Call
from dittofs.rpc.records import Reassembler, frame
from dittofs.rpc.remembering import Repeats
from dittofs.shares.share import Share
from tests.cost.test_cost_of_calls import Bench

GRANTED, DENIED = nlm4_stats.NLM4_GRANTED, nlm4_stats.NLM4_DENIED


class Site(Bench):
    """A whole server without sockets, and what owners of one client ask of it, with a new cookie each time."""

    conversation: Conversation | None = None
    cookies = 0
    cookie_bytes = 4

    def converses(self) -> None:
        """From now on calls come over a stream, where those that come again are recognised."""
        self.conversation = Conversation(
            self.server._dispatcher, self.peer, bool, bool, max_record=1 << 20, max_unanswered=64
        )

    @property
    def repeats(self) -> Repeats:
        return self.server._dispatcher.memory.repeats_of(self.peer)

    def ask(self, name: str, *, owner: bytes = b"owner", start: int = 0, state: int = 1) -> nlm4_stats:
        self.cookies += 1
        cookie = self.cookies.to_bytes(self.cookie_bytes, "big")
        lock = nlm4_lock(b"client", self.file, owner, 7, start, 10)
        arguments: dict[str, Any] = {
            "LOCK": NLM4.lockargs(cookie, False, True, lock, False, state),
            "UNLOCK": NLM4.unlockargs(cookie, lock),
            "TEST": NLM4.testargs(cookie, True, lock),
        }
        answer = self.call(exchange_of(NLM4, name), arguments[name])
        assert answer.cookie == cookie
        return nlm4_stats(answer.test_stat.discriminant if name == "TEST" else answer.stat)

    async def serve(self, records: list[bytes]) -> list[bytes]:
        if self.conversation is None:
            return await super().serve(records)
        return [answer for record in records for answer in await self.serve_together([record])]

    async def serve_together(self, records: list[bytes]) -> list[bytes]:
        """What one read brings."""
        conversation = self.conversation
        assert conversation is not None
        conversation.serve_all(b"".join(map(frame, records)), 0)
        while conversation.unanswered:
            await asyncio.sleep(0)
        return Reassembler(max_record_size=1 << 20).feed(conversation.take_joined())


@pytest.fixture(params=["decoded", "done again"])
def site(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Site]:
    made = Site(tmp_path)
    if request.param == "done again":
        made.converses()
    yield made
    made.close()


@pytest.fixture
def known(site: Site) -> Site:
    """The owner has locked and unlocked before."""
    for _ in range(3):
        assert [site.ask("LOCK"), site.ask("UNLOCK")] == [GRANTED, GRANTED]
    assert len(site.repeats.by_question) == (0 if site.conversation is None else 2)
    return site


def test_what_is_known_is_answered_as_before(known: Site) -> None:
    assert known.ask("LOCK") is GRANTED
    assert known.ask("LOCK", owner=b"other") is DENIED
    assert known.ask("TEST", owner=b"other") is DENIED
    assert known.ask("TEST", owner=b"other") is DENIED
    assert known.ask("LOCK", owner=b"other", start=10) is GRANTED
    assert known.ask("UNLOCK") is GRANTED
    assert known.ask("TEST", owner=b"other") is GRANTED
    assert known.ask("LOCK", owner=b"other") is GRANTED
    assert known.ask("LOCK") is DENIED


def test_the_short_way_is_taken(known: Site) -> None:
    args = NLM4.testargs(b"", True, nlm4_lock(b"client", known.file, b"owner", 7, 0, 10))
    entry = known.server._dispatcher._entries[(100021, 4, 1)]
    credentials = next(iter(entry.services._known.values()))._credentials
    call = Call(b"xid.", known.peer, credentials, entry.services)
    assert at_once.test(NLM4, call, args) is not None


def test_a_share_that_became_read_only(known: Site) -> None:
    [share] = known.server.shares
    rules = replace(share.settings, read_only=True)
    known.server.shares.replace(Share(rules, share.record, share.volume))
    assert known.ask("LOCK") is nlm4_stats.NLM4_ROFS
    assert known.ask("UNLOCK") is GRANTED


def test_a_file_that_may_not_be_read_any_more(known: Site) -> None:
    root = known.credential
    known.credential = auth_sys(uid=1000, gid=1000)
    assert [known.ask("LOCK"), known.ask("UNLOCK")] == [GRANTED, GRANTED]
    known.credential = root
    changed = nfs.SETATTR3args(known.file, attributes(mode=0o600), None)
    known.call(EXCHANGES["SETATTR"], changed)
    known.credential = auth_sys(uid=1000, gid=1000)
    assert known.ask("LOCK") is nlm4_stats.NLM4_FAILED
    known.credential = root
    assert known.ask("LOCK") is GRANTED


def test_a_removed_file(known: Site) -> None:
    where = nfs.diropargs3(known.root, b"some-name.txt")
    known.call(EXCHANGES["REMOVE"], nfs.REMOVE3args(where))
    assert known.ask("LOCK") is nlm4_stats.NLM4_STALE_FH
    assert known.ask("TEST") is nlm4_stats.NLM4_STALE_FH


def test_a_client_that_rebooted_loses_what_it_had(known: Site) -> None:
    assert known.ask("LOCK", state=1) is GRANTED
    assert known.ask("LOCK", start=100, state=3) is GRANTED
    assert known.ask("TEST", owner=b"other") is GRANTED, "the lock of the time before the reboot is gone"
    assert known.ask("TEST", owner=b"other", start=100) is DENIED


def test_a_client_that_was_forgotten_is_recorded_again(known: Site) -> None:
    hosts = known.server.watching.hosts
    [client] = [watched.id for watched in hosts._watched.values()]
    known.loop.run_until_complete(hosts.forget(client))
    assert known.ask("LOCK") is GRANTED
    assert [watched.id for watched in hosts._watched.values()] == [client]


@pytest.mark.parametrize("length", [0, 1, 3, 8, 100])
def test_a_cookie_may_be_of_any_length(known: Site, length: int) -> None:
    """Those of one length are done again; the others are decoded, and answered all the same."""
    known.cookies = 0
    known.cookie_bytes = length or 4
    for _ in range(3):
        assert [known.ask("LOCK"), known.ask("UNLOCK")] == [GRANTED, GRANTED]
    known.cookie_bytes = 4
    assert [known.ask("LOCK"), known.ask("UNLOCK")] == [GRANTED, GRANTED]


def test_what_is_done_again_is_not_decoded_but_counted(known: Site) -> None:
    known.converses()
    for _ in range(3):
        assert [known.ask("LOCK"), known.ask("UNLOCK")] == [GRANTED, GRANTED]
    entries = [known.server._dispatcher._entries[(100021, 4, number)] for number in (2, 4)]
    before = [entry.counts.statuses["granted"] for entry in entries]
    assert known.server.control is not None
    acquired = known.server.control._watch._acquired.of("/export", "exclusive", "granted")
    locks = acquired.value
    decoders = [entry.decode for entry in entries]
    for entry in entries:
        entry.decode = None
    assert [known.ask("LOCK"), known.ask("UNLOCK")] == [GRANTED, GRANTED]
    for entry, decode in zip(entries, decoders, strict=True):
        entry.decode = decode
    assert [entry.counts.statuses["granted"] for entry in entries] == [number + 1 for number in before]
    assert acquired.value == locks + 1


def test_a_connection_that_ends_is_forgotten(known: Site) -> None:
    if known.conversation is not None:
        known.conversation.close()
    assert not known.repeats.by_question


def test_other_credentials_are_other_questions(known: Site) -> None:
    """Who may lock is asked of him who asks."""
    changed = nfs.SETATTR3args(known.file, attributes(mode=0o600), None)
    known.call(EXCHANGES["SETATTR"], changed)
    assert [known.ask("LOCK"), known.ask("UNLOCK")] == [GRANTED, GRANTED]
    known.credential = auth_sys(uid=1000, gid=1000)
    for _ in range(3):
        assert known.ask("LOCK") is nlm4_stats.NLM4_FAILED


def test_cookies_of_several_lengths_in_one_read(site: Site) -> None:
    """Where a question is cut changes in the middle of it."""
    site.converses()
    lock = nlm4_lock(b"client", site.file, b"owner", 7, 0, 10)
    asked: list[tuple[int, bytes, Exchange]] = []
    for number in range(24):
        cookie = b"%04d" % number * (1 + number // 2 % 3)
        site.xid += 1
        asked.append((site.xid, cookie, exchange_of(NLM4, "UNLOCK" if number % 2 else "LOCK")))
    records = [
        exchange.encode(
            xid,
            NLM4.unlockargs(cookie, lock) if number % 2 else NLM4.lockargs(cookie, False, True, lock, False, 1),
            credential=site.credential,
        )
        for number, (xid, cookie, exchange) in enumerate(asked)
    ]
    assert site.conversation is not None
    for half in (records[:12], records[12:]):
        answers = site.loop.run_until_complete(site.serve_together(half))
        for record, (xid, cookie, exchange) in zip(answers, asked, strict=False):
            answer = exchange.decode(record, xid)
            assert (answer.cookie, answer.stat) == (cookie, GRANTED)
        asked = asked[12:]
