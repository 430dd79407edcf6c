"""Which server this is, and how often it was started: a small file in the server's data directory [KEEP-3].

The file is one line such as ``dittofs node 0f… epoch 3``, for people and for us.
"""

import os
import secrets
from pathlib import Path
from typing import NamedTuple

from dittofs.stores.api import StoreError
from dittofs.stores.data_directory import flush_directory

NODE_NAME = "node"


class Node(NamedTuple):
    """One run of one server."""

    id: str
    epoch: int


def begin_epoch(directory: Path) -> Node:
    """The next epoch of the node that this directory belongs to, durably; a directory without one becomes a new node.
    Raises `StoreError`."""
    before = _read(directory / NODE_NAME)
    node = Node(before.id, before.epoch + 1)
    _write(directory, node)
    return node


def take_back_epoch(directory: Path, node: Node) -> None:
    """The run did not begin, because a store knows a higher epoch: trying again must not make this one the highest."""
    _write(directory, Node(node.id, node.epoch - 1))


def _write(directory: Path, node: Node) -> None:
    path = directory / NODE_NAME
    fresh = path.with_suffix(".new")
    try:
        with fresh.open("w", encoding="ascii") as file:
            file.write(f"dittofs node {node.id} epoch {node.epoch}\n")
            file.flush()
            os.fsync(file.fileno())
        fresh.rename(path)
        flush_directory(directory)
    except OSError as error:
        raise StoreError(f"cannot keep the epoch in {path}: {error.strerror}") from error


def _read(path: Path) -> Node:
    try:
        words = path.read_text(encoding="ascii", errors="replace").split()
    except FileNotFoundError:
        return Node(secrets.token_hex(8), 0)
    except OSError as error:
        raise StoreError(f"cannot read {path}: {error.strerror}") from error
    if len(words) != 5 or (words[0], words[1], words[3]) != ("dittofs", "node", "epoch") or not words[4].isdecimal():
        raise StoreError(f"{path} does not say what it should: 'dittofs node HEX epoch N'")
    return Node(words[2], int(words[4]))
