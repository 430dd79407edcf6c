"""A whole server without sockets: calls go as bytes through the dispatcher, over memory stores, and so do answers."""

import asyncio
from collections.abc import Callable
from typing import Any

from dittofs.client.mount import mount
from dittofs.client.nfs3 import Nfs3Client
from dittofs.client.transports import NoReply, Transport
from dittofs.config import ShareSettings
from dittofs.files.tree import Tree
from dittofs.files.volume import Volume
from dittofs.protocols.mount.procedures import MOUNT1, MOUNT3, MountServices
from dittofs.protocols.nfs3.procedures import NFS3
from dittofs.protocols.nfs3.serving import Nfs3Services
from dittofs.protocols.portmap.portmapper import PORTMAP2
from dittofs.protocols.portmap.registry import Registry
from dittofs.protocols.portmap.rpcbind import RPCBIND3, RPCBIND4
from dittofs.protocols.portmap.services import PortmapServices
from dittofs.rpc.calling import auth_sys, xid_of
from dittofs.rpc.conversation import Conversation
from dittofs.rpc.dispatch import Dispatcher
from dittofs.rpc.messages import NO_AUTH, opaque_auth
from dittofs.rpc.program import Peer
from dittofs.rpc.records import frame
from dittofs.rpc.replay import ReplayCache
from dittofs.shares.registry import ShareRegistry, new_share, open_share
from dittofs.shares.share import Share
from dittofs.stores.content.memory import MemoryContentStore
from dittofs.stores.metadata.memory import MemoryMetadataStore
from dittofs.stores.transactions import LocalTransactions
from dittofs.testing.clock import FakeClock

ROOT = auth_sys(uid=0, gid=0)
ALICE = auth_sys(uid=1000, gid=1000, groups=[2000])
BOB = auth_sys(uid=1001, gid=1001)
CAPACITY = 64 * 1024 * 1024


class DirectTransport(Transport):
    """A connection that is a function call."""

    def __init__(self, world: "World", peer: Peer, credential: opaque_auth):
        super().__init__(None, credential, 0)  # type: ignore[arg-type]  # no socket
        self._world = world
        self._peer = peer
        self._late = asyncio.Event()
        self._conversation = Conversation(
            world.dispatcher, peer, self._late.set, bool, max_record=1 << 21, max_unanswered=16
        )
        self.sizes: list[int] = []
        """Of the replies, in the order they came."""

    def close(self) -> None:
        pass

    def send_record(self, record: bytes) -> None:
        over_tcp = self._peer.transport == "tcp"
        reply = self._world.loop.run_until_complete(
            self._conversed(record) if over_tcp else self._world.answer(record, self._peer)
        )
        if reply is not None:
            self.sizes.append(len(reply))
            self._replies[xid_of(reply)] = reply

    async def _conversed(self, record: bytes) -> bytes | None:
        """As over a stream, where answers are remembered: what is told again is what would be found out anew."""
        dispatcher, conversation = self._world.dispatcher, self._conversation
        remembered = dispatcher.remembered
        conversation.serve_all(frame(record), 0)
        while conversation.unanswered:
            self._late.clear()
            await self._late.wait()
        reply = b"".join(conversation.take_out())[4:] or None
        if dispatcher.remembered != remembered:
            assert reply == await self._world.answer(record, self._peer), "an answer was told again that is not true"
        return reply

    def receive_record(self, xid: int) -> bytes:
        if xid not in self._replies:
            raise NoReply(f"no answer to call {xid:#x}")
        return self._replies.pop(xid)


class World:
    """A server with any number of shares, over a memory store unless a driver is given, open and started."""

    def __init__(self, loop: asyncio.AbstractEventLoop | None = None, transactions: Any = None) -> None:
        self.loop = loop or asyncio.new_event_loop()
        self.clock = FakeClock()
        self.shares = ShareRegistry()
        self.portmap = Registry()
        self.effects: list[object] = []
        if transactions is None:
            transactions = LocalTransactions(MemoryMetadataStore(), clock=self.clock.time_ns)
            transactions.open()
            transactions.start(self.loop)
        self.transactions = transactions
        self.transactions.on_effect = lambda effect, _: self.effects.append(effect)
        self.content = MemoryContentStore(capacity=CAPACITY)
        self.dispatcher = Dispatcher(
            replay=ReplayCache(max_bytes=1 << 20, max_age_seconds=60.0), clock=self.clock.monotonic
        )
        self.nfs3 = Nfs3Services(self.shares)
        self.dispatcher.add(NFS3, self.nfs3)
        for program in (MOUNT1, MOUNT3):
            self.dispatcher.add(program, MountServices(self.shares))
        for program in (PORTMAP2, RPCBIND3, RPCBIND4):
            self.dispatcher.add(program, PortmapServices(self.portmap, lambda: self.clock.time_ns() / 1e9))

    def close(self) -> None:
        self.loop.run_until_complete(self.transactions.close())
        self.loop.close()

    def add_share(
        self, name: str = "/export", *, place_of: Callable[[bytes], int] | None = None, **settings: Any
    ) -> Share:
        """Served as root sees it, unless `squash` is given."""
        chosen = ShareSettings(name=name, **{"squash": "none", **settings})
        record = self.loop.run_until_complete(self.transactions.perform(open_share, chosen, new_share()))
        tree = None if place_of is None else Tree(record.id, record.root, place_of)
        volume = Volume(record, transactions=self.transactions, content=self.content, tree=tree)
        share = Share(chosen, record, volume)
        self.shares.add(share)
        return share

    async def answer(self, record: bytes, peer: Peer) -> bytes | None:
        """The reply to one record; None if there is none."""
        delivered: asyncio.Future[Any] = self.loop.create_future()
        reply = self.dispatcher.serve(record, peer, delivered.set_result)
        if reply is None:
            reply = await delivered
        return None if reply is None else b"".join(reply)

    def transport(
        self,
        credential: opaque_auth = NO_AUTH,
        *,
        address: str = "192.0.2.1",
        local_address: str = "192.0.2.9",
        transport: str = "tcp",
        port: int = 700,
    ) -> DirectTransport:
        peer = Peer(
            address=address,
            port=port,
            local_address=local_address,
            transport=transport,
            is_loopback=address in ("127.0.0.1", "::1"),
        )
        return DirectTransport(self, peer, credential)

    def nfs(self, credential: opaque_auth = ROOT, **peer: Any) -> Nfs3Client:
        return Nfs3Client(self.transport(credential, **peer))

    def root(self, name: str = "/export") -> bytes:
        """The handle of a share's root, as MOUNT gives it."""
        return mount(self.transport(), name).fhandle
