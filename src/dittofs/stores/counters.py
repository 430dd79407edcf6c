"""Numbers that are never given out twice: how far each kind is reserved.

Not in `transactions`, which is compiled: a record must be read from its declaration at run time.
"""

import msgspec

from dittofs.stores.tables import NamedTable


class Reservation(msgspec.Struct, frozen=True, array_like=True):
    """Every number below this may be in use."""

    end: int


COUNTERS: NamedTable[Reservation] = NamedTable("counter", b"c", Reservation)
FILE_IDS = b"file-id"
