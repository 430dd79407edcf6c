"""Takes up a changed configuration while the server runs: shares come, change and go, others notice nothing.

Part of the composition.  Only shares are taken up, and stores that were not open; whatever else has changed is named,
and waits for a restart.
"""

import asyncio
from collections.abc import Callable
from typing import NamedTuple, Protocol

import msgspec
import structlog

from dittofs.config import Settings, ShareSettings, StoreSettings
from dittofs.control.plane import CannotReload, Reloaded
from dittofs.loading import SECTIONS, ConfigError
from dittofs.stores.api import StoreError

log = structlog.get_logger()


class Serving(Protocol):
    """The server, as far as its shares go."""

    settings: Settings

    def open_stores(self) -> set[str]: ...
    async def open_share(self, settings: ShareSettings) -> None: ...
    async def change_share(self, settings: ShareSettings) -> None: ...
    async def close_share(self, name: str) -> None: ...


class Difference(NamedTuple):
    added: list[ShareSettings]
    changed: list[ShareSettings]
    moved: list[ShareSettings]
    """Kept elsewhere from now on: closed, and opened there."""
    removed: list[str]
    ignored: list[str]


def difference(old: Settings, new: Settings) -> Difference:
    """What has changed (pure)."""
    before = {share.name: share for share in old.shares}
    after = {share.name: share for share in new.shares}
    found = Difference([share for name, share in after.items() if name not in before], [], [], [], [])
    found.removed.extend(name for name in before if name not in after)
    for name in before.keys() & after.keys():
        was, is_ = before[name], after[name]
        if (was.metadata, was.content) != (is_.metadata, is_.content):
            found.moved.append(is_)
        elif was != is_:
            found.changed.append(is_)
    found.ignored.extend(name for name in SECTIONS if getattr(old, name) != getattr(new, name))
    used = {store for share in old.shares for store in (share.metadata, share.content)}
    found.ignored.extend(
        f"stores.{name}" for name in sorted(used) if name in new.stores and new.stores[name] != old.stores[name]
    )
    return found


class Reloading:
    """One at a time, by signal or by request."""

    def __init__(self, serving: Serving, load: Callable[[], Settings] | None):
        self._serving = serving
        self._load = load
        self._one_at_a_time = asyncio.Lock()

    async def reload(self) -> Reloaded:
        """Raises CannotReload: then nothing was changed."""
        if self._load is None:
            raise CannotReload("this server was started without a way to read its configuration again")
        async with self._one_at_a_time:
            try:
                new = await asyncio.to_thread(self._load)
            except ConfigError as error:
                raise CannotReload("; ".join(error.problems)) from error
            return await self._take_up(new)

    async def _take_up(self, new: Settings) -> Reloaded:
        serving, old = self._serving, self._serving.settings
        found = difference(old, new)
        kept = {name: getattr(old, name) for name in SECTIONS}
        serving.settings = msgspec.structs.replace(new, **kept, stores=self._stores(new))
        try:
            await self._add(found.added)
        except BaseException:
            serving.settings = old
            raise
        for share in found.changed:
            await serving.change_share(share)
        for name in [*found.removed, *(share.name for share in found.moved)]:
            await serving.close_share(name)
        # Stores that are closed now may be opened under their new settings.
        serving.settings = msgspec.structs.replace(serving.settings, stores=self._stores(new))
        await self._add(found.moved)
        done = Reloaded(
            added=[share.name for share in found.added],
            changed=sorted(share.name for share in [*found.changed, *found.moved]),
            removed=found.removed,
            ignored=found.ignored,
        )
        log.info("configuration reloaded", added=done.added, changed=done.changed, removed=done.removed)
        if done.ignored:
            log.warning("some settings are taken up by a restart only", settings=done.ignored)
        return done

    def _stores(self, new: Settings) -> dict[str, StoreSettings]:
        """An open store stays what it is."""
        now = self._serving.settings.stores
        return {**new.stores, **{name: now[name] for name in self._serving.open_stores()}}

    async def _add(self, shares: list[ShareSettings]) -> None:
        """All of them or none.  Raises CannotReload."""
        opened: list[str] = []
        try:
            for share in shares:
                await self._serving.open_share(share)
                opened.append(share.name)
        except StoreError as error:
            for name in opened:
                await self._serving.close_share(name)
            raise CannotReload(str(error)) from error

    async def by_signal(self) -> None:
        """On SIGHUP there is nobody to tell but the log."""
        try:
            await self.reload()
        except CannotReload as error:
            log.error("the configuration was not taken up", reason=str(error))
        except Exception:  # the top of a background task
            log.exception("taking up the configuration failed")
