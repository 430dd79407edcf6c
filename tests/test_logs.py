"""Logs go to one stream, as text or as JSON lines, from a level on [OPS-5]."""

import io
import json

import pytest
import structlog

from dittofs import logs


def stream() -> io.TextIOWrapper:
    return io.TextIOWrapper(io.BytesIO(), encoding="utf-8", write_through=True)


def text_of(out: io.TextIOWrapper) -> str:
    out.flush()
    return out.buffer.getvalue().decode()  # type: ignore[attr-defined]


def test_json_is_one_object_per_line() -> None:
    out = stream()
    logs.configure("info", "json", out)
    structlog.get_logger().info("connection_refused", client="192.0.2.1", limit=3)
    structlog.get_logger().error("é")
    first, second = map(json.loads, text_of(out).splitlines())
    assert (first["event"], first["client"], first["limit"], first["level"]) == (
        "connection_refused",
        "192.0.2.1",
        3,
        "info",
    )
    assert first["time"].endswith("Z")
    assert second["event"] == "é"


def test_an_exception_is_part_of_its_json_line() -> None:
    out = stream()
    logs.configure("info", "json", out)
    try:
        raise RuntimeError("boom")
    except RuntimeError:
        structlog.get_logger().exception("fault")
    (line,) = text_of(out).splitlines()
    assert "RuntimeError: boom" in json.loads(line)["exception"]


@pytest.mark.parametrize("form", ["text", "json"])
def test_below_the_level_nothing_is_written(form: str) -> None:
    out = stream()
    logs.configure("warning", form, out)
    structlog.get_logger().info("quiet")
    structlog.get_logger().warning("heard")
    assert "quiet" not in text_of(out)
    assert "heard" in text_of(out)


def test_text_to_a_file_has_no_colours() -> None:
    out = stream()
    logs.configure("info", "text", out)
    structlog.get_logger().info("started", port=12049)
    assert "\x1b[" not in text_of(out)
    assert "port=12049" in text_of(out)
