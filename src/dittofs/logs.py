"""Structured logs to standard error: text for people, JSON lines for machines [OPS-5].

Modules ask for `structlog.get_logger()` and log an event name with fields; only this module knows where it goes.
"""

import logging
import sys
from typing import TextIO

import orjson
import structlog

LEVELS = {"debug": logging.DEBUG, "info": logging.INFO, "warning": logging.WARNING, "error": logging.ERROR}


def configure(level: str, form: str, stream: TextIO | None = None) -> None:
    """Send every log line of at least this level to `stream` (standard error), as "text" or "json"."""
    stream = stream or sys.stderr
    processors: list[structlog.typing.Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True, key="time"),
    ]
    factory: structlog.PrintLoggerFactory | structlog.BytesLoggerFactory
    if form == "json":
        # Bytes end to end: orjson makes them, and no text layer encodes them again.
        processors.extend((structlog.processors.format_exc_info, _json))
        factory = structlog.BytesLoggerFactory(stream.buffer)
    else:
        processors.append(structlog.dev.ConsoleRenderer(colors=stream.isatty(), timestamp_key="time"))
        factory = structlog.PrintLoggerFactory(stream)
    structlog.configure(
        processors=processors,
        wrapper_class=structlog.make_filtering_bound_logger(LEVELS[level]),
        logger_factory=factory,
        cache_logger_on_first_use=True,
    )


def _json(_logger: object, _method: str, event: structlog.typing.EventDict) -> bytes:
    return orjson.dumps(event, default=str)
