"""What operators did."""

from typing import Annotated

import msgspec

from dittofs.control.endpoints import ENDPOINTS, Asked
from dittofs.control.plane import Plane
from dittofs.control.views import AuditPage, Limit, Query


class AuditQuery(Query):
    limit: Limit = 100
    before: Annotated[int, msgspec.Meta(ge=1, le=2**53)] | None = None


@ENDPOINTS.get("/audit", answer=AuditPage, query=AuditQuery)
async def audit(plane: Plane, asked: Asked) -> AuditPage:
    """Actions of operators, the newest first; `before` gives those with smaller ids."""
    return AuditPage(entries=plane.audit.newest(asked.query.limit, asked.query.before))
