"""HTTP in the server's own loop: uvicorn without its signal handlers, its logs and its idea of being the program."""

import asyncio
import contextlib
import socket
import ssl
from collections.abc import Iterator
from pathlib import Path

import structlog
import uvicorn
from starlette.types import ASGIApp

from dittofs.config import endpoint_of

log = structlog.get_logger()

STOP_SECONDS = 1
"""For answers under way; a stream of events would never end by itself."""
KEEP_ALIVE_SECONDS = 15
CONNECTIONS_MAX = 200


class CannotServeHttp(Exception):
    """The port or the certificate cannot be used; the message says why."""


class HttpListener:
    """Serves one application on one address.  `url` is set once it listens."""

    def __init__(self, app: ASGIApp, listen: str, *, certificate: Path | None = None, private: Path | None = None):
        self._app = app
        self._listen = listen
        self._certificate = certificate
        self._private = private
        self._server: _Server | None = None
        self._task: asyncio.Task[None] | None = None
        self.url = ""

    async def start(self) -> None:
        """Raises CannotServeHttp."""
        address, port = endpoint_of(self._listen)
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        self._check_certificate()
        try:
            bound = socket.create_server((address, port), family=family, backlog=128)
        except OSError as error:
            raise CannotServeHttp(f"{self._listen}: {error.strerror}") from error
        config = uvicorn.Config(
            self._app,
            loop="none",
            http="httptools",
            ws="none",
            lifespan="off",
            log_config=None,
            access_log=False,
            server_header=False,
            date_header=False,
            proxy_headers=False,
            limit_concurrency=CONNECTIONS_MAX,
            timeout_keep_alive=KEEP_ALIVE_SECONDS,
            timeout_graceful_shutdown=STOP_SECONDS,
            ssl_certfile=self._certificate,
            ssl_keyfile=self._private,
        )
        self._server = _Server(config)
        self._task = asyncio.get_running_loop().create_task(self._server.serve([bound]))
        host = f"[{address}]" if ":" in address else address
        self.url = f"http{'s' if self._certificate else ''}://{host}:{bound.getsockname()[1]}"

    def _check_certificate(self) -> None:
        if self._certificate is None:
            return
        try:
            ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(self._certificate, self._private)
        except (OSError, ssl.SSLError) as error:
            raise CannotServeHttp(f"{self._certificate} cannot be used as a certificate: {error}") from error

    async def stop(self) -> None:
        if self._server is not None and self._task is not None:
            self._server.should_exit = True
            await self._task
            self._server = self._task = None


class _Server(uvicorn.Server):
    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Signals belong to the file server."""
        yield
