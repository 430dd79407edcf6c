"""Who is there, and who has rebooted: the client registry and the status monitor, put together.

Part of the composition: it reads the settings, keeps the state number in the data directory and has the timers.
"""

import asyncio
import os
import time
from pathlib import Path

import msgspec
import structlog

from dittofs.clients.monitoring import ADAPTER, HostMonitor
from dittofs.clients.registry import AdapterRules, ClientRegistry
from dittofs.config import Settings
from dittofs.locks.keeping import Transactions
from dittofs.locks.service import LockService
from dittofs.model.errors import FileError, StoreFailure
from dittofs.model.ids import ClientId, ShareName
from dittofs.protocols.nsm.notifying import Notifier, Target
from dittofs.protocols.nsm.procedures import NsmServices
from dittofs.protocols.nsm.status import FORMAT, OwnStatus, StatusRecord
from dittofs.reaching import RemotePrograms
from dittofs.stores.api import StoreError
from dittofs.stores.data_directory import flush_directory

log = structlog.get_logger()

STATUS_NAME = "nsm"
NOTIFY_SECONDS = 30.0
"""How long clients are told of a restart at least, however short grace is."""


class Watching:
    """Made when the lock service is there and before the first share."""

    def __init__(self, settings: Settings, locks: LockService):
        rules = settings.clients.nlm
        self.registry = ClientRegistry(
            {ADAPTER: AdapterRules(max=rules.max, ttl_seconds=rules.ttl_seconds)},
            held=locks.inspect.held_count,
            is_busy=locks.inspect.is_busy,
        )
        # A record that nobody needs goes with the next check but one: never while its client's lock is decided upon.
        self.hosts = HostMonitor(self.registry, locks, idle_seconds=max(rules.stale_check_seconds, 1.0))
        self.status = OwnStatus(*_status_file(settings.server.data / STATUS_NAME))
        self._name = settings.nsm.name
        self._notifier: Notifier | None = None
        self._stale_check_seconds = rules.stale_check_seconds
        self._notify_seconds = max(settings.locks.grace_seconds, NOTIFY_SECONDS)
        self._told: set[ClientId] = set()
        """Clients that are told of this start already, or were."""
        self._timer: asyncio.TimerHandle | None = None
        self._check: asyncio.Task[None] | None = None
        self.status.advance()

    def services(self, remote: RemotePrograms) -> NsmServices:
        """What the status monitor's procedures work on; `remote` is the way to other hosts."""
        self._notifier = Notifier(self._name, remote.call)
        return NsmServices(self.hosts, self.status, self._notifier, self._simulate_crash)

    @property
    def notifier(self) -> Notifier:
        assert self._notifier is not None, "the services come first"
        return self._notifier

    def start(self) -> None:
        """Everything listens and is announced: now clients can be told, and will be answered [NSM-4]."""
        self.notifier.start(self._monitored(), self.status.state, seconds=self._notify_seconds)
        self._tell_clients()
        self._check_later()

    async def add_share(self, share: ShareName, transactions: Transactions) -> None:
        """Take in whom the share's store has recorded; if the server runs already, they are told at once."""
        await self.hosts.add_share(share, transactions)
        if self._timer is not None:
            self._tell_clients()

    def _tell_clients(self) -> None:
        new = [watched for watched in self.hosts.unnotified() if watched.id not in self._told]
        self._told.update(watched.id for watched in new)
        targets = [
            Target(watched.record.address, watched.record.local_address, self._acknowledged(watched.id))
            for watched in new
        ]
        self.notifier.start(targets, self.status.state, seconds=self._notify_seconds)

    async def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        if self._check is not None:
            await asyncio.gather(self._check, return_exceptions=True)
        await self.notifier.stop()

    def _acknowledged(self, client: ClientId) -> "_Acknowledged":
        return _Acknowledged(self.hosts, client)

    def _monitored(self) -> list[Target]:
        """Hosts that programs of this one have watched hear of a restart too."""
        return [Target(one.address, None, _nothing_more) for one in self.status.monitored]

    def _simulate_crash(self) -> None:
        self.status.advance()
        self.notifier.start(self._monitored(), self.status.state, seconds=self._notify_seconds)

    def _check_later(self) -> None:
        self._timer = asyncio.get_running_loop().call_later(self._stale_check_seconds, self._check_now)

    def _check_now(self) -> None:
        self._check = asyncio.ensure_future(self._check_stale())

    async def _check_stale(self) -> None:
        try:
            await self.hosts.check_stale()
        except FileError as error:
            log.error("the stale check of clients could not be kept", reason=str(error))
        self._check_later()


class _Acknowledged:
    __slots__ = ("_client", "_hosts")

    def __init__(self, hosts: HostMonitor, client: ClientId):
        self._hosts = hosts
        self._client = client

    def __call__(self) -> None:
        self._hosts.notified(self._client)


def _nothing_more() -> None:
    """Nothing is recorded about such a host that could end."""


def _status_file(path: Path) -> "tuple[StatusRecord, _Keep]":
    """What the last run left.  A new directory begins at the clock: clients that knew this server before it lost its
    data must still see the number grow."""
    try:
        record = msgspec.json.decode(path.read_bytes(), type=StatusRecord)
    except FileNotFoundError:
        record = StatusRecord(state=int(time.time()) & 0x7FFF_FFFE)
    except (OSError, msgspec.MsgspecError) as error:
        raise StoreError(f"{path} is not the status monitor's file: {error}") from error
    if record.format > FORMAT:
        raise StoreError(f"{path} has format {record.format}, written by a newer DittoFS; this one knows {FORMAT}")
    return record, _Keep(path)


class _Keep:
    """Replaces the file whole, durably: a kill at any moment leaves the old one or the new one."""

    def __init__(self, path: Path):
        self._path = path

    def __call__(self, record: StatusRecord) -> None:
        fresh = self._path.with_suffix(".new")
        try:
            with fresh.open("wb") as file:
                file.write(msgspec.json.encode(record) + b"\n")
                file.flush()
                os.fsync(file.fileno())
            fresh.rename(self._path)
            flush_directory(self._path.parent)
        except OSError as error:
            raise StoreFailure(f"cannot keep the status monitor's state in {self._path}: {error.strerror}") from error
