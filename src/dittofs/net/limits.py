"""What connections may use up, and what became of them: plain values that settings fill and metrics read."""

from dataclasses import dataclass
from typing import Final

MAX_SWEEP_SECONDS: Final = 5.0


@dataclass(frozen=True, slots=True)
class TcpLimits:
    """What one client, or all of them, may use up."""

    max_connections: int = 4096
    max_connections_per_client: int = 1024
    max_record_bytes: int = 1_114_112
    max_fragments: int = 1024
    max_calls_per_connection: int = 512
    max_reply_bytes_per_connection: int = 64 * 1024
    idle_timeout_seconds: float = 0.0
    slow_sender_seconds: float = 60.0
    busy_poll_seconds: float = 0.0

    @property
    def sweep_seconds(self) -> float:
        """How often to look for connections that are overdue: a short patience is looked after more often."""
        patience = [seconds for seconds in (self.idle_timeout_seconds, self.slow_sender_seconds) if seconds > 0]
        return min(MAX_SWEEP_SECONDS, *(seconds / 2 for seconds in patience)) if patience else MAX_SWEEP_SECONDS


@dataclass(slots=True)
class TcpCounters:
    """What happened; plain numbers that the metrics read."""

    accepted: int = 0
    refused: int = 0
    closed: int = 0
    dropped_for_bad_records: int = 0
    dropped_for_silence: int = 0
    bytes_received: int = 0
    bytes_sent: int = 0
