"""What becomes of an offer, attempt by attempt, with clients that are a few lines each [NLM-5]."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from dittofs.client.nlm import LockOwner, NlmClient, Range
from dittofs.locks.outcomes import Blocked, Reason
from dittofs.model.ids import Ticket
from dittofs.protocols.nlm.dialects import NLM4
from dittofs.protocols.nlm.granting import CallbackResult, Granting, Waiting
from dittofs.protocols.nlm.types import nlm4_stats
from dittofs.rpc.calling import BadReply, NoReply, ProgramUnavailable, Refused, ServerFault, Unreachable
from dittofs.rpc.program import Peer
from dittofs.stores.metadata.memory import MemoryMetadataStore
from tests.locks.world import ALL, FILE, Running, owner, running, wanted

GRANTED, DENIED = nlm4_stats.NLM4_GRANTED, nlm4_stats.NLM4_DENIED
PEER = Peer(address="192.0.2.7", port=900, local_address="192.0.2.1", transport="udp", is_loopback=False)
SECONDS = 0.03


class Client:
    """Answers in turn, the last for ever: a status, an error to be raised, or None for silence."""

    def __init__(self, *answers: Any):
        self._answers = list(answers)
        self.calls: list[dict[str, Any]] = []

    async def call(self, exchange: Any, arguments: Any, **how: Any) -> Any:
        self.calls.append({"exchange": exchange, "arguments": arguments, **how})
        answer = self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]
        if answer is None:
            await asyncio.sleep(how["timeout_seconds"])
            raise NoReply("no answer")
        if isinstance(answer, Exception):
            raise answer
        return NLM4.res(arguments.cookie, answer)

    async def port_of(self, *args: Any, **how: Any) -> int:
        raise AssertionError("a callback does not ask for a port")


class World:
    """Somebody holds all of the file, `b` waits for it, and `c` behind him."""

    def __init__(
        self, here: Running, client: Client, *, attempt_seconds: float = SECONDS, give_up_seconds: float = SECONDS
    ):
        self.locks = here.service
        self.client = client
        self.granting = Granting(self.locks, client, attempt_seconds=attempt_seconds, give_up_seconds=give_up_seconds)
        self.locks.listeners.append(self.granting)

    async def queue(self, name: str) -> Ticket:
        outcome, _ = await self.locks.acquire(wanted(name, wait=True))
        assert isinstance(outcome, Blocked)
        nlm = NlmClient(None, name.encode())  # type: ignore[arg-type]  # only its arguments are of use
        args = nlm.lock_arguments(LockOwner(1, name.encode()), Range(handle=b"handle", offset=3, length=4))
        self.granting.expect(outcome.ticket, Waiting(NLM4, args, owner(name).client, PEER))
        return outcome.ticket

    async def until(self, is_so: Callable[[], bool]) -> None:
        async with asyncio.timeout(10):
            while not is_so():
                await asyncio.sleep(0.001)

    def holders(self) -> list[str]:
        return [lock.owner.id for lock in self.locks.inspect.locks_of_file(FILE) if not lock.is_offered]

    def offered(self) -> list[str]:
        return [lock.owner.id for lock in self.locks.inspect.locks_of_file(FILE) if lock.is_offered]


Work = Callable[[World], Coroutine[Any, Any, None]]


def run(client: Client, work: Work, **how: float) -> None:
    async def main() -> None:
        async with running(MemoryMetadataStore()) as here:
            world = World(here, client, **how)
            await here.service.acquire(wanted("a"))
            await work(world)
            await world.granting.close()

    asyncio.run(asyncio.wait_for(main(), 20))


def test_a_grant_is_settled_and_carries_the_request() -> None:
    client = Client(GRANTED)

    async def work(world: World) -> None:
        await world.queue("b")
        await world.locks.release(FILE, owner("a"), ALL)
        await world.until(lambda: world.holders() == [owner("b").id])

    run(client, work)
    (call,) = client.calls
    assert (call["address"], call["local_address"]) == ("192.0.2.7", "192.0.2.1")
    assert (call["exchange"].procedure, call["exchange"].version) == (5, 4)
    assert (call["arguments"].alock.l_offset, call["arguments"].alock.l_len) == (3, 4)


@pytest.mark.parametrize(
    "answer",
    [DENIED, nlm4_stats.NLM4_DENIED_NOLOCKS, Refused("no"), ProgramUnavailable("no"), ServerFault("no")],
    ids=str,
)
def test_a_definite_failure_ends_the_request(answer: Any) -> None:
    async def work(world: World) -> None:
        ticket = await world.queue("b")
        await world.locks.release(FILE, owner("a"), ALL)
        await world.until(lambda: world.locks.inspect.ticket(ticket) is None)
        assert world.holders() == []
        failure = world.granting.last_failure(owner("b").client)
        assert failure is not None
        assert failure.text.startswith("callback ")
        assert world.granting.results[CallbackResult.FAILED] == 1
        assert not world.granting.silent
        assert len(world.granting) == 0

    run(Client(answer), work)


@pytest.mark.parametrize("answer", [None, Unreachable("no"), NoReply("no"), BadReply("no")], ids=str)
def test_doubt_is_kept_until_the_time_is_up_and_then_the_client_is_silent(answer: Any) -> None:
    """Its place stays, and it is passed over."""
    client = Client(answer)

    async def work(world: World) -> None:
        ticket = await world.queue("b")
        await world.locks.release(FILE, owner("a"), ALL)
        assert world.offered() == [owner("b").id]
        await world.until(lambda: not world.offered())
        found = world.locks.inspect.ticket(ticket)
        assert found is not None
        assert found.is_passed_over
        assert world.granting.silent == {owner("b").client}
        assert len(client.calls) == 1, "as many attempts as there is time for"
        client._answers[:] = [GRANTED]
        await world.locks.client_heard(owner("b").client)
        await world.until(lambda: world.holders() == [owner("b").id])
        assert world.granting.last_failure(owner("b").client) is None

    run(client, work)


def test_a_refusal_after_doubt_does_not_release() -> None:
    """The first attempt may have arrived."""
    client = Client(None, DENIED)

    async def work(world: World) -> None:
        await world.queue("b")
        await world.locks.release(FILE, owner("a"), ALL)
        await world.until(lambda: len(client.calls) == 3)
        assert world.offered() == [owner("b").id]
        await world.until(lambda: not world.offered())
        assert world.granting.silent == {owner("b").client}

    run(client, work, give_up_seconds=SECONDS * 5)


def test_a_settled_or_withdrawn_offer_stops_its_callback() -> None:
    """By an UNLOCK, a CANCEL, or the client's end; whatever it answers later is ignored."""
    client = Client(None)

    async def work(world: World) -> None:
        for number in range(2):
            assert len(client.calls) == number
            await world.queue("b")
            await world.locks.release(FILE, owner("a"), ALL)
            await world.until(lambda number=number: len(client.calls) > number)  # type: ignore[misc]
            if number:
                await world.locks.release(FILE, owner("b"), ALL)
            else:
                await world.locks.client_gone(owner("b").client, reason=Reason.CRASH)
            assert world.offered() == []
            assert len(world.granting) == 0
            await world.locks.acquire(wanted("a"))
        await world.until(lambda: world.granting.results[CallbackResult.CANCELLED] == 2)
        assert not world.granting.silent

    run(client, work, attempt_seconds=10.0, give_up_seconds=10.0)


def test_an_offer_that_overtakes_the_answer_to_its_request_is_not_lost() -> None:
    """A store of its own pace may tell of the offer before the request was answered BLOCKED."""
    client = Client(GRANTED)

    async def work(world: World) -> None:
        outcome, _ = await world.locks.acquire(wanted("b", wait=True))
        assert isinstance(outcome, Blocked)
        await world.locks.release(FILE, owner("a"), ALL)
        assert not client.calls
        nlm = NlmClient(None, b"b")  # type: ignore[arg-type]
        args = nlm.lock_arguments(LockOwner(1, b"b"), Range(handle=b"handle"))
        world.granting.expect(outcome.ticket, Waiting(NLM4, args, owner("b").client, PEER))
        await world.until(lambda: world.holders() == [owner("b").id])

    run(client, work)
