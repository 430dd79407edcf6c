"""Locks that are held: listing, one of them, why it is there, and taking it away."""

from typing import Annotated, Literal

import msgspec

from dittofs.control.describing import lock_view, waiter_view, why_held
from dittofs.control.endpoints import ENDPOINTS, Asked, Refused
from dittofs.control.listing import BEFORE_ALL, LOCKS_AT_ONCE, Listing, Turns
from dittofs.control.plane import Plane, durable
from dittofs.control.views import Body, Explanation, FileLocks, LockPage, LockView, Query, Reason, ReleasedLocks, Text
from dittofs.locks.outcomes import Released
from dittofs.locks.values import Lock
from dittofs.model.errors import FileError
from dittofs.model.ids import FileId, FileRef, LockId, ShareName

WARNING = (
    "The client was not told, and cannot be: it still believes that it holds the lock, and may go on writing. "
    "Make sure that it does not."
)
ID_MAX = 2**63 - 1


class LockFilter(Query):
    share: Text | None = None
    path: Text | None = None
    client: Text | None = None
    owner: Text | None = None
    state: Literal["any", "held", "offered", "pending"] = "any"
    limit: Annotated[int, msgspec.Meta(ge=1, le=1000)] = 100
    cursor: Annotated[str, msgspec.Meta(max_length=200, pattern=r"^[0-9.]*$")] = ""


class FileQuery(Query):
    path: Text | None = None
    share: Text | None = None
    file: Annotated[int, msgspec.Meta(ge=1, le=ID_MAX)] | None = None
    limit: Annotated[int, msgspec.Meta(ge=1, le=1000)] = 1000


class WithReason(Body):
    reason: Reason


@ENDPOINTS.get("/locks", answer=LockPage, query=LockFilter, statuses=(404, 410))
async def list_locks(plane: Plane, asked: Asked) -> LockPage:
    """Locks, a page at a time; `next` is the cursor of the page that follows."""
    found, following = await Listing(plane).page(asked.query)
    paths = await plane.names.of({lock.file for lock in found})
    turns = Turns()
    views = []
    for lock in found:
        await turns.pause()
        views.append(lock_view(plane, lock, paths))
    return LockPage(
        locks=views,
        total=plane.locks.inspect.held_count(),
        next=following,
    )


@ENDPOINTS.get("/locks/{id}", answer=LockView, statuses=(404,))
async def show_lock(plane: Plane, asked: Asked) -> LockView:
    """One lock."""
    lock = await find_lock(plane, asked.path["id"])
    return lock_view(plane, lock, await plane.names.of([lock.file]))


@ENDPOINTS.get("/locks/{id}/why", answer=Explanation, statuses=(404,))
async def why_lock(plane: Plane, asked: Asked) -> Explanation:
    """Who holds it, since when, and who waits for it, in a sentence."""
    lock = await find_lock(plane, asked.path["id"])
    waiters = plane.locks.inspect.waiters_of_file(lock.file)
    return Explanation(why=why_held(plane, lock, waiters, await plane.names.of([lock.file])))


@ENDPOINTS.get("/file", answer=FileLocks, query=FileQuery, statuses=(404,))
async def locks_of_file(plane: Plane, asked: Asked) -> FileLocks:
    """Who holds and who waits for what in one file, given by its path or by share and file number.  `limit` is for the
    locks; `/locks` with the path has them all, a page at a time."""
    file = await file_asked(plane, asked.query)
    inspect = plane.locks.inspect
    paths = await plane.names.of([file])
    waiting = [*inspect.waiters_of_file(file), *(one for one in inspect.offers() if one.request.file == file)]
    return FileLocks(
        share=file.share,
        file=file.file,
        path=paths.get(file),
        locks=[lock_view(plane, lock, paths) for lock in inspect.locks_after(file, BEFORE_ALL, asked.query.limit)],
        total=inspect.count_of_file(file),
        waiters=[waiter_view(plane, waiter, paths) for waiter in waiting],
    )


@ENDPOINTS.post("/locks/{id}/release", answer=ReleasedLocks, body=WithReason, statuses=(404,))
async def release_lock(plane: Plane, asked: Asked) -> ReleasedLocks:
    """Take a lock away from its holder.  Whoever waits for it gets it; the holder is not told."""
    lock = await find_lock(plane, asked.path["id"])
    paths = await plane.names.of([lock.file])
    view = lock_view(plane, lock, paths)
    target = f"lock {lock.id} of {lock.owner.id} on {view.path or f'file {lock.file.file} of {lock.file.share}'}"
    async with plane.audit.acting(actor=asked.actor, action="release lock", target=target, reason=asked.body.reason):
        outcome, hold = await plane.locks.force_release(lock.id, lock.file)
        await durable(hold)
        if not isinstance(outcome, Released):
            raise Refused(404, f"lock {lock.id} is gone already")
    return ReleasedLocks(released=[view], warning=WARNING)


async def find_lock(plane: Plane, text: str) -> Lock:
    """There is no index by id, so that no lock has to pay for one: all are looked through, a little at a time.
    Raises Refused with 404."""
    if text.isdecimal() and text.isascii() and len(text) < 20:
        wanted = LockId(int(text))
        turns = Turns()
        for file in plane.locks.inspect.files():
            place = BEFORE_ALL
            while found := plane.locks.inspect.locks_after(file, place, LOCKS_AT_ONCE):
                await turns.pause()
                for lock in found:
                    if lock.id == wanted:
                        return lock
                place = (found[-1].start, found[-1].id)
    raise Refused(404, f"there is no lock {text[:40]}: it was released, or never there")


async def file_asked(plane: Plane, query: FileQuery) -> FileRef:
    """Raises Refused with 400 or 404."""
    if query.path is not None:
        try:
            return await plane.names.find(query.path)
        except FileError as error:
            raise Refused(404, f"{query.path}: {error}") from None
    if query.share is None or query.file is None:
        raise Refused(400, "either path, or share and file, must be given")
    return FileRef(ShareName(query.share), FileId(query.file))
