"""RPC over UDP: one datagram, one call; answers leave from the address that was asked."""

import socket

import pytest

from dittofs.rpc.calling import Exchange
from dittofs.rpc.messages import accept_stat, accepted
from tests.net.echoing import BACK, CALL_BACK, ECHO, LATER, NEVER, datagram_socket, received, serving, until


async def ask(client: socket.socket, exchange: Exchange, xid: int, argument: int, to: tuple[str, int]) -> bytes:
    client.sendto(exchange.encode(xid, argument), to)
    data, sender = await received(client)
    assert sender[:2] == to
    return data


@pytest.mark.parametrize("address", ["127.0.0.1", "127.0.0.9"])
async def test_the_answer_comes_from_the_address_asked(address: str) -> None:
    """[NFS-3]: also of a socket that is bound to all of them."""
    async with serving("0.0.0.0") as served:
        with datagram_socket() as client:
            assert ECHO.decode(await ask(client, ECHO, 1, 5, (address, served.port)), 1) == 5


async def test_it_answers_over_ipv6() -> None:
    async with serving("::") as served:
        with datagram_socket("::1") as client:
            assert ECHO.decode(await ask(client, ECHO, 1, 5, ("::1", served.port)), 1) == 5


async def test_a_call_of_our_own_goes_to_any_port_of_the_peer() -> None:
    """[NLM-1]: from our socket and the address asked; the reply to it is dropped."""
    async with serving("0.0.0.0") as served:
        with datagram_socket() as client, datagram_socket() as other:
            port = other.getsockname()[1]
            to = ("127.0.0.9", served.port)
            assert CALL_BACK.decode(await ask(client, CALL_BACK, 1, port, to), 1) == 1
            data, sender = await received(other)
            assert (data, sender) == (BACK.encode(77, port), to)
            other.sendto(accepted(77, accept_stat.SUCCESS), to)
            assert ECHO.decode(await ask(other, ECHO, 2, 6, to), 2) == 6
            assert served.datagrams[0].dropped == 0


async def test_rubbish_is_dropped_and_calls_are_bounded() -> None:
    """[NFS-6]: nobody hears of a datagram that is no call; no more than so many calls wait."""
    async with serving(max_calls=3) as served:
        to = ("127.0.0.1", served.port)
        with datagram_socket() as client:
            for rubbish in (b"", b"abc", bytes(11), bytes(4) + b"\0\0\0\7" + bytes(40)):
                client.sendto(rubbish, to)
            for xid in range(20):
                client.sendto(NEVER.encode(xid, 0), to)
            assert ECHO.decode(await ask(client, ECHO, 1, 5, to), 1) == 5
            assert served.datagrams[0].dropped == 4
            for xid in range(5):
                client.sendto(LATER.encode(xid, 10), to)
            await until(lambda: served.datagrams[0].dropped == 6)
            assert len(served.echo.later) == 3
            served.echo.later[1].set_result(1)
            assert LATER.decode((await received(client))[0], 1) == 11
            assert ECHO.decode(await ask(client, ECHO, 2, 6, to), 2) == 6
