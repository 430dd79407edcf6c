"""Whether what a procedure has read is still so.

Records are immutable: a changed one is another object.  So whoever remembers which object lay under which key can tell,
at any later time, whether what was made of them is still true.
"""

from typing import Any

Trail = list[Any]
"""What was read, flat: where it is kept (a dictionary, always the same one), its key, the record; and so on."""


class Changes:
    """How often a driver has changed anything.  While this stands still, nobody has to look closer."""

    __slots__ = ("count",)

    def __init__(self) -> None:
        self.count = 0


class Unchanged:
    """Witness of a procedure that only looked."""

    __slots__ = ("_changes", "_seen", "_trail")

    def __init__(self, changes: Changes, trail: Trail):
        self._changes = changes
        self._seen = changes.count
        self._trail = trail

    def is_unchanged(self) -> bool:
        now = self._changes.count
        if now != self._seen:
            trail = self._trail
            for at in range(0, len(trail), 3):
                records: dict[Any, Any] = trail[at]
                if records.get(trail[at + 1]) is not trail[at + 2]:
                    return False
            self._seen = now
        return True
