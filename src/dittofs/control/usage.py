"""Counts what is in a share by walking its tree, a directory's entries at a time, with others going on in between."""

from dittofs.control.listing import Turns
from dittofs.control.views import UsageView
from dittofs.files import entries
from dittofs.files.inodes import load
from dittofs.files.records import FileType
from dittofs.files.values import File
from dittofs.model.errors import FileError
from dittofs.model.ids import FileId
from dittofs.shares.share import Share
from dittofs.stores.tables import View

ENTRIES_AT_ONCE = 64
FILES_MAX = 5_000_000


async def count_usage(share: Share, turns: Turns) -> UsageView:
    volume = share.volume
    counts = {"files": 0, "directories": 1, "others": 0, "bytes": 0, "used_bytes": 0}
    linked: set[FileId] = set()
    seen = 0
    todo: list[tuple[FileId, int]] = [(volume.root, 0)]
    while todo and seen < FILES_MAX:
        directory, place = todo.pop()
        await turns.pause()
        found, at_end = await volume.transactions.perform(_listed, directory, place, is_relaxed=True)
        seen += len(found)
        if not at_end:
            todo.append((directory, found[-1][0]))
        for _, file in found:
            if file is None or file.id in linked:
                continue
            if file.is_directory:
                todo.append((file.id, 0))
            elif file.links > 1:
                linked.add(file.id)
            _count(counts, file)
    return UsageView(share=share.name, is_complete=not todo, **counts)


def _count(counts: dict[str, int], file: File) -> None:
    kind = file.inode.type
    counts["files" if kind is FileType.REGULAR else "directories" if file.is_directory else "others"] += 1
    if kind is FileType.REGULAR:
        counts["bytes"] += file.inode.size
        counts["used_bytes"] += file.inode.used


def _listed(view: View, directory: FileId, place: int) -> tuple[list[tuple[int, File | None]], bool]:
    found, at_end = entries.list_after(view, directory, place, ENTRIES_AT_ONCE)
    return [(at, _load(view, entry.file)) for at, entry in found], at_end


def _load(view: View, file: FileId) -> File | None:
    try:
        return load(view, file)
    except FileError:
        return None
