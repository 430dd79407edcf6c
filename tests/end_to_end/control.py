"""A client of a test server's REST interface."""

import json
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from dittofs.control.access import read_tokens
from tests.end_to_end.endpoints import endpoints
from tests.end_to_end.server_process import ServerProcess

T = TypeVar("T")

WAIT_SECONDS = 30.0


def until(look: Callable[[], T | None]) -> T:
    """What `look` finds, as soon as it finds something."""
    deadline = time.monotonic() + WAIT_SECONDS
    while True:
        found = look()
        if found:
            return found
        assert time.monotonic() < deadline, f"nothing was found in {WAIT_SECONDS} s"
        time.sleep(0.02)


@dataclass(frozen=True, slots=True)
class Answer:
    status: int
    value: Any
    headers: Any


@dataclass(slots=True)
class Rest:
    """`token` is read, change, or a text that is neither; None sends none."""

    server: ServerProcess
    token: str | None = "change"

    def ask(self, path: str, body: object | None = None, *, method: str | None = None, **headers: str) -> Answer:
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(endpoints(self.server)["api"] + path, data, method=method)
        if data is not None:
            request.add_header("content-type", "application/json")
        if self.token is not None:
            request.add_header("authorization", f"Bearer {self.tokens().get(self.token, self.token)}")
        for name, text in headers.items():
            request.add_header(name.replace("_", "-"), text)
        try:
            with urllib.request.urlopen(request, timeout=20) as answer:
                return _answer(answer)
        except urllib.error.HTTPError as error:
            return _answer(error)

    def get(self, path: str) -> Any:
        answer = self.ask(f"/api/v1{path}")
        assert answer.status == 200, answer
        return answer.value

    def post(self, path: str, **body: object) -> Any:
        answer = self.ask(f"/api/v1{path}", body)
        assert answer.status == 200, answer
        return answer.value

    def tokens(self) -> dict[str, str]:
        return read_tokens((self.server.data / "api-tokens").read_text())


def _answer(answer: Any) -> Answer:
    data = answer.read()
    is_json = answer.headers.get("content-type") == "application/json"
    return Answer(answer.status, json.loads(data) if is_json and data else data, answer.headers)
