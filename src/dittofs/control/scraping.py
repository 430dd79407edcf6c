"""`/metrics`, on a port of its own: for Prometheus, without a token, on loopback unless somebody says otherwise."""

from prometheus_client import CONTENT_TYPE_LATEST
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from dittofs.metrics.families import Metrics


def metrics_app(metrics: Metrics) -> Starlette:
    async def scrape(request: Request) -> Response:
        return Response(metrics.text(), media_type=CONTENT_TYPE_LATEST)

    async def index(request: Request) -> Response:
        return PlainTextResponse("DittoFS: the metrics are at /metrics.\n")

    return Starlette(routes=[Route("/metrics", scrape), Route("/", index)])
