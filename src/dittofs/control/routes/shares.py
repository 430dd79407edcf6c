"""Shares: what is exported, to whom, and how much is in it."""

from dittofs.control.endpoints import ENDPOINTS, Asked, Nothing, Refused
from dittofs.control.listing import Turns
from dittofs.control.plane import Plane
from dittofs.control.usage import count_usage
from dittofs.control.views import Shares, ShareView, UsageView
from dittofs.locks.inspecting import ShareView as ShareLocks
from dittofs.shares.share import Share


@ENDPOINTS.get("/shares", answer=Shares)
async def list_shares(plane: Plane, asked: Asked) -> Shares:
    """All shares."""
    counts = {one.share: one for one in plane.locks.inspect.shares()}
    grace = {one.share for one in plane.locks.inspect.grace()}
    return Shares(shares=[_view(share, counts.get(share.name), share.name in grace) for share in plane.shares])


@ENDPOINTS.get("/shares/{name:path}", answer=ShareView, statuses=(404,))
async def show_share(plane: Plane, asked: Asked) -> ShareView:
    """One share; its name is given without the first slash."""
    name = find_share(plane, asked.path["name"]).name
    return next(view for view in (await list_shares(plane, asked)).shares if view.name == name)


@ENDPOINTS.get("/usage/{name:path}", answer=UsageView, query=Nothing, statuses=(404,))
async def share_usage(plane: Plane, asked: Asked) -> UsageView:
    """Files and bytes of a share, counted by walking its tree."""
    share = find_share(plane, asked.path["name"])
    return await count_usage(share, Turns())


def find_share(plane: Plane, text: str) -> Share:
    """Raises Refused with 404."""
    name = "/" + text.lstrip("/")
    share = plane.shares.find(name)
    if share is None:
        raise Refused(404, f"there is no share {name[:200]}")
    return share


def _view(share: Share, counts: ShareLocks | None, in_grace: bool) -> ShareView:
    settings, usage = share.settings, share.volume.usage()
    return ShareView(
        name=share.name,
        metadata=settings.metadata,
        content=settings.content,
        durability=settings.durability,
        read_only=settings.read_only,
        squash=settings.squash,
        clients=[str(network) for network in settings.clients],
        security=list(settings.security),
        mandatory_locks=settings.mandatory_locks,
        in_grace=in_grace,
        shared=counts.shared if counts else 0,
        exclusive=counts.exclusive if counts else 0,
        reservations=counts.reservations if counts else 0,
        waiting=counts.waiting if counts else 0,
        total_bytes=usage.total,
        available_bytes=usage.available,
    )
