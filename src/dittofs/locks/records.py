"""What a store keeps of locks and beside them [KEEP-2]; `recording` makes locks of it.

The end of a range is kept as its last byte: 2**64 fits into no 64-bit field.
"""

import msgspec

from dittofs.locks.values import Mode


class NodeRecord(msgspec.Struct, frozen=True, array_like=True):
    """What a store knows of one server [KEEP-3]."""

    epoch: int
    is_clean: bool
    """It was stopped, and did not crash."""
    lock_ids_end: int
    """Every lock id below this may have been used."""


class Mark(msgspec.Struct, frozen=True, array_like=True):
    """No two states of a file's locks have the same one."""

    node: str
    epoch: int
    number: int
    """Below zero if the node did not know what it changed."""


class LockRecord(msgspec.Struct, frozen=True, array_like=True):
    """New fields go to the end, with a default."""

    id: int
    share: str
    file: int
    owner: str
    client: str
    svid: int
    oh: bytes
    start: int
    last: int
    mode: Mode
    access: int
    deny: int
    acquired_at: float
    was_blocking: bool
    is_reclaim: bool
    is_offered: bool
    state: int
    node: str
    epoch: int
