"""The `_MSG` procedures: the answer is a call to the lock service of the client that asked [NLM-1]."""

from collections.abc import Iterator
from typing import Any

import pytest

from dittofs.client.nlm import NlmClient, Range
from dittofs.client.transports import TcpTransport, UdpTransport
from dittofs.protocols.nlm.dialects import DIALECTS, NLM4, Dialect
from dittofs.rpc.calling import Exchange, xid_of
from dittofs.rpc.messages import msg_type, parse_call
from dittofs.rpc.records import Reassembler
from dittofs.xdr.types import decode_exactly
from tests.end_to_end.locking import ALICE, BLOCKED, BOB, DENIED, GRANTED, STALE_FH, LockWorld, lock_world
from tests.hosts.host import Host

pytestmark = [pytest.mark.slow, pytest.mark.root]

every_version = pytest.mark.parametrize("dialect", DIALECTS, ids=lambda dialect: f"v{dialect.version}")
every_transport = pytest.mark.parametrize("over", [TcpTransport, UdpTransport], ids=["tcp", "udp"])


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LockWorld]:
    with lock_world(tmp_path_factory.mktemp("server")) as made:
        yield made


class Messenger:
    """A client that asks by messages only."""

    def __init__(self, host: Host, nlm: NlmClient):
        self.host = host
        self.nlm = nlm

    def ask(self, name: str, arguments: Any) -> Any:
        """Send, and wait for the call that answers."""
        count = len(self.host.responses)
        self.nlm.message(name, arguments)
        response = self.host.responses.wait(count + 1)
        assert response.name == name
        assert response.result.cookie == arguments.cookie
        return response.result

    def lock(self, file: Range, **how: Any) -> Any:
        return self.ask("LOCK", self.nlm.lock_arguments(ALICE, file, **how)).stat


@every_transport
@every_version
def test_every_message_is_answered_in_its_version(world: LockWorld, dialect: Dialect, over: Any) -> None:
    """[NLM-1]: TEST, LOCK, CANCEL, UNLOCK and GRANTED; over UDP from the socket that was asked."""
    host, file = world.host(), world.file()
    nlm = world.nlm(host, dialect=dialect, over=over)
    client = Messenger(host, nlm)
    assert client.lock(file) == GRANTED
    holder = client.ask("TEST", dialect.testargs(b"t", True, nlm._lock(BOB, file))).test_stat
    assert (holder.discriminant, holder.value.oh) == (DENIED, ALICE.oh)
    assert client.ask("CANCEL", dialect.cancargs(b"c", True, True, nlm._lock(BOB, file))).stat == GRANTED
    assert client.ask("UNLOCK", dialect.unlockargs(b"u", nlm._lock(ALICE, file))).stat == GRANTED
    assert client.ask("GRANTED", dialect.testargs(b"g", True, nlm._lock(ALICE, file))).stat == DENIED
    assert client.lock(Range(handle=b"x")) == dialect.statuses[STALE_FH]
    transports = {(response.peer.transport, response.peer.address) for response in host.responses}
    assert transports == {("udp" if over is UdpTransport else "tcp", "127.0.0.1")}
    if over is UdpTransport:
        assert {response.peer.port for response in host.responses} == {world.server.port}


def test_a_message_that_must_wait_is_answered_blocked_and_called_back(world: LockWorld) -> None:
    """[NLM-4] [NLM-5]."""
    host, file = world.host(), world.file()
    other = world.nlm(world.host())
    assert other.lock(BOB, file) is GRANTED
    assert Messenger(host, world.nlm(host, over=UdpTransport)).lock(file, block=True) == BLOCKED
    assert other.unlock(BOB, file) is GRANTED
    assert host.grants.wait(1).lock.svid == ALICE.svid


def test_without_a_port_the_answer_comes_back_over_the_connection(world: LockWorld) -> None:
    """[NLM-1]: over TCP, where nobody answers on the client's port 111."""
    host, file = world.host(has_port_mapper=False), world.file()
    nlm = world.nlm(host)
    nlm.message("LOCK", nlm.lock_arguments(ALICE, file))
    record = _next_record(nlm)
    _, program, version, procedure, _, position = parse_call(record)
    assert (program, version, procedure) == (100021, 4, 12)
    assert decode_exactly(NLM4.res, record, position).stat == GRANTED
    assert record[4:8] == msg_type.CALL.to_bytes(4, "big")


def test_responses_that_nobody_asked_for_change_nothing(world: LockWorld) -> None:
    """[NLM-1]: `_RES` calls are taken and ignored."""
    host, file = world.host(), world.file()
    nlm = world.nlm(host)
    assert nlm.lock(ALICE, file) is GRANTED
    for number, result in ((12, NLM4.res), (13, NLM4.res), (14, NLM4.res), (15, NLM4.res)):
        exchange = Exchange("NLM4_RES", 100021, 4, number, result, None)
        assert nlm.transport.call(exchange, NLM4.res(b"", NLM4.statuses[DENIED])) is None
    assert world.nlm(world.host()).lock(BOB, file) is DENIED


def _next_record(nlm: NlmClient) -> bytes:
    """The next record of the connection, whatever it is."""
    pieces = Reassembler(max_record_size=65_536)
    replies = nlm.transport._replies
    for record in list(replies.values()):
        if record[4:8] == msg_type.CALL.to_bytes(4, "big"):
            return record
    nlm.transport.socket.settimeout(30)
    while True:
        for record in pieces.feed(nlm.transport.socket.recv(65_536)):
            assert xid_of(record) >= 0
            return bytes(record)
