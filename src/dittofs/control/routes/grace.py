"""Grace after a restart: how long still, whom it waits for, and ending it."""

from dittofs.control.describing import client_of
from dittofs.control.endpoints import ENDPOINTS, Asked, Refused
from dittofs.control.plane import Plane, durable
from dittofs.control.routes.locks import WithReason
from dittofs.control.views import Grace, GraceShare, Reason, RosterView, Text
from dittofs.locks.grace import RosterEntry
from dittofs.model.ids import ShareName


class EndGrace(WithReason):
    reason: Reason
    share: Text


@ENDPOINTS.get("/grace", answer=Grace)
async def grace(plane: Plane, asked: Asked) -> Grace:
    """The shares in grace, how long still, and which clients have not come back."""
    now = plane.locks.now()
    shares = [
        GraceShare(
            share=one.share,
            ends_at=one.ends_at,
            remaining_seconds=max(0.0, one.ends_at - now),
            roster=[_roster(plane, entry) for entry in one.roster],
        )
        for one in plane.locks.inspect.grace()
    ]
    return Grace(is_active=bool(shares), shares=shares)


@ENDPOINTS.post("/grace/end", answer=Grace, body=EndGrace, statuses=(404,))
async def end_grace(plane: Plane, asked: Asked) -> Grace:
    """End the grace of one share now.  What was not reclaimed is dropped: clients that come later lose those locks."""
    body: EndGrace = asked.body
    if body.share not in {one.share for one in plane.locks.inspect.grace()}:
        raise Refused(404, f"{body.share} is not in grace")
    async with plane.audit.acting(actor=asked.actor, action="end grace", target=body.share, reason=body.reason):
        await durable(await plane.locks.end_grace(ShareName(body.share)))
    return await grace(plane, asked)


def _roster(plane: Plane, entry: RosterEntry) -> RosterView:
    client = client_of(plane, entry.client)
    return RosterView(
        client=entry.client,
        name=client.name if client else str(entry.client),
        address=client.address if client else "",
        locks=entry.locks,
        bytes=entry.bytes,
    )
