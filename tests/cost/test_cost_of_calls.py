"""A guard against paths that grow: what fixed requests cost in a whole server, beside what they cost when recorded.

After a change that is meant to cost more, or that saved something worth keeping:

    DITTOFS_RECORD_COST=1 python -m pytest tests/cost
"""

import asyncio
import json
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import dittofs.rpc.dispatch
from dittofs.client.nfs3 import EXCHANGES, attributes
from dittofs.client.nlm import exchange_of
from dittofs.config import ApiSettings, MetricsSettings, ServerSettings, Settings, ShareSettings, StoreSettings
from dittofs.protocols.mount import types as mount
from dittofs.protocols.nfs3 import types as t
from dittofs.protocols.nlm.dialects import NLM4
from dittofs.protocols.nlm.types import nlm4_lock
from dittofs.rpc.calling import Exchange, auth_sys
from dittofs.rpc.conversation import Conversation
from dittofs.rpc.program import Peer
from dittofs.rpc.records import frame
from dittofs.server import Server
from tests.cost.counting import Cost, cost_of

RECORDED = Path(__file__).parent / "recorded.json"
PYTHON = f"{sys.version_info.major}.{sys.version_info.minor}"
TOLERANCE = 1.05
CALLS = 64
TURN = 16
"""Calls that one read of a socket brings."""

MNT = Exchange("MNT", 100005, 3, 1, mount.dirpath, mount.mountres3)


class Bench:
    """A server over memory, called without sockets, as its connections would call it."""

    def __init__(self, directory: Path):
        self.loop = asyncio.new_event_loop()
        stores = {
            "meta": StoreSettings(name="meta", kind="memory", options={}),
            "files": StoreSettings(name="files", kind="memory", options={"capacity_bytes": 2**26}),
        }
        settings = Settings(
            server=ServerSettings(listen=("127.0.0.1",), port=0, portmap="off", data=directory),
            stores=stores,
            shares=(ShareSettings(name="/export", squash="none"),),
            metrics=MetricsSettings(listen=""),
            api=ApiSettings(listen=""),
        )
        self.server = Server(settings)
        self.loop.run_until_complete(self.server.start())
        self.peer = Peer(address="192.0.2.1", port=700, local_address="192.0.2.9", transport="tcp", is_loopback=False)
        self.credential = auth_sys(uid=0, gid=0)
        self.xid = 1
        self.root = self.call(MNT, b"/export").value.fhandle
        self.file = self.call(EXCHANGES["CREATE"], self.creating(b"some-name.txt")).value.obj
        made = t.MKDIR3args(t.diropargs3(self.root, b"directory"), attributes(mode=0o755))
        self.directory = self.call(EXCHANGES["MKDIR"], made).value.obj
        for number in range(100):
            self.call(EXCHANGES["CREATE"], self.creating(b"listed-%d" % number, self.directory))
        self.call(EXCHANGES["WRITE"], t.WRITE3args(self.file, 0, 4096, t.stable_how.UNSTABLE, bytes(4096)))

    def close(self) -> None:
        self.loop.run_until_complete(self.server.stop())
        self.loop.close()

    def creating(self, name: bytes, directory: bytes | None = None) -> t.CREATE3args:
        how = t.createhow3(t.createmode3.UNCHECKED, attributes(mode=0o644))
        return t.CREATE3args(t.diropargs3(directory or self.root, name), how)

    def records(self, exchange: Exchange, arguments: Callable[[int], Any], count: int) -> list[bytes]:
        self.xid += count
        return [
            exchange.encode(self.xid - index, arguments(self.xid - index), credential=self.credential)
            for index in range(count)
        ]

    def call(self, exchange: Exchange, arguments: Any) -> Any:
        (record,) = self.records(exchange, lambda _: arguments, 1)
        answers = self.loop.run_until_complete(self.serve([record]))
        return exchange.decode(answers[0], self.xid)

    def converse(self, records: list[bytes]) -> None:
        """All of them, as they come over a stream, where answers are remembered."""
        conversation = Conversation(
            self.server._dispatcher, self.peer, bool, bool, max_record=1 << 20, max_unanswered=CALLS
        )
        for start in range(0, len(records), TURN):
            conversation.serve_all(b"".join(map(frame, records[start : start + TURN])), 0)
            assert conversation.take_out()

    async def serve(self, records: list[bytes]) -> list[bytes]:
        """All of them, some in each turn of the loop; the answers."""
        serve = self.server._dispatcher.serve
        answers: list[bytes] = []
        for start in range(0, len(records), TURN):
            waiting = []
            for record in records[start : start + TURN]:
                later: asyncio.Future[Any] = self.loop.create_future()
                reply = serve(record, self.peer, later.set_result)
                if reply is None:
                    waiting.append(later)
                else:
                    answers.append(b"".join(reply))
            answers += [b"".join(await later) for later in waiting]
            await asyncio.sleep(0)
        return answers


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    made = Bench(tmp_path_factory.mktemp("cost"))
    yield made
    made.close()


def nfs(name: str, arguments: Callable[[Bench, int], Any]) -> Callable[[Bench, int], list[bytes]]:
    return lambda bench, count: bench.records(EXCHANGES[name], lambda xid: arguments(bench, xid), count)


def lock_and_unlock(bench: Bench, count: int, *, ranges: int = 2**32) -> list[bytes]:
    def lock(xid: int) -> nlm4_lock:
        return nlm4_lock(b"client", bench.file, b"owner", 7, xid // 2 % ranges * 10, 10)

    def arguments(xid: int) -> Any:
        return NLM4.unlockargs(b"", lock(xid)) if xid % 2 else NLM4.lockargs(b"", False, True, lock(xid), False, 1)

    kinds = [exchange_of(NLM4, name) for name in ("LOCK", "UNLOCK")]
    bench.xid += bench.xid % 2 + count
    xids = range(bench.xid - count, bench.xid)
    return [kinds[xid % 2].encode(xid, arguments(xid), credential=bench.credential) for xid in xids]


REQUESTS: dict[str, Callable[[Bench, int], list[bytes]]] = {
    "GETATTR": nfs("GETATTR", lambda bench, _: t.GETATTR3args(bench.file)),
    "LOOKUP": nfs("LOOKUP", lambda bench, _: t.LOOKUP3args(t.diropargs3(bench.root, b"some-name.txt"))),
    "ACCESS": nfs("ACCESS", lambda bench, _: t.ACCESS3args(bench.file, 63)),
    "CREATE": nfs("CREATE", lambda bench, xid: bench.creating(b"file-%d" % xid)),
    "READ 4 KiB": nfs("READ", lambda bench, _: t.READ3args(bench.file, 0, 4096)),
    "WRITE 4 KiB": nfs("WRITE", lambda bench, _: t.WRITE3args(bench.file, 0, 4096, t.stable_how.UNSTABLE, bytes(4096))),
    "READDIRPLUS": nfs(
        "READDIRPLUS", lambda bench, _: t.READDIRPLUS3args(bench.directory, 0, bytes(8), 65_536, 65_536)
    ),
    "LOCK and UNLOCK": lock_and_unlock,
}


uncompiled = pytest.mark.skipif(
    not str(dittofs.rpc.dispatch.__file__).endswith(".py"), reason="compiled modules run no bytecode to count"
)


@pytest.mark.slow
@uncompiled
@pytest.mark.parametrize("title", REQUESTS)
def test_a_call_costs_no_more_than_it_did(bench: Bench, title: str) -> None:
    for _ in range(4):  # caches are filled, and the interpreter has specialised what it will
        bench.loop.run_until_complete(bench.serve(REQUESTS[title](bench, CALLS)))
    batches = [REQUESTS[title](bench, CALLS), REQUESTS[title](bench, CALLS)]
    compare(title, cost_of(lambda: bench.loop.run_until_complete(bench.serve(batches.pop())), CALLS))


@pytest.mark.slow
@uncompiled
@pytest.mark.parametrize("name", ["GETATTR", "LOOKUP", "ACCESS"])
def test_an_answer_told_again_costs_no_more_than_it_did(bench: Bench, name: str) -> None:
    for _ in range(4):
        bench.converse(REQUESTS[name](bench, CALLS))
    batches = [REQUESTS[name](bench, CALLS), REQUESTS[name](bench, CALLS)]
    compare(f"{name} again", cost_of(lambda: bench.converse(batches.pop()), CALLS))


def compare(title: str, cost: Cost) -> None:
    recorded = json.loads(RECORDED.read_text()) if RECORDED.exists() else {}
    if os.environ.get("DITTOFS_RECORD_COST"):
        recorded.setdefault(PYTHON, {})[title] = cost
        RECORDED.write_text(json.dumps(recorded, indent=1, sort_keys=True) + "\n")
        return
    if PYTHON not in recorded:
        pytest.skip(f"nothing is recorded for Python {PYTHON}: instructions differ from version to version")
    before = Cost(*recorded[PYTHON][title])
    assert cost.instructions <= before.instructions * TOLERANCE, f"{title} costs {cost}, recorded is {before}"
    assert cost.c_calls <= before.c_calls * TOLERANCE + 1, f"{title} costs {cost}, recorded is {before}"


@pytest.mark.slow
@uncompiled
def test_reading_on_costs_no_more_than_it_did(bench: Bench) -> None:
    requests = nfs("READ", lambda bench, xid: t.READ3args(bench.file, xid % 1024, 2048))
    for _ in range(4):
        bench.converse(requests(bench, CALLS))
    batches = [requests(bench, CALLS), requests(bench, CALLS)]
    compare("READ 2 KiB, reading on", cost_of(lambda: bench.converse(batches.pop()), CALLS))


@pytest.mark.slow
@uncompiled
def test_a_lock_done_again_costs_no_more_than_it_did(bench: Bench) -> None:
    for _ in range(4):
        bench.converse(lock_and_unlock(bench, CALLS, ranges=8))
    batches = [lock_and_unlock(bench, CALLS, ranges=8), lock_and_unlock(bench, CALLS, ranges=8)]
    compare("LOCK and UNLOCK again", cost_of(lambda: bench.converse(batches.pop()), CALLS))
