"""The composition root: builds everything, knows everything, holds no logic."""

import asyncio
import contextlib
import gc
import os
import signal
import sys
import time
from collections.abc import Callable
from typing import Literal, NamedTuple

import structlog
import uvloop

from dittofs import __version__
from dittofs.announcing import PortMapping, announce
from dittofs.cli.mounting import Situation, mount_text
from dittofs.config import Settings, ShareSettings
from dittofs.control.plane import durable
from dittofs.controlling import ControlPlane, Parts
from dittofs.files import recovery
from dittofs.files.upkeep import Upkeep
from dittofs.files.values import Removed
from dittofs.files.volume import Volume
from dittofs.locks.keeping import SplitBrain
from dittofs.locks.limits import LockLimits
from dittofs.locks.service import LockService
from dittofs.locks.values import Origin
from dittofs.model.errors import FileError, StoreFailure
from dittofs.model.ids import ClientId, FileRef, ShareName
from dittofs.net.addresses import local_addresses
from dittofs.net.limits import TcpLimits
from dittofs.net.listening import Bound, CannotListen, bind
from dittofs.net.open_files import allow_connections
from dittofs.net.sockets import ServedSockets
from dittofs.protocols.mount.procedures import MOUNT1, MOUNT3, MountServices
from dittofs.protocols.nfs3 import procedures as _  # noqa: F401  # registers the 22 procedures
from dittofs.protocols.nfs3.serving import NFS3, Nfs3Services
from dittofs.protocols.nlm.answering import Answering
from dittofs.protocols.nlm.granting import Granting
from dittofs.protocols.nlm.procedures import PROGRAMS as NLM_PROGRAMS
from dittofs.protocols.nlm.serving import NlmServices
from dittofs.protocols.nsm.procedures import NSM1
from dittofs.reaching import RemotePrograms
from dittofs.reloading import Reloading
from dittofs.rpc.dispatch import Dispatcher
from dittofs.rpc.replay import ReplayCache
from dittofs.shares.registry import ShareRegistry, new_share, open_share
from dittofs.shares.share import Share
from dittofs.stores.api import ContentStore, StoreError
from dittofs.stores.data_directory import server_data
from dittofs.stores.making import Driver, forgets_one_half, make_content_store, make_transactions
from dittofs.stores.node import Node, begin_epoch, take_back_epoch
from dittofs.stores.shared import SharedTransactions
from dittofs.watching import Watching

log = structlog.get_logger()

REPLAY_SECONDS = 120.0
STOP_SECONDS = 10.0

PROGRAMS = (NFS3, MOUNT3, MOUNT1, *NLM_PROGRAMS, NSM1)


class CannotServe(Exception):
    """The server cannot start; the message says what is wrong."""


class Run(NamedTuple):
    """One run of a server, from its start to its stop or crash [KEEP-3]."""

    node: str
    epoch: int
    after: Literal["first start", "clean stop", "crash"]


class Server:
    """One running server."""

    def __init__(self, settings: Settings, load: Callable[[], Settings] | None = None):
        """`load` reads the configuration anew."""
        self.settings = settings
        self.reloading = Reloading(self, load)
        self.shares = ShareRegistry()
        self.port = 0
        self.mapping: PortMapping | None = None
        self._data = server_data(settings.server.data)
        self._transactions: dict[str, Driver] = {}
        self._contents: dict[str, ContentStore] = {}
        self._volumes: dict[bytes, Volume] = {}
        self._names: dict[bytes, ShareName] = {}
        self._locks: LockService | None = None
        self._begun: Run | None = None
        self._watching: Watching | None = None
        self._upkeep: dict[str, Upkeep] = {}
        self._dispatcher = Dispatcher(
            replay=ReplayCache(max_bytes=settings.limits.max_replay_bytes, max_age_seconds=REPLAY_SECONDS),
            clock=time.monotonic,
        )
        self._sockets: dict[str, ServedSockets] = {}
        self._nfs = Nfs3Services(self.shares)
        self._mounting = MountServices(self.shares)
        self.control: ControlPlane | None = None
        self._calls = contextlib.AsyncExitStack()
        """Ends calls of our own to clients, before the lock table is closed that they report to."""
        self._undo = contextlib.AsyncExitStack()

    async def start(self) -> None:
        """Everything up to the first answered call; what was begun is undone if a step fails."""
        try:
            self._data.acquire()
            self._undo.callback(self._data.release)
            node = begin_epoch(self.settings.server.data)
            self._locks = LockService(lock_limits(self.settings), Origin(node.id, node.epoch))
            self._watching = Watching(self.settings, self._locks)
            self._nfs.locks = self._locks
            await self._open_shares(node)
            self._begun = self._run_begun(node)
            self._dispatcher.add(NFS3, self._nfs)
            self._dispatcher.add(MOUNT3, self._mounting)
            self._dispatcher.add(MOUNT1, self._mounting)
            server, limits = self.settings.server, self.settings.limits
            self._allow_connections(limits.max_connections)
            bound = bind(server.listen, server.port, with_udp=limits.udp)
            self.port = bound.port
            remote = RemotePrograms(self.port)
            self._add_nlm(remote)
            self._dispatcher.add(NSM1, self.watching.services(remote))
            await self._serve(bound, self._dispatcher, adapter="nfs")
            self.mapping = await announce(
                server.portmap, server.listen, self.port, PROGRAMS, with_udp=limits.udp, serve=self._serve
            )
            self._undo.push_async_callback(self.mapping.withdraw)
            await self._start_control()
            self._calls.push_async_callback(self.watching.stop)
            self.watching.start()
        except BaseException:
            await self.stop()
            raise

    async def stop(self) -> None:
        """Answer what is under way, make everything durable, let go of all resources."""
        for sockets in self._sockets.values():
            sockets.stop_listening()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(STOP_SECONDS):
                await self._dispatcher.drain()
        await self._calls.aclose()
        if self._locks is not None:
            await self._locks.close()
        await self._undo.aclose()

    def _run_begun(self, node: Node) -> Run:
        is_clean = self._data.was_left_clean and all(before.is_clean for before in self.locks.previous_runs())
        after: Literal["first start", "clean stop", "crash"] = "crash"
        if node.epoch == 1:
            after = "first start"
        elif is_clean:
            after = "clean stop"
        return Run(node.id, node.epoch, after)

    @property
    def dispatcher(self) -> Dispatcher:
        """Answers calls however they came here."""
        return self._dispatcher

    @property
    def run(self) -> Run:
        """For `status`: which run this is, and what it came after."""
        assert self._begun is not None, "started"
        return self._begun

    @property
    def locks(self) -> LockService:
        assert self._locks is not None, "started"
        return self._locks

    @property
    def watching(self) -> Watching:
        assert self._watching is not None, "started"
        return self._watching

    def _add_nlm(self, remote: RemotePrograms) -> None:
        """Locks over the wire, and calls to those who wait for one."""
        settings = self.settings.locks
        self.granting = Granting(
            self.locks,
            remote,
            attempt_seconds=settings.callback_attempt_seconds,
            give_up_seconds=settings.callback_give_up_seconds,
        )
        self.locks.listeners.append(self.granting)
        answering = Answering(remote)
        self._calls.push_async_callback(self.granting.close)
        self._calls.push_async_callback(answering.close)
        services = NlmServices(
            self.shares, self.locks, self.watching.hosts, granting=self.granting, answering=answering
        )
        for program in NLM_PROGRAMS:
            self._dispatcher.add(program, services)

    async def _start_control(self) -> None:
        parts = Parts(
            settings=lambda: self.settings,
            port=self.port,
            sockets=self._sockets,
            stores=self._transactions,
            contents=self._contents,
            nfs=self._nfs,
            mounts=self._mounting.mounts,
            shares=self.shares,
            locks=self.locks,
            clients=self.watching.registry,
            granting=self.granting,
            forget_client=self._forget_client,
            reload=self.reloading.reload,
            answer_present=lambda: self._dispatcher.answer_present(STOP_SECONDS),
            started_after=self.run.after,
        )
        self.control = ControlPlane(parts)
        self._undo.push_async_callback(self.control.stop)
        await self.control.start()

    async def _forget_client(self, client: ClientId) -> None:
        """An operator says that a client will not come back."""
        await durable(await self.watching.hosts.forget(client))

    def _allow_connections(self, wanted: int) -> None:
        room = allow_connections(wanted)
        if room < wanted:
            log.warning("the system allows fewer open files than limits.max_connections needs", connections=room)

    async def _serve(self, bound: Bound, dispatcher: Dispatcher, adapter: str = "portmap") -> None:
        sockets = ServedSockets(bound, dispatcher, tcp_limits(self.settings))
        self._undo.push_async_callback(sockets.close)
        await sockets.start()
        self._sockets[adapter] = sockets

    async def _open_shares(self, node: Node) -> None:
        try:
            for share in self.settings.shares:
                await self.open_share(share)
        except SplitBrain:
            take_back_epoch(self.settings.server.data, node)
            raise

    async def open_share(self, settings: ShareSettings) -> None:
        transactions = await self._open_metadata(settings.metadata)
        content = self._open_content(settings.content)
        if forgets_one_half(transactions, content):
            log.warning("of metadata and content, a restart keeps one and forgets the other", share=settings.name)
        record = await transactions.perform(open_share, settings, new_share())
        volume = Volume(record, transactions=transactions, content=content, is_relaxed=settings.durability == "relaxed")
        await recovery.recover(volume)
        self._volumes[record.id] = volume
        self._names[record.id] = ShareName(settings.name)
        await self.locks.add_share(ShareName(settings.name), volume.id, transactions)
        await self.watching.add_share(ShareName(settings.name), transactions)
        self.shares.add(Share(settings, record, volume))
        upkeep = self._upkeep[settings.name] = Upkeep(volume)
        upkeep.start()
        self._undo.push_async_callback(upkeep.stop)

    async def change_share(self, settings: ShareSettings) -> None:
        """Who may do what in it is different from now on; its data and its locks stay as they are."""
        share = self._served(settings.name)
        volume = share.volume
        record = await volume.transactions.perform(open_share, settings, new_share())
        volume.is_relaxed = settings.durability == "relaxed"
        self.shares.replace(Share(settings, record, volume))
        self._nfs.forget(share)
        self._dispatcher.memory.forget()

    async def close_share(self, name: str) -> None:
        """Serve it no longer: calls under way are answered, everything is made durable, unused stores are closed."""
        share = self.shares.remove(name)
        self._dispatcher.memory.forget()
        if share.volume.snapshot is not None:
            share.volume.snapshot.lose("the share is not served any more")
        await self._dispatcher.answer_present(STOP_SECONDS)
        await self._upkeep.pop(name).stop()
        await self.locks.remove_share(share.name)
        self.watching.hosts.remove_share(share.name)
        self._nfs.forget(share)
        del self._volumes[share.volume.id], self._names[share.volume.id]
        if not any(one.settings.metadata == share.settings.metadata for one in self.shares):
            await self._transactions.pop(share.settings.metadata).close()
        if not any(one.settings.content == share.settings.content for one in self.shares):
            self._contents.pop(share.settings.content).close()

    def open_stores(self) -> set[str]:
        return {*self._transactions, *self._contents}

    def _served(self, name: str) -> Share:
        share = self.shares.find(name)
        assert share is not None, f"{name} is served"
        return share

    async def _open_metadata(self, name: str) -> Driver:
        transactions = self._transactions.get(name)
        if transactions is None:
            chosen = self.settings.stores[name]
            transactions = make_transactions(name, chosen.kind, chosen.options)
            if isinstance(transactions, SharedTransactions):
                await transactions.open()
            else:
                transactions.open()
                transactions.start(asyncio.get_running_loop())
                transactions.on_loss = self._reconcile(transactions)
            self._undo.push_async_callback(self._close_metadata, name, transactions)
            transactions.on_effect = self._perform
            self._transactions[name] = transactions
        return transactions

    def _open_content(self, name: str) -> ContentStore:
        content = self._contents.get(name)
        if content is None:
            chosen = self.settings.stores[name]
            content = make_content_store(name, chosen.kind, chosen.options)
            content.open()
            self._undo.callback(self._close_content, name, content)
            self._contents[name] = content
        return content

    async def _close_metadata(self, name: str, transactions: Driver) -> None:
        """At the end; one that a reload closed is closed already."""
        if self._transactions.get(name) is transactions:
            await transactions.close()

    def _close_content(self, name: str, content: ContentStore) -> None:
        if self._contents.get(name) is content:
            content.close()

    def _perform(self, effect: object, hold: object) -> None:
        assert isinstance(effect, Removed), f"an effect nobody knows: {effect!r}"
        self._volumes[effect.share].removed(effect)
        self.locks.forget_file(FileRef(self._names[effect.share], effect.file))

    def _reconcile(self, transactions: Driver) -> Callable[[FileError], None]:
        def lost(reason: FileError) -> None:
            log.error("the metadata store lost changes that were not answered yet", reason=str(reason))
            for volume in self._volumes.values():
                if volume.transactions is transactions:
                    volume.reconcile()

        return lost


def lock_limits(settings: Settings) -> LockLimits:
    locks = settings.locks
    return LockLimits(
        grace_seconds=locks.grace_seconds,
        max_per_file=locks.max_per_file,
        max_per_client=locks.max_per_client,
        max_total=locks.max_total,
        max_waiters_per_file=locks.max_waiters_per_file,
        blocking_timeout_seconds=locks.blocking_timeout_seconds,
    )


def tcp_limits(settings: Settings) -> TcpLimits:
    limits = settings.limits
    return TcpLimits(
        max_connections=limits.max_connections,
        max_connections_per_client=limits.max_connections_per_client,
        max_record_bytes=limits.max_record_bytes,
        max_fragments=limits.max_fragments,
        max_calls_per_connection=limits.max_calls_per_connection,
        max_reply_bytes_per_connection=limits.max_reply_bytes_per_connection,
        idle_timeout_seconds=limits.idle_timeout_seconds,
        busy_poll_seconds=limits.busy_poll_microseconds / 1e6,
        slow_sender_seconds=limits.slow_sender_seconds,
    )


def situation_of(server: Server) -> Situation:
    """What the printed mount commands depend on."""
    assert server.mapping is not None, "started"
    return Situation(
        addresses=local_addresses(server.settings.server.listen),
        port=server.port,
        port_mapper=server.mapping.port_mapper,
        shares=tuple(share.name for share in server.settings.shares),
        why_no_port_mapper=server.mapping.why_not,
        is_macos=sys.platform == "darwin",
        interpreter=os.path.realpath(sys.executable),
        is_portmap_off=server.settings.server.portmap == "off",
        is_lock_service_taken=any(program.number in server.mapping.missing for program in NLM_PROGRAMS),
    )


async def serve(settings: Settings, say: Callable[[str], None], load: Callable[[], Settings] | None = None) -> None:
    """Serve until SIGTERM or SIGINT; `say` gets the text that tells how to mount."""
    loop = asyncio.get_running_loop()
    stopped = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stopped.set)
    server = Server(settings, load)
    began = time.monotonic()
    gc.disable()  # what a start reads stays: looking through it again and again finds nothing
    await server.start()
    gc.collect()
    gc.freeze()
    gc.enable()
    gc.set_threshold(50_000, 20, 50)
    log.info(
        "serving",
        version=__version__,
        port=server.port,
        seconds=round(time.monotonic() - began, 3),
        epoch=server.run.epoch,
        after=server.run.after,
    )
    assert server.control is not None, "started"
    for line in server.control.missing:
        say(f"{line}\n")
    reloads: set[asyncio.Task[None]] = set()
    loop.add_signal_handler(signal.SIGHUP, lambda: reloads.add(loop.create_task(server.reloading.by_signal())))
    say(mount_text(situation_of(server)))
    await stopped.wait()
    log.info("stopping")
    await server.stop()
    log.info("stopped")


def run(settings: Settings, say: Callable[[str], None], load: Callable[[], Settings] | None = None) -> None:
    """Serve; `load` reads the configuration anew when that is asked for.  Raises CannotServe if it cannot begin."""
    try:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(serve(settings, say, load))
    except (CannotListen, StoreError, StoreFailure) as error:
        raise CannotServe(str(error)) from error
