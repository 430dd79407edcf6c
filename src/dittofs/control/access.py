"""Who may do what: two tokens in the data directory, one to read and one to change, and sessions for the page.

The page hands its token over once and gets a cookie that scripts cannot read and other sites cannot send; a change by
cookie must also come from the page itself, so that no other page can make a browser ask for it.
"""

import contextlib
import hmac
import os
import secrets
import time
from collections import OrderedDict
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

from starlette.requests import Request

from dittofs.control.endpoints import Refused, Right

TOKENS_NAME = "api-tokens"
COOKIE = "dittofs_session"
SESSION_SECONDS = 12 * 3600
SESSIONS_MAX = 1000
TOKEN_BYTES = 32
PREFIX = "dittofs-"

TEXT = """\
# Tokens of the control plane.  Whoever has `change` may release locks and forget clients; `read` may only look.
# Remove this file and restart to get new ones.
"""


class Session(NamedTuple):
    right: Right
    ends_at: float


class Who(NamedTuple):
    """Who sent a request: for the audit log."""

    right: Right
    name: str


class Tokens:
    """The two tokens, made when there are none."""

    def __init__(self, read: str, change: str):
        self._rights = ((change, Right.CHANGE), (read, Right.READ))

    @classmethod
    def open(cls, directory: Path) -> "Tokens":
        path = directory / TOKENS_NAME
        with contextlib.suppress(FileNotFoundError):
            found = read_tokens(path.read_text(encoding="ascii", errors="replace"))
            if {"read", "change"} <= found.keys():
                path.chmod(0o600)
                return cls(found["read"], found["change"])
        made = {name: PREFIX + secrets.token_urlsafe(TOKEN_BYTES) for name in ("read", "change")}
        fresh = path.with_name(path.name + ".new")
        fresh.unlink(missing_ok=True)
        descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "w") as file:
            file.write(TEXT + "".join(f"{name} {token}\n" for name, token in made.items()))
            file.flush()
            os.fsync(file.fileno())
        fresh.rename(path)
        return cls(made["read"], made["change"])

    def right_of(self, token: str) -> Right:
        given = token.encode("utf-8", "replace")
        for known, right in self._rights:
            if hmac.compare_digest(known.encode(), given):
                return right
        return Right.NONE


def read_tokens(text: str) -> dict[str, str]:
    """Name to token."""
    lines = (line.split() for line in text.splitlines() if not line.startswith("#"))
    return {words[0]: words[1] for words in lines if len(words) == 2}


class Gate:
    """Decides about each request."""

    def __init__(self, tokens: Tokens):
        self._tokens = tokens
        self._sessions: OrderedDict[str, Session] = OrderedDict()

    def log_in(self, token: str) -> tuple[str, Right]:
        """A session for a token.  Raises Refused."""
        right = self._tokens.right_of(token)
        if right is Right.NONE:
            raise Refused(
                403, "that is not a token of this server; they are in the file api-tokens of its data directory"
            )
        session = secrets.token_urlsafe(TOKEN_BYTES)
        while len(self._sessions) >= SESSIONS_MAX:
            self._sessions.popitem(last=False)
        self._sessions[session] = Session(right, time.monotonic() + SESSION_SECONDS)
        return session, right

    def log_out(self, session: str) -> None:
        self._sessions.pop(session, None)

    def who(self, request: Request) -> Who:
        """Raises Refused if a token was given that is none."""
        address = request.client.host if request.client else "unknown"
        header = request.headers.get("authorization", "")
        if header:
            scheme, _, token = header.partition(" ")
            right = self._tokens.right_of(token.strip()) if scheme.lower() == "bearer" else Right.NONE
            if right is Right.NONE:
                raise Refused(401, "the token is not one of this server", headers={"www-authenticate": "Bearer"})
            return Who(right, f"token {right.value} from {address}")
        session = self._sessions.get(request.cookies.get(COOKIE, ""))
        if session is None or session.ends_at < time.monotonic():
            return Who(Right.NONE, address)
        return Who(session.right, f"page session ({session.right.value}) from {address}")

    def check(self, request: Request, needed: Right) -> Who:
        """Raises Refused with 401 or 403 if this request may not do what needs that right."""
        who = self.who(request)
        if needed is Right.NONE:
            return who
        if who.right is Right.NONE:
            raise Refused(401, "a token is needed: Authorization: Bearer …", headers={"www-authenticate": "Bearer"})
        if needed is Right.CHANGE:
            if who.right is not Right.CHANGE:
                raise Refused(403, "this token may only read; changing needs the other one")
            if "authorization" not in request.headers:
                check_same_origin(request)
        return who


def check_same_origin(request: Request) -> None:
    """A change by cookie comes from the page itself.  Raises Refused."""
    site = request.headers.get("sec-fetch-site")
    origin = request.headers.get("origin")
    is_ours = site == "same-origin" if site is not None else False
    if origin is not None:
        is_ours = urlsplit(origin).netloc == request.headers.get("host") and site in (None, "same-origin")
    if not is_ours:
        raise Refused(403, "a change by cookie must come from the page of this server")
