"""A running server as the commands see it: its REST interface, found through the same configuration [OPS-3].

The server writes where it listens and its tokens into its data directory; whoever may read those may give orders.
"""

import contextlib
import json
import os
import ssl
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, BinaryIO
from urllib.parse import quote, urlencode

import typer

from dittofs.cli.failing import Failure
from dittofs.cli.options import settings_of

ENDPOINTS_NAME = "endpoints.json"
TOKENS_NAME = "api-tokens"
SECONDS = 60.0
STREAM_SECONDS = 900.0
"""For a share with many files it takes long until the first byte comes."""

Url = Annotated[
    str | None,
    typer.Option(
        "--url", metavar="URL", envvar="DITTOFS_URL", help="The server.  [default: the one of the data directory]"
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="For programs: print the answer as JSON.")]


@dataclass(frozen=True, slots=True)
class Remote:
    """Asks one server."""

    url: str
    token: str
    certificate: Path | None = None

    def get(self, path: str, /, **query: object) -> Any:
        given = {name: value for name, value in query.items() if value is not None}
        return self._ask(path + (f"?{urlencode(given)}" if given else ""), None)

    def post(self, path: str, /, **body: object) -> Any:
        return self._ask(path, json.dumps(body).encode())

    @contextlib.contextmanager
    def stream(self, path: str, /, **body: object) -> Iterator[BinaryIO]:
        """A long answer, to be read as it comes."""
        with self._answer(path, json.dumps(body).encode(), STREAM_SECONDS) as answer:
            yield answer

    def _ask(self, path: str, body: bytes | None) -> Any:
        with self._answer(path, body) as answer:
            return json.load(answer)

    @contextlib.contextmanager
    def _answer(self, path: str, body: bytes | None, seconds: float = SECONDS) -> Iterator[Any]:
        request = urllib.request.Request(f"{self.url}/api/v1{path}", body)  # http or https, checked
        request.add_header("authorization", f"Bearer {self.token}")
        if body is not None:
            request.add_header("content-type", "application/json")
        try:
            with urllib.request.urlopen(request, timeout=seconds, context=self._context()) as answer:
                yield answer
        except urllib.error.HTTPError as error:
            raise Failure(_reason(error)) from None
        except urllib.error.URLError as error:
            raise Failure(f"the server at {self.url} does not answer ({error.reason}): is it running?") from None
        except (OSError, ValueError) as error:
            raise Failure(f"the server at {self.url} does not answer as it should: {error}") from None

    def _context(self) -> ssl.SSLContext | None:
        if not self.url.startswith("https:"):
            return None
        return ssl.create_default_context(cafile=None if self.certificate is None else str(self.certificate))


def remote_of(config: Path | None, data: str | None, url: str | None) -> Remote:
    """The server of a data directory, or the one at a URL.  Raises Failure with what to do about it."""
    settings = settings_of(config, server__data=data)
    directory = settings.server.data
    if url is None:
        url = _found_url(directory, settings.api.listen)
    if not url.startswith(("http://", "https://")):
        raise Failure(f"{url} is not a URL such as http://127.0.0.1:8080")
    token = os.environ.get("DITTOFS_TOKEN") or _found_token(directory / TOKENS_NAME)
    certificate = directory / settings.api.tls_certificate if settings.api.tls_certificate else None
    return Remote(url.rstrip("/"), token, certificate)


def _found_url(directory: Path, listen: str) -> str:
    try:
        found = json.loads((directory / ENDPOINTS_NAME).read_text())
    except FileNotFoundError:
        raise Failure(
            f"no server runs with the data in {directory}: start one with dittofs serve, name its configuration "
            "with --config or --data, or its address with --url"
        ) from None
    except (OSError, ValueError) as error:
        raise Failure(f"cannot read where the server listens: {error}; give --url") from None
    if not found.get("api"):
        raise Failure(
            "the server has no control plane: api.listen is empty"
            if not listen
            else f"the server could not listen on {listen} (its log says why)"
        )
    return str(found["api"])


def _found_token(path: Path) -> str:
    try:
        lines = path.read_text().splitlines()
    except OSError as error:
        raise Failure(
            f"cannot read the token in {path} ({error.strerror}): "
            "be the user that runs the server, or give DITTOFS_TOKEN"
        ) from None
    tokens = dict(line.split() for line in lines if not line.startswith("#") and len(line.split()) == 2)
    token = tokens.get("change") or tokens.get("read")
    if not token:
        raise Failure(f"there is no token in {path}")
    return token


def _reason(error: urllib.error.HTTPError) -> str:
    try:
        said = str(json.load(error)["error"])
    except (OSError, ValueError, KeyError, TypeError):
        said = f"the server answers {error.code} {error.reason}"
    if error.code == 401:
        return f"{said}: is DITTOFS_TOKEN, or the data directory, that of this server?"
    return said


def in_path(text: str) -> str:
    """As a part of a URL's path."""
    return quote(text, safe="")
