"""Locks, waiters and owners as people read them: values for answers, and sentences that say what is wrong."""

from collections.abc import Mapping
from datetime import timedelta

from dittofs.clients.registry import Client
from dittofs.control.plane import Plane
from dittofs.control.views import LockView, OwnerView, WaiterView
from dittofs.locks.inspecting import WaitView
from dittofs.locks.values import Acquire, Lock, Mode, Owner
from dittofs.model.ids import ClientId, FileRef

END = 2**64

Paths = Mapping[FileRef, str]


def client_of(plane: Plane, id_: ClientId) -> Client | None:
    for adapter in plane.adapters:
        client = plane.clients.find(adapter, id_)
        if client is not None:
            return client
    return None


def owner_view(plane: Plane, owner: Owner) -> OwnerView:
    client = client_of(plane, owner.client)
    name, address = (client.name, client.address) if client is not None else (str(owner.client), "")
    return OwnerView(id=owner.id, client=owner.client, name=name, address=address, process=owner.svid)


def state_of(plane: Plane, lock: Lock) -> str:
    if lock.is_offered:
        return "offered"
    return "pending" if plane.locks.inspect.is_pending(lock) else "held"


def lock_view(plane: Plane, lock: Lock, paths: Paths) -> LockView:
    reservation = lock.reservation
    return LockView(
        id=lock.id,
        share=lock.file.share,
        file=lock.file.file,
        path=paths.get(lock.file),
        owner=owner_view(plane, lock.owner),
        start=lock.start,
        end=None if lock.end >= END else lock.end,
        type=lock.mode.value,
        state=state_of(plane, lock),
        acquired_at=lock.acquired_at,
        was_blocking=lock.was_blocking,
        is_reclaim=lock.is_reclaim,
        access=None if reservation is None else (reservation.access.name or "none").lower(),
        deny=None if reservation is None else (reservation.deny.name or "none").lower(),
    )


def waiter_view(plane: Plane, waiter: WaitView, paths: Paths) -> WaiterView:
    request = waiter.request
    state = "offered" if waiter.offer is not None else "passed_over" if waiter.is_passed_over else "waiting"
    return WaiterView(
        ticket=waiter.ticket,
        share=request.file.share,
        file=request.file.file,
        path=paths.get(request.file),
        owner=owner_view(plane, request.owner),
        start=request.span.start,
        end=None if request.span.end >= END else request.span.end,
        type=request.mode.value,
        waiting_since=waiter.queued_at,
        state=state,
        blockers=[lock_view(plane, lock, paths) for lock in waiter.blockers[:100]],
        behind=list(waiter.behind),
        why=why_waiting(plane, waiter, paths),
    )


def files_of(waiter: WaitView) -> list[FileRef]:
    return [waiter.request.file, *(lock.file for lock in waiter.blockers)]


# Sentences.


def range_text(start: int, end: int) -> str:
    if start == 0 and end >= END:
        return "the whole file"
    if end >= END:
        return f"everything from byte {start:,} on"
    return f"byte {start:,}" if end == start + 1 else f"bytes {start:,} to {end - 1:,}"


def span_text(seconds: float) -> str:
    if seconds < 1:
        return "less than a second"
    if seconds < 120:
        return f"{seconds:.0f} s"
    return str(timedelta(seconds=round(seconds)))


def who_text(plane: Plane, owner: Owner) -> str:
    view = owner_view(plane, owner)
    at = f" at {view.address}" if view.address and view.address != view.name else ""
    return f"process {view.process} of {view.name}{at}"


def file_text(file: FileRef, paths: Paths) -> str:
    return paths.get(file) or f"file {file.file} of {file.share} (no name of it was found)"


def held_text(plane: Plane, lock: Lock, now: float) -> str:
    kind = "a reservation" if lock.mode is Mode.RESERVATION else f"{_article(lock.mode)} lock on {_range(lock)}"
    return f"{who_text(plane, lock.owner)} has had {kind} for {span_text(now - lock.acquired_at)}"


def why_waiting(plane: Plane, waiter: WaitView, paths: Paths) -> str:
    """Why a request is not granted, in a sentence or a few."""
    now = plane.locks.now()
    request = waiter.request
    wanted = (
        f"{who_text(plane, request.owner)} has waited {span_text(now - waiter.queued_at)} for {_wanted(request)}"
        f" of {file_text(request.file, paths)}"
    )
    trouble = plane.callback_failure(request.owner.client)
    if waiter.offer is not None:
        return f"{wanted}: it is free, and was offered to the client, which has not answered yet." + _trouble(trouble)
    reasons = [held_text(plane, lock, now) for lock in waiter.blockers[:3]]
    if len(waiter.blockers) > 3:
        reasons.append(f"{len(waiter.blockers) - 3} more locks are in the way")
    if waiter.behind:
        count = len(waiter.behind)
        reasons.append(f"{count} older request{'s go' if count > 1 else ' goes'} first")
    if waiter.blockers and plane.locks.inspect.is_pending(waiter.blockers[0]):
        reasons.append("that lock was taken before the server restarted, and its client may still reclaim it")
    if waiter.is_passed_over:
        reasons.append("and it is passed over, because its client did not answer when it was called back")
    because = "; ".join(reasons) or "nothing is in the way any more: it is about to be granted"
    return f"{wanted}: {because}." + _trouble(trouble)


def why_held(plane: Plane, lock: Lock, waiters: list[WaitView], paths: Paths) -> str:
    """What there is to say about a lock that exists."""
    now = plane.locks.now()
    parts = [f"{held_text(plane, lock, now)} of {file_text(lock.file, paths)}"]
    state = state_of(plane, lock)
    if state == "offered":
        parts.append("it is an offer that the client has not confirmed yet")
    elif state == "pending":
        parts.append("it was recorded before the server restarted, and waits for its client to reclaim it")
    behind = [waiter for waiter in waiters if any(blocker.id == lock.id for blocker in waiter.blockers)]
    if behind:
        oldest = min(waiter.queued_at for waiter in behind)
        noun = "request waits" if len(behind) == 1 else "requests wait"
        parts.append(f"{len(behind)} {noun} for it, the oldest for {span_text(now - oldest)}")
    else:
        parts.append("nobody waits for it")
    return "; ".join(parts) + "." + _trouble(plane.callback_failure(lock.owner.client))


def _trouble(text: str | None) -> str:
    return f" {text[0].upper()}{text[1:]}." if text else ""


def _article(mode: Mode) -> str:
    return "an exclusive" if mode is Mode.EXCLUSIVE else f"a {mode.value}"


def _range(lock: Lock) -> str:
    return range_text(lock.start, lock.end)


def _wanted(request: Acquire) -> str:
    return f"{_article(request.mode)} lock on {range_text(request.span.start, request.span.end)}"
