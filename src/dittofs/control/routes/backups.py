"""Backups of shares, while they are in use."""

from dittofs.control.backing_up import BackupStream
from dittofs.control.endpoints import ENDPOINTS, Asked, Refused
from dittofs.control.plane import Plane
from dittofs.control.routes.locks import WithReason
from dittofs.control.routes.shares import find_share


@ENDPOINTS.post("/backups/{name:path}", answer=bytes, body=WithReason, statuses=(404, 409))
async def make_backup(plane: Plane, asked: Asked) -> BackupStream:
    """A share as it is at one moment, as a stream; docs/operating.md has the format.  Changes wait while the tree is
    walked.  Without an end frame and its checksum the stream is not complete."""
    share = find_share(plane, asked.path["name"])
    if share.volume.transactions.is_shared:
        raise Refused(
            409,
            f"the names of {share.name} are kept in stores.{share.settings.metadata}, which other servers may change: "
            "use the backup of the database itself, and copy the content after it",
        )
    if share.volume.snapshot is not None:
        raise Refused(409, f"a backup of {share.name} is being made already")
    body: WithReason = asked.body
    return BackupStream(plane, share, actor=asked.actor, reason=body.reason)
