"""What becomes durable together."""

from collections.abc import Callable

from dittofs.model.errors import FileError

Settled = Callable[[FileError | None], None]


class Batch:
    """Writes that become durable together, and what waits for that."""

    __slots__ = (
        "_error",
        "_is_settled",
        "_waiting",
        "_wanted",
        "changes",
        "is_urgent",
        "reserved_file_ids",
        "sequence",
    )

    def __init__(self, sequence: int, wanted: Callable[[], None]):
        self.sequence = sequence
        self.changes = 0
        """Records written."""
        self.reserved_file_ids = 0
        self.is_urgent = False
        self._wanted = wanted
        self._waiting: list[Settled] = []
        self._is_settled = False
        self._error: FileError | None = None

    def when_settled(self, settled: Settled) -> None:
        """Call back once: with None when the batch is durable, with an error when it is lost; at once if it is so."""
        if self._is_settled:
            settled(self._error)
            return
        self._waiting.append(settled)
        if not self.is_urgent:
            self.is_urgent = True
            self._wanted()

    def settle(self, error: FileError | None) -> None:
        self._is_settled = True
        self._error = error
        waiting, self._waiting = self._waiting, []
        for settled in waiting:
            settled(error)
