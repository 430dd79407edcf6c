"""The application: endpoints, the page and its session, and the one place that turns errors into answers."""

from collections.abc import Awaitable, Callable
from pathlib import Path

import msgspec
import structlog
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from dittofs.control import openapi
from dittofs.control.access import COOKIE, SESSION_SECONDS, Gate, check_same_origin
from dittofs.control.endpoints import (
    BODY_BYTES_MAX,
    ENDPOINTS,
    Asked,
    Endpoint,
    Problem,
    Refused,
    Right,
    converted,
    decoded,
)
from dittofs.control.events import EventStreams
from dittofs.control.plane import Plane
from dittofs.control.routes import audit, backups, clients, grace, locks, server, shares, waiters
from dittofs.control.views import Body, SessionView
from dittofs.model.errors import FileError

log = structlog.get_logger()

PREFIX = "/api/v1"
STATIC = Path(__file__).parent / "static"
ROUTES = (server, shares, clients, locks, waiters, grace, backups, audit)
"""Imported for their endpoints."""

HEADERS = {
    "content-security-policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cache-control": "no-store",
}

Respond = Callable[[Request], Awaitable[Response]]


class LogIn(Body):
    token: str


def control_app(plane: Plane, gate: Gate, streams: EventStreams) -> Starlette:
    """REST, events and page."""
    document = openapi.document(ENDPOINTS.found, PREFIX)
    api = [Route(one.path, _answering(one, plane, gate), methods=[one.method]) for one in ENDPOINTS.found]

    async def describe(request: Request) -> Response:
        return json_response(document)

    async def session(request: Request) -> Response:
        return json_response(SessionView(right=gate.who(request).right.value))

    async def log_in(request: Request) -> Response:
        check_same_origin(request)
        found, right = gate.log_in(decoded(await body_of(request), LogIn).token)
        answer = json_response(SessionView(right=right.value))
        answer.set_cookie(
            COOKIE,
            found,
            max_age=SESSION_SECONDS,
            path="/",
            httponly=True,
            samesite="strict",
            secure=request.url.scheme == "https",
        )
        return answer

    async def log_out(request: Request) -> Response:
        check_same_origin(request)
        gate.log_out(request.cookies.get(COOKIE, ""))
        answer = Response(status_code=204)
        answer.delete_cookie(COOKIE, path="/", httponly=True, samesite="strict")
        return answer

    async def events(request: Request) -> Response:
        gate.check(request, Right.READ)
        return streams.open(plane)

    async def index(request: Request) -> Response:
        return RedirectResponse("/page/index.html")

    own = [
        Route("/openapi.json", describe),
        Route("/session", session, methods=["GET"]),
        Route("/session", log_in, methods=["POST"]),
        Route("/session", log_out, methods=["DELETE"]),
        Route("/events", events),
    ]
    return Starlette(
        routes=[
            Mount(PREFIX, routes=[*own, *api]),
            Route("/", index),
            Mount("/page", StaticFiles(directory=STATIC, html=True)),
        ],
        middleware=[Middleware(SafeHeaders)],
        exception_handlers={Refused: _refused, HTTPException: _http_error, FileError: _lost, Exception: _failed},
    )


def _answering(endpoint: Endpoint, plane: Plane, gate: Gate) -> Respond:
    async def respond(request: Request) -> Response:
        who = gate.check(request, endpoint.right)
        query = converted(dict(request.query_params), endpoint.query)
        body = None if endpoint.body is None else decoded(await body_of(request), endpoint.body)
        asked = Asked(path=dict(request.path_params), query=query, body=body, actor=who.name)
        answer = await endpoint.handler(plane, asked)
        return answer if isinstance(answer, Response) else json_response(answer)

    return respond


async def body_of(request: Request) -> bytes:
    """Raises Refused if it is too long, or not JSON: what a form of another site could send is not."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/json":
        raise Refused(415, "the body must be application/json")
    body = b""
    async for part in request.stream():
        body += part
        if len(body) > BODY_BYTES_MAX:
            raise Refused(413, f"a body has at most {BODY_BYTES_MAX} bytes")
    return body


def json_response(value: object, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    return Response(msgspec.json.encode(value), status, headers, media_type="application/json")


async def _refused(request: Request, error: Exception) -> Response:
    assert isinstance(error, Refused), "registered for it"
    return json_response(Problem(error=error.error), error.status, error.headers)


async def _http_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException), "registered for it"
    return json_response(Problem(error=error.detail), error.status_code, dict(error.headers or {}))


async def _lost(request: Request, error: Exception) -> Response:
    return json_response(Problem(error=f"the change could not be stored: {error}"), 503)


async def _failed(request: Request, error: Exception) -> Response:
    if not isinstance(error, ClientDisconnect):
        log.error("request failed", path=request.url.path, exc_info=error)
    return json_response(Problem(error="this is a fault of the server; its log has more"), 500)


class SafeHeaders:
    """Every answer says what a browser may do with it."""

    def __init__(self, app: ASGIApp):
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def send_safely(message: Message) -> None:
            if message["type"] == "http.response.start":
                present = {name for name, _ in message["headers"]}
                message["headers"] = [
                    *message["headers"],
                    *(
                        (name.encode(), value.encode())
                        for name, value in HEADERS.items()
                        if name.encode() not in present
                    ),
                ]
            await send(message)

        await self._app(scope, receive, send_safely)
