"""A TCP proxy in front of a database that can be told to lose the connection at the worst moment, or to be slow."""

import contextlib
import re
import socket
import threading
from typing import Self

PREPARED = re.compile(rb"(__asyncpg_\w+)\0[^\0]*commit_batch")


class Proxy:
    """`cut` is "before" (a commit that is asked for never arrives) or "after" (it arrives, its answer does not)."""

    def __init__(self, port: int):
        self._target = port
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self.cut: str | None = None
        self.cuts = 0
        self.is_closed = False
        self._lock = threading.Lock()
        self._open: set[socket.socket] = set()
        threading.Thread(target=self._accept, daemon=True).start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.is_closed = True
        self._listener.close()
        self.drop_all()

    def drop_all(self) -> None:
        """End every connection, now."""
        with self._lock:
            for end in self._open:
                _end(end)
            self._open.clear()

    def _accept(self) -> None:
        while not self.is_closed:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            try:
                server = socket.create_connection(("127.0.0.1", self._target))
            except OSError:
                client.close()
                continue
            with self._lock:
                self._open |= {client, server}
            state = _Connection()
            threading.Thread(target=self._to_server, args=(client, server, state), daemon=True).start()
            threading.Thread(target=self._to_client, args=(server, client, state), daemon=True).start()

    def _to_server(self, client: socket.socket, server: socket.socket, state: "_Connection") -> None:
        while data := _receive(client):
            if state.knows_commit(data) and state.is_execution(data) and self.cut is not None:
                with self._lock:
                    how, self.cut = self.cut, None
                if how is not None:
                    self.cuts += 1
                    if how == "before":
                        break
                    state.is_mute = True
            if not _send(server, data):
                break
        _end(client, server)

    def _to_client(self, server: socket.socket, client: socket.socket, state: "_Connection") -> None:
        while data := _receive(server):
            if state.is_mute:
                break  # the server has answered: it is done
            if not _send(client, data):
                break
        _end(client, server)


class _Connection:
    """What went over one connection so far: which prepared statement is the commit."""

    def __init__(self) -> None:
        self.is_mute = False
        self._name: bytes | None = None

    def knows_commit(self, data: bytes) -> bool:
        """Notes the name under which the commit is prepared."""
        found = PREPARED.search(data)
        if found is not None:
            self._name = found[1]
        return self._name is not None

    def is_execution(self, data: bytes) -> bool:
        """Bind is 'B', a length, the portal's name, the statement's name."""
        return self._name is not None and data[:1] == b"B" and b"\0" + self._name + b"\0" in data[:200]


def _receive(end: socket.socket) -> bytes:
    try:
        return end.recv(65_536)
    except OSError:
        return b""


def _send(end: socket.socket, data: bytes) -> bool:
    try:
        end.sendall(data)
    except OSError:
        return False
    return True


def _end(*ends: socket.socket) -> None:
    for end in ends:
        with contextlib.suppress(OSError):
            end.shutdown(socket.SHUT_RDWR)
        end.close()
