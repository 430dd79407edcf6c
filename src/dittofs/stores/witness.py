"""Whether what a procedure read is still so, without reading it again."""

from typing import Any


class Rows:
    """One table in memory: its records, or those of them that were asked for."""

    __slots__ = ("records",)

    def __init__(self) -> None:
        self.records: dict[Any, Any] = {}


class ChangeCount:
    """Grows whenever a record that a procedure may have read is another one."""

    __slots__ = ("count",)

    def __init__(self) -> None:
        self.count = 0


class Unchanged:
    """Witness of a procedure that only looked: everything it read is still the same record.  The trail of what it read
    is rows, key, record, rows, key, record, …"""

    __slots__ = ("_changes", "_seen", "_trail")

    def __init__(self, changes: ChangeCount, trail: list[Any]):
        self._changes = changes
        self._seen = changes.count
        self._trail = trail

    def is_unchanged(self) -> bool:
        changes = self._changes.count
        if changes != self._seen:
            trail = self._trail
            for at in range(0, len(trail), 3):
                rows: Rows = trail[at]
                if rows.records.get(trail[at + 1]) is not trail[at + 2]:
                    return False
            self._seen = changes
        return True
