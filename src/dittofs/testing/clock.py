"""Time that passes only when a test says so."""


class FakeClock:
    """Both clocks of a server: the wall clock in nanoseconds, and one that never goes back, in seconds."""

    def __init__(self, start_ns: int = 1_700_000_000_000_000_000) -> None:
        self._now_ns = start_ns
        self._elapsed_ns = 0

    def time_ns(self) -> int:
        """Like `time.time_ns`."""
        return self._now_ns

    def monotonic(self) -> float:
        """Like `time.monotonic`."""
        return self._elapsed_ns / 1e9

    def advance(self, seconds: float) -> None:
        """Let time pass."""
        assert seconds >= 0, "time does not go back; `set` the wall clock instead"
        step = round(seconds * 1e9)
        self._now_ns += step
        self._elapsed_ns += step

    def set(self, now_ns: int) -> None:
        """Somebody sets the wall clock; the other one does not notice."""
        self._now_ns = now_ns
