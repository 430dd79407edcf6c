"""From a record to an answer: whatever a handler does becomes a reply, now, later or never."""

import asyncio
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import structlog
from structlog.testing import capture_logs

from dittofs.model.errors import FileError, NotFound, StoreFailure, TryLater
from dittofs.model.later import Done, Later
from dittofs.rpc.calling import (
    ArgumentsRefused,
    CredentialsDenied,
    Exchange,
    ProcedureUnavailable,
    ProgramUnavailable,
    ServerFault,
    VersionUnavailable,
    auth_sys,
)
from dittofs.rpc.dispatch import Dispatcher
from dittofs.rpc.messages import accept_stat, accepted
from dittofs.rpc.program import AuthenticationRefused, Call, NoAnswer, Peer, Program
from dittofs.rpc.replay import ReplayCache
from dittofs.xdr.errors import XdrError
from dittofs.xdr.types import uint32

NUMBER = 0x2000_0001
PEER = Peer(address="192.0.2.1", port=700, local_address="192.0.2.9", transport="tcp", is_loopback=False)
FAILED = 4_000_000_000
"""What the failure arm of these procedures says."""

Handler = Callable[[Call, int], Any]


class Hold:
    """A batch that the test settles."""

    def __init__(self) -> None:
        self.settled: list[Callable[[FileError | None], None]] = []

    def when_settled(self, settled: Callable[[FileError | None], None]) -> None:
        self.settled.append(settled)

    def settle(self, error: FileError | None = None) -> None:
        for settled in self.settled:
            settled(error)


class World:
    """A dispatcher with one procedure, number 1, that the test gives."""

    def __init__(self, handler: Handler, *, is_replayed: bool = False):
        self.now = 0.0
        self.loop = asyncio.new_event_loop()
        self.dispatcher = Dispatcher(replay=ReplayCache(max_bytes=65_536, max_age_seconds=60), clock=lambda: self.now)
        for version in (2, 4):
            program = Program("TEST", NUMBER, version)
            program.procedure(1, uint32, uint32, failure=lambda *_: FAILED, is_replayed=is_replayed)(handler)
            self.dispatcher.add(program, "services")
        self.delivered: list[bytes | None] = []

    def serve(self, record: bytes) -> bytes | None:
        """What is answered at once."""

        async def serve() -> bytes | None:
            reply = self.dispatcher.serve(record, PEER, self._deliver)
            return None if reply is None else b"".join(reply)

        return self.loop.run_until_complete(serve())

    def call(self, argument: int = 5, *, xid: int = 7, credential: Any = None) -> bytes | None:
        return self.serve(CALL.encode(xid, argument, credential=credential or auth_sys(uid=1, gid=1)))

    def settle(self) -> None:
        self.loop.run_until_complete(self.dispatcher.drain())

    def _deliver(self, reply: Any) -> None:
        self.delivered.append(None if reply is None else b"".join(reply))


CALL = Exchange("CALL", NUMBER, 4, 1, uint32, uint32)


def result(reply: bytes | None, xid: int = 7) -> int:
    assert reply is not None, "an answer"
    answered: int = CALL.decode(reply, xid)
    return answered


@pytest.fixture
def make() -> Iterator[Callable[..., World]]:
    worlds: list[World] = []

    def made(handler: Handler, **options: Any) -> World:
        worlds.append(World(handler, **options))
        return worlds[-1]

    yield made
    for world in worlds:
        world.loop.close()


def echo(call: Call, argument: int) -> int:
    assert call.services == "services"
    return argument + 1


class TestAtOnce:
    def test_a_plain_handler_answers_at_once(self, make: Any) -> None:
        world = make(echo)
        for _ in range(3):  # found anew, then by its head
            assert result(world.call()) == 6
        assert world.delivered == []

    def test_a_coroutine_that_does_not_wait_does_too(self, make: Any) -> None:
        async def handler(call: Call, argument: int) -> int:
            return echo(call, argument)

        assert result(make(handler).call()) == 6

    def test_what_the_rfc_names_for_calls_that_cannot_be_run(self, make: Any) -> None:
        """[NFS-6]"""
        world = make(echo)
        for exchange, error in (
            (Exchange("", NUMBER + 1, 4, 1), ProgramUnavailable),
            (Exchange("", NUMBER, 3, 1), VersionUnavailable),
            (Exchange("", NUMBER, 4, 2), ProcedureUnavailable),
            (Exchange("", NUMBER, 4, 1), ArgumentsRefused),
        ):
            with pytest.raises(error) as refused:
                exchange.decode(world.serve(exchange.encode(7)), 7)
            if error is VersionUnavailable:
                assert (refused.value.low, refused.value.high) == (2, 4)

    def test_what_is_no_call_is_nobody_s(self, make: Any) -> None:
        world = make(echo)
        for record in (b"", b"short", bytes(4) + b"\0\0\0\5" + bytes(40)):
            with pytest.raises(XdrError):
                world.serve(record)

    def test_a_reply_is_dropped(self, make: Any) -> None:
        """To a call of our own; whoever counts answers is told that there is none."""
        world = make(echo)
        assert world.serve(accepted(7, accept_stat.SUCCESS)) is None
        assert world.delivered == [None]


class TestFailures:
    def test_an_expected_error_becomes_the_failure_arm(self, make: Any) -> None:
        def handler(call: Call, argument: int) -> int:
            raise NotFound("no such thing")

        assert result(make(handler).call()) == FAILED

    @pytest.mark.parametrize("is_replayed", [False, True])
    @pytest.mark.parametrize("is_async", [False, True])
    def test_an_unexpected_one_is_logged_once_and_answered(self, make: Any, is_async: bool, is_replayed: bool) -> None:
        """[NFS-6]: no traceback reaches the wire, and the next call is served."""

        def fail(call: Call, argument: int) -> int:
            if argument == 0:
                raise ZeroDivisionError("a fault of ours")
            return echo(call, argument)

        async def fail_later(call: Call, argument: int) -> int:
            return fail(call, argument)

        world = make(fail_later if is_async else fail, is_replayed=is_replayed)
        structlog.reset_defaults()
        with capture_logs() as logged, pytest.raises(ServerFault):
            CALL.decode(world.call(0), 7)
        assert [entry["event"] for entry in logged] == ["call failed"]
        assert isinstance(logged[0]["exc_info"], ZeroDivisionError)
        assert result(world.call(5, xid=8), 8) == 6

    def test_a_result_that_cannot_be_encoded_is_a_fault_too(self, make: Any) -> None:
        with capture_logs(), pytest.raises(ServerFault):
            CALL.decode(make(lambda call, argument: "text").call(), 7)

    def test_a_credential_that_is_too_weak(self, make: Any) -> None:
        def handler(call: Call, argument: int) -> int:
            raise AuthenticationRefused("stronger, please")

        with pytest.raises(CredentialsDenied):
            CALL.decode(make(handler).call(), 7)


class TestLater:
    def test_an_answer_waits_until_it_is_durable(self, make: Any) -> None:
        hold = Hold()

        def handler(call: Call, argument: int) -> int:
            call.hold = hold
            return argument

        world = make(handler)
        assert world.call() is None
        assert world.delivered == []
        hold.settle()
        assert result(world.delivered[0]) == 5

    def test_what_was_lost_is_answered_by_the_failure_arm(self, make: Any) -> None:
        """[KEEP-1]"""
        hold = Hold()

        def handler(call: Call, argument: int) -> int:
            call.hold = hold
            return argument

        world = make(handler)
        world.call()
        hold.settle(StoreFailure("the disk is gone"))
        assert result(world.delivered[0]) == FAILED

    def test_a_coroutine_that_waits_is_delivered_later(self, make: Any) -> None:
        async def handler(call: Call, argument: int) -> int:
            await asyncio.sleep(0)
            return argument

        world = make(handler)
        assert world.call() is None
        world.settle()
        assert result(world.delivered[0]) == 5

    @pytest.mark.parametrize(
        ("error", "expected"), [(None, 6), (NotFound("gone"), FAILED), (TryLater("the store is away"), FAILED)]
    )
    def test_a_result_that_is_found_out_later(self, make: Any, error: FileError | None, expected: int) -> None:
        """A store across a network: the handler has no result yet, and no task is made for it."""
        waiting: list[Done] = []

        def handler(call: Call, argument: int) -> int:
            raise Later(waiting.append)

        world = make(handler)
        assert world.call() is None
        assert world.delivered == []
        waiting[0](6, error)
        assert result(world.delivered[0]) == expected

    @pytest.mark.parametrize("is_replayed", [False, True])
    @pytest.mark.parametrize("is_async", [False, True])
    def test_silence_is_told_to_whoever_counts(self, make: Any, is_async: bool, is_replayed: bool) -> None:
        """[KEEP-1]: NoAnswer; a retransmission is run again."""
        runs = []

        def plain(call: Call, argument: int) -> int:
            runs.append(argument)
            raise NoAnswer

        async def waiting(call: Call, argument: int) -> int:
            return plain(call, argument)

        world = make(waiting if is_async else plain, is_replayed=is_replayed)
        for _ in range(3):
            assert world.call() is None
        assert world.delivered == [None] * 3
        assert len(runs) == 3


class TestReplay:
    """[NFS-5]"""

    def test_a_retransmission_gets_the_first_answer(self, make: Any) -> None:
        runs = []

        def handler(call: Call, argument: int) -> int:
            runs.append(argument)
            return len(runs)

        world = make(handler, is_replayed=True)
        first = world.call()
        assert world.call() == first
        assert result(world.call(6)) == 2, "another call with that number"
        assert result(world.call(5, xid=8), 8) == 3
        world.now = 61.0
        assert result(world.call()) == 4, "too old to be a retransmission"

    def test_an_answer_is_kept_when_it_is_durable_and_duplicates_meanwhile_are_dropped(self, make: Any) -> None:
        hold, runs = Hold(), []

        def handler(call: Call, argument: int) -> int:
            runs.append(argument)
            call.hold = hold
            return argument

        world = make(handler, is_replayed=True)
        assert world.call() is None
        assert world.call() is None
        assert world.delivered == [None], "the duplicate: nothing is owed for it"
        hold.settle()
        assert world.call() == world.delivered[1]
        assert runs == [5]

    def test_a_result_that_is_found_out_later_is_kept_then(self, make: Any) -> None:
        waiting: list[Done] = []

        def handler(call: Call, argument: int) -> int:
            raise Later(waiting.append)

        world = make(handler, is_replayed=True)
        assert world.call() is None
        assert world.call() is None
        assert world.delivered == [None], "the duplicate: nothing is owed for it"
        waiting[0](6, None)
        assert world.call() == world.delivered[1]
        assert len(waiting) == 1
