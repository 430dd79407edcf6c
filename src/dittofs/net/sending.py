"""Hands answers to a transport, and what was not read yet to the socket behind it."""

import asyncio
import socket
from typing import Final

import structlog

from dittofs.model.unread import Unread
from dittofs.xdr.types import Chunks

log = structlog.get_logger()

_CORK: Final[int | None] = getattr(socket, "TCP_CORK", None)


def send(transport: asyncio.Transport, pieces: Chunks) -> None:
    """Everything in its order; what the socket does not take now waits in the transport."""
    start = 0
    for index, piece in enumerate(pieces):
        if isinstance(piece, Unread):
            if transport.is_closing():
                return
            _send_unread(transport, pieces[start:index], piece)
            start = index + 1
    if start < len(pieces):
        transport.writelines(pieces[start:])


def _send_unread(transport: asyncio.Transport, before: Chunks, unread: Unread) -> None:
    behind: socket.socket = transport.get_extra_info("socket")
    # Corked, so that what comes before does not travel, and wake the client, alone.
    if _CORK is not None:
        behind.setsockopt(socket.IPPROTO_TCP, _CORK, 1)
    if before:
        transport.writelines(before)
    sent = 0
    # Only if nothing waits in the transport, which would be overtaken.
    if not transport.get_write_buffer_size():
        sent = unread.send(behind.fileno())
    if _CORK is not None:
        behind.setsockopt(socket.IPPROTO_TCP, _CORK, 0)
    if sent < len(unread):
        try:
            transport.write(unread.rest(sent))
        except OSError as error:
            log.error("connection closed", reason=f"in the middle of an answer: {error}")
            transport.abort()
