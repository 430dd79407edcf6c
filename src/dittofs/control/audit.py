"""Who changed what, and why: an append-only file in the data directory, one JSON object per line [OPS-5].

An action is written down, durably, before it is begun, and once more with how it ended; a line without an end is an
action that a crash cut short.
"""

import asyncio
import contextlib
import os
import time
from collections import OrderedDict
from collections.abc import AsyncIterator
from pathlib import Path

import msgspec
import structlog

log = structlog.get_logger()

KEPT = 1000
FILE_BYTES_MAX = 16 * 2**20
BEGUN = "begun"
DONE = "done"


class Entry(msgspec.Struct, frozen=True, kw_only=True):
    """One action of an operator."""

    id: int
    at: float
    actor: str
    action: str
    target: str
    reason: str
    outcome: str


class Audit:
    """The newest actions are kept in memory; all of them are in the file, and in the one that was full before it."""

    def __init__(self, path: Path):
        self._path = path
        self._entries: OrderedDict[int, Entry] = OrderedDict()
        self._next = 1
        self._writing = asyncio.Lock()

    def open(self) -> None:
        """Read what earlier runs wrote; a line that a crash cut is passed over."""
        for path in (self._older, self._path):
            with contextlib.suppress(FileNotFoundError):
                for line in path.read_bytes().splitlines():
                    with contextlib.suppress(msgspec.DecodeError, msgspec.ValidationError):
                        self._remember(msgspec.json.decode(line, type=Entry))

    @property
    def _older(self) -> Path:
        return self._path.with_name(self._path.name + ".1")

    def newest(self, limit: int, before: int | None = None) -> list[Entry]:
        """The newest first."""
        entries = [entry for entry in reversed(self._entries.values()) if before is None or entry.id < before]
        return entries[:limit]

    @contextlib.asynccontextmanager
    async def acting(self, *, actor: str, action: str, target: str, reason: str) -> AsyncIterator[None]:
        """Around an action; nothing is done that could not be written down."""
        entry = Entry(
            id=self._next, at=time.time(), actor=actor, action=action, target=target, reason=reason, outcome=BEGUN
        )
        self._next += 1
        await self._write(entry)
        try:
            yield
        except Exception as error:
            await self._end(entry, f"failed: {error}")
            raise
        await self._end(entry, DONE)

    async def _end(self, entry: Entry, outcome: str) -> None:
        ended = msgspec.structs.replace(entry, outcome=outcome)
        log.info("operator", **msgspec.structs.asdict(ended))
        await self._write(ended)

    async def _write(self, entry: Entry) -> None:
        self._remember(entry)
        async with self._writing:
            await asyncio.to_thread(self._append, msgspec.json.encode(entry) + b"\n")

    def _append(self, line: bytes) -> None:
        with contextlib.suppress(FileNotFoundError):
            if self._path.stat().st_size > FILE_BYTES_MAX:
                self._path.rename(self._older)
        descriptor = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        try:
            os.write(descriptor, line)
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def _remember(self, entry: Entry) -> None:
        self._next = max(self._next, entry.id + 1)
        self._entries[entry.id] = entry
        while len(self._entries) > KEPT:
            self._entries.popitem(last=False)
