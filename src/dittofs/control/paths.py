"""The names of files that are known by their ids only, for people who look at locks.

A file does not know its names: they are found by walking the entries of its store, a bounded number for each question,
going on where the last one stopped.  What was found is looked at again before it is told, so that a
renamed file is never shown under its old name.
"""

import asyncio
import time
from collections import OrderedDict
from collections.abc import Collection
from typing import Any, NamedTuple

from dittofs.files import namespace
from dittofs.files.inodes import load
from dittofs.files.records import ENTRIES, INODES, ROOT_PARENT, Entry
from dittofs.files.tree import Tree
from dittofs.files.volume import Volume
from dittofs.model.errors import FileError, NotFound
from dittofs.model.identity import Identity
from dittofs.model.ids import FileId, FileRef
from dittofs.shares.registry import ShareRegistry
from dittofs.stores.tables import View

SERVER = Identity(uid=0, gid=0)

PLACES_KEPT = 100_000
ENTRIES_AT_ONCE = 128
ENTRIES_PER_QUESTION = 50_000
RETRY_SECONDS = 30.0
DEPTH_MAX = 512
RESOLVED_AT_ONCE = 16
FIRST = (FileId(0), 0)
LAST = (FileId(2**64 - 1), 2**64 - 1)


class Place(NamedTuple):
    """Where a name of a file was seen: its directory, and the place in it."""

    directory: FileId
    place: int


class PathNames:
    """Paths by file, and files by path."""

    def __init__(self, shares: ShareRegistry):
        self._shares = shares
        self._places: OrderedDict[tuple[int, FileId], Place] = OrderedDict()
        self._unnamed: OrderedDict[tuple[int, FileId], float] = OrderedDict()
        self._positions: dict[int, tuple[FileId, int]] = {}
        self._walking = asyncio.Lock()

    async def find(self, path: str) -> FileRef:
        """The file at a path such as `/export/a/b`.  Raises NotFound and its kin."""
        found = self._shares.find_path(path)
        if found is None:
            raise NotFound(f"no share holds {path}")
        share, names = found
        volume = share.volume
        file = await volume.transactions.perform(_walk, volume.tree, names, is_relaxed=True)
        return FileRef(share.name, file)

    async def of(self, files: Collection[FileRef]) -> dict[FileRef, str]:
        """The paths of those files whose names could be found."""
        wanted = dict.fromkeys(files)
        paths = await self._resolve(wanted)
        missing = [file for file in wanted if file not in paths]
        if missing and await self._search(missing):
            paths |= await self._resolve(missing)
        return paths

    async def _resolve(self, files: Collection[FileRef]) -> dict[FileRef, str]:
        paths = {}
        for number, file in enumerate(files):
            if number % RESOLVED_AT_ONCE == 0:
                await asyncio.sleep(0)
            volume = self._volume(file)
            if volume is not None:
                path = await self._path(volume, file)
                if path is not None:
                    paths[file] = path
        return paths

    def _volume(self, file: FileRef) -> Volume | None:
        share = self._shares.find(file.share)
        return None if share is None else share.volume

    async def _path(self, volume: Volume, file: FileRef) -> str | None:
        names: list[bytes] = []
        at = file.file
        while at != volume.root and len(names) < DEPTH_MAX:
            step = await self._name(volume, at)
            if step is None:
                return None
            name, at = step
            names.append(name)
        below = "/".join(name.decode("utf-8", "backslashreplace") for name in reversed(names))
        return f"{file.share.rstrip('/')}/{below}"

    async def _name(self, volume: Volume, file: FileId) -> tuple[bytes, FileId] | None:
        """A name of a file and the directory it is in, if one is known and still true."""
        key = (id(volume.transactions), file)
        place = self._places.get(key)
        if place is not None:
            entry = await volume.transactions.perform(_entry_at, place, is_relaxed=True)
            if entry is not None and entry.file == file:
                return entry.name, place.directory
            del self._places[key]
        # A directory knows its parent: only that one has to be looked through.
        parent = await volume.transactions.perform(_parent, file, is_relaxed=True)
        if parent is None:
            return None
        await self._walk_entries(volume, (parent, 0), (FileId(parent + 1), 0), {file}, ENTRIES_PER_QUESTION)
        place = self._places.get(key)
        entry = None if place is None else await volume.transactions.perform(_entry_at, place, is_relaxed=True)
        return None if entry is None else (entry.name, parent)

    async def _search(self, files: Collection[FileRef]) -> bool:
        """Walk the entries of the stores for names of these files; True if anything was found."""
        now = time.monotonic()
        by_store: dict[int, tuple[Volume, set[FileId]]] = {}
        for file in files:
            volume = self._volume(file)
            if volume is None:
                continue
            store = id(volume.transactions)
            if now - self._unnamed.get((store, file.file), -RETRY_SECONDS) >= RETRY_SECONDS:
                by_store.setdefault(store, (volume, set()))[1].add(file.file)
        found = False
        async with self._walking:
            for store, (volume, wanted) in by_store.items():
                found |= await self._search_store(store, volume, wanted, now)
        return found

    async def _search_store(self, store: int, volume: Volume, wanted: set[FileId], now: float) -> bool:
        before = len(wanted)
        begin = self._positions.get(store, FIRST)
        end = await self._walk_entries(volume, begin, LAST, wanted, ENTRIES_PER_QUESTION)
        if end is None and wanted and begin != FIRST:
            end = await self._walk_entries(volume, FIRST, begin, wanted, ENTRIES_PER_QUESTION)
        self._positions[store] = end or FIRST
        if end is None:  # a whole lap without a name: it has none, or a new one
            for file in wanted:
                self._unnamed[store, file] = now
            while len(self._unnamed) > PLACES_KEPT:
                self._unnamed.popitem(last=False)
        return len(wanted) < before

    async def _walk_entries(
        self, volume: Volume, begin: tuple[FileId, int], end: tuple[FileId, int], wanted: set[FileId], budget: int
    ) -> tuple[FileId, int] | None:
        """Look through entries, and take out of `wanted` what was found.  Where to go on; None at the end."""
        store = id(volume.transactions)
        while wanted and budget > 0:
            found = await volume.transactions.perform(_entries, begin, end, is_relaxed=True)
            for key, entry in found:
                if entry.file in wanted:
                    wanted.discard(entry.file)
                    self._remember((store, entry.file), Place(*key))
            if len(found) < ENTRIES_AT_ONCE:
                return None
            begin = (found[-1][0][0], found[-1][0][1] + 1)
            budget -= len(found)
            await asyncio.sleep(0)
        return begin

    def _remember(self, key: tuple[int, FileId], place: Place) -> None:
        self._places[key] = place
        while len(self._places) > PLACES_KEPT:
            self._places.popitem(last=False)


def _entries(view: View, begin: tuple[FileId, int], end: tuple[FileId, int]) -> list[tuple[Any, Entry]]:
    return list(view.scan(ENTRIES, begin, end, ENTRIES_AT_ONCE))


def _entry_at(view: View, place: Place) -> Entry | None:
    return view.get(ENTRIES, (place.directory, place.place))


def _parent(view: View, file: FileId) -> FileId | None:
    """Of a directory; None for everything else."""
    inode = view.get(INODES, file)
    try:
        is_directory = load(view, file).is_directory
    except FileError:
        return None
    return inode.parent if inode is not None and is_directory and inode.parent != ROOT_PARENT else None


def _walk(view: View, tree: Tree, names: list[str]) -> FileId:
    file = load(view, tree.root)
    for name in names:
        file = namespace.lookup(view, tree, SERVER, file, name.encode("utf-8", "surrogateescape"))
    return file.id
