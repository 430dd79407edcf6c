"""A backup on its way to whoever asked for it: one moment of a share as a stream, begun and ended with the request.

The tree is walked into a file first, because changes wait for that and must not wait for the receiver; then it
and the content are sent as quickly as they are taken.
"""

import contextlib
import tempfile
import time
from collections.abc import AsyncIterator
from typing import BinaryIO

from starlette.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from dittofs import __version__
from dittofs.backups import format as form
from dittofs.control.listing import Turns
from dittofs.control.plane import Plane
from dittofs.files.records import FileType
from dittofs.files.snapshot import Snapshot, SnapshotLost
from dittofs.files.values import File
from dittofs.model.errors import FileError
from dittofs.model.ids import FileId
from dittofs.shares.share import Share
from dittofs.stores.api import StoreError

SENT_AT_ONCE = 256 * 1024


class NotComplete(Exception):
    """For the audit log; the receiver sees that there is no end."""


class BackupStream(StreamingResponse):
    """The answer; while it is sent, the share keeps what it needs."""

    def __init__(self, plane: Plane, share: Share, *, actor: str, reason: str):
        super().__init__(self._sent(), media_type="application/octet-stream")
        self._plane = plane
        self._share = share
        self._actor = actor
        self._reason = reason
        self._failure = "the client went away"
        self._spool: BinaryIO | None = None
        self._snapshot: Snapshot | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        directory = self._plane.settings().server.data
        with tempfile.TemporaryFile(dir=directory) as aside, tempfile.TemporaryFile(dir=directory) as spool:
            self._spool, self._snapshot = spool, Snapshot(self._share.volume, aside)
            # Nothing was waited for since it was seen that there is no other one.
            with self._snapshot.taken(), contextlib.suppress(NotComplete):
                async with self._plane.audit.acting(
                    actor=self._actor, action="backup", target=self._share.name, reason=self._reason
                ):
                    await super().__call__(scope, receive, send)
                    if self._failure:
                        raise NotComplete(self._failure)

    async def _sent(self) -> AsyncIterator[bytes]:
        summed, turns = form.Summed(), Turns()
        try:
            async for part in self._frames():
                yield summed.passed(part)
                # Neither the file service nor the news that the client is gone may wait for the end.
                await turns.pause()
        except (SnapshotLost, StoreError, FileError, OSError) as error:
            self._failure = str(error)
            yield form.frame(form.FAILED, form.Failed(str(error)))
            return
        self._failure = ""
        yield summed.digest()

    async def _frames(self) -> AsyncIterator[bytes]:
        assert self._snapshot is not None, "the snapshot is taken"
        assert self._spool is not None, "the snapshot is taken"
        snapshot, spool = self._snapshot, self._spool
        if not await self._plane.answer_present():
            raise SnapshotLost("calls that were under way did not end: try again")
        header = await _spool_tree(self._share, snapshot, spool)
        snapshot.thaw()
        yield form.MAGIC + form.frame(form.SHARE, header)
        spool.seek(0)
        while part := spool.read(SENT_AT_ONCE):
            snapshot.check()
            yield part
        count = 0
        async for file, offset, data in snapshot.contents():
            count += 1
            yield form.frame(form.CONTENT, form.Piece(file, offset, memoryview(data)))
        yield form.frame(form.FINISHED, form.Finished(count))


async def _spool_tree(share: Share, snapshot: Snapshot, spool: BinaryIO) -> form.ShareHeader:
    """Write every file and name aside, and say what they come to."""
    turns = Turns()
    root = await snapshot.root()
    spool.write(form.frame(form.NODE, _node(root)))
    lowest = highest = root.id
    files, names, content_bytes = 1, 0, 0
    linked: set[FileId] = set()
    async for found in snapshot.walk():
        for directory, name, file in found:
            if file.id not in linked:
                if file.links > 1 and not file.is_directory:
                    linked.add(file.id)
                spool.write(form.frame(form.NODE, _node(file)))
                lowest, highest = min(lowest, file.id), max(highest, file.id)
                files += 1
                content_bytes += file.inode.size if file.inode.type is FileType.REGULAR else 0
            spool.write(form.frame(form.NAME, form.Name(directory, name, file.id)))
            names += 1
        await turns.pause()
    record = share.record
    return form.ShareHeader(
        name=share.name,
        id=record.id.hex(),
        handle_key=record.handle_key.hex(),
        fsid=record.fsid,
        root=record.root,
        made_at=time.time(),
        made_by=f"DittoFS {__version__}",
        files=files,
        names=names,
        content_bytes=content_bytes,
        lowest_id=lowest,
        highest_id=highest,
    )


def _node(file: File) -> form.Node:
    inode = file.inode
    return form.Node(
        id=file.id,
        type=int(inode.type),
        mode=inode.mode,
        uid=inode.uid,
        gid=inode.gid,
        links=file.links,
        size=inode.size,
        atime=inode.atime,
        mtime=file.mtime,
        ctime=file.ctime,
        parent=inode.parent,
        target=inode.target,
        device_major=inode.device_major,
        device_minor=inode.device_minor,
    )
