"""Joins the counters of all parts into the metrics of one server [OPS-4].  Part of the composition, as server.py is."""

import asyncio
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Protocol

from dittofs import __version__
from dittofs.metrics.counting import Histogram, ProcedureCounts, StoreCounts
from dittofs.metrics.families import Metrics
from dittofs.net.limits import TcpCounters
from dittofs.protocols.nlm.granting import CallbackResult, Granting
from dittofs.rpc.dispatch import Dispatcher

LAG_SECONDS = 0.5

PREFIXES = {"NFS": "nfs", "MOUNT": "mount", "NLM": "nlm", "NSM": "nsm", "PORTMAP": "portmap", "RPCBIND": "portmap"}
"""Program to the prefix of its metrics; versions of one program are added up."""


class Sockets(Protocol):
    """The sockets of one port."""

    @property
    def dispatcher(self) -> Dispatcher: ...
    @property
    def tcp(self) -> TcpCounters: ...
    @property
    def connections(self) -> int: ...
    @property
    def by_address(self) -> Mapping[str, int]: ...
    def datagram_bytes(self) -> tuple[int, int]:
        """Received and sent."""


def observe_calls(metrics: Metrics, sockets: Mapping[str, Sockets]) -> None:
    """Calls, connections and bytes; `sockets` are read at each scrape, by the name of their adapter."""
    for prefix in sorted(set(PREFIXES.values())):
        _observe_program(metrics, prefix, sockets)
    metrics.asked(
        "dittofs_connections_active",
        "gauge",
        "Open TCP connections.",
        ("adapter",),
        lambda: [((name,), one.connections) for name, one in sockets.items()],
    )
    metrics.asked(
        "dittofs_connections_total",
        "counter",
        "TCP connections by what became of them.",
        ("adapter", "event"),
        lambda: [((name, event), count) for name, one in sockets.items() for event, count in _events(one.tcp)],
    )
    metrics.asked(
        "dittofs_network_bytes_total",
        "counter",
        "Bytes of RPC on the wire.",
        ("adapter", "transport", "direction"),
        lambda: [sample for name, one in sockets.items() for sample in _network_bytes(name, one)],
    )
    metrics.asked(
        "dittofs_rpc_refused_total",
        "counter",
        "Calls of programs, versions or procedures that are not served.",
        ("adapter",),
        lambda: [((name,), one.dispatcher.refused) for name, one in sockets.items()],
    )
    metrics.asked(
        "dittofs_rpc_replayed_total",
        "counter",
        "Retransmitted calls that were answered from the duplicate request cache.",
        ("adapter",),
        lambda: [((name,), one.dispatcher.replayed) for name, one in sockets.items()],
    )
    metrics.asked(
        "dittofs_rpc_remembered_total",
        "counter",
        "Calls that were answered as before, because nothing had changed.",
        ("adapter",),
        lambda: [((name,), one.dispatcher.remembered) for name, one in sockets.items()],
    )


def _observe_program(metrics: Metrics, prefix: str, sockets: Mapping[str, Sockets]) -> None:
    def counts() -> Iterator[ProcedureCounts]:
        for one in sockets.values():
            yield from (each for each in one.dispatcher.counts if PREFIXES.get(each.program) == prefix)

    def requests() -> Iterable[tuple[tuple[str, ...], float]]:
        total: dict[tuple[str, ...], float] = {}
        for each in counts():
            for status, count in {**each.statuses, "ok": each.ok + each.statuses.get("ok", 0)}.items():
                if count or status != "ok":
                    total[each.name, status] = total.get((each.name, status), 0) + count
        return total.items()

    def durations() -> Iterable[tuple[tuple[str, ...], Histogram]]:
        total: dict[tuple[str, ...], Histogram] = {}
        for each in counts():
            if each.durations.count:
                total.setdefault((each.name,), Histogram()).merge(each.durations)
        return total.items()

    name = prefix.upper()
    text = f"{name} calls by procedure and answered status."
    metrics.asked(f"{prefix}_requests_total", "counter", text, ("procedure", "status"), requests)
    text = f"From the arrival of a {name} call to its answer, durable where it must be."
    metrics.asked_histogram(f"{prefix}_request_duration_seconds", text, ("procedure",), durations)


def _events(tcp: TcpCounters) -> list[tuple[str, int]]:
    return [
        ("accepted", tcp.accepted),
        ("refused", tcp.refused),
        ("closed", tcp.closed),
        ("bad_record", tcp.dropped_for_bad_records),
        ("silent", tcp.dropped_for_silence),
    ]


def _network_bytes(name: str, sockets: Sockets) -> list[tuple[tuple[str, ...], float]]:
    received, sent = sockets.datagram_bytes()
    return [
        ((name, "tcp", "received"), sockets.tcp.bytes_received),
        ((name, "tcp", "sent"), sockets.tcp.bytes_sent),
        ((name, "udp", "received"), received),
        ((name, "udp", "sent"), sent),
    ]


def observe_stores(metrics: Metrics, stores: Callable[[], Mapping[str, StoreCounts]]) -> None:
    """What the drivers of the metadata stores do; a store that comes or goes is seen at the next scrape."""

    def counter(name: str, text: str, read: Callable[[StoreCounts], int]) -> None:
        metrics.asked(
            f"dittofs_store_{name}_total",
            "counter",
            text,
            ("store",),
            lambda: [((store,), read(counts)) for store, counts in stores().items()],
        )

    counter("reads", "Records that metadata procedures asked for.", lambda counts: counts.reads)
    counter("round_trips", "Records that were not in memory.", lambda counts: counts.loads)
    counter("queries", "Journeys to a store across a network.", lambda counts: counts.queries)
    counter("scans", "Range scans of the store.", lambda counts: counts.scans)
    counter("lost_batches", "Batches that the store refused.", lambda counts: counts.lost)
    metrics.asked(
        "dittofs_store_cache_hit_ratio",
        "gauge",
        "Records found in memory, of all that were asked for since the start.",
        ("store",),
        lambda: [((store,), 1 - counts.loads / max(counts.reads, 1)) for store, counts in stores().items()],
    )
    metrics.asked_histogram(
        "dittofs_commit_batch_records",
        "Records that became durable with one flush.",
        ("store",),
        lambda: [((store,), counts.batch_sizes) for store, counts in stores().items()],
    )
    metrics.asked_histogram(
        "dittofs_commit_flush_seconds",
        "How long one flush took.",
        ("store",),
        lambda: [((store,), counts.flush_seconds) for store, counts in stores().items()],
    )


def observe_callbacks(metrics: Metrics, granting: Granting) -> None:
    """NLM_GRANTED to clients that wait."""
    seconds = metrics.histogram("nlm_callback_duration_seconds", "How long a callback to a client took.")
    granting.watchers.append(lambda result, took: seconds.observe(took))
    metrics.asked(
        "nlm_callbacks_total",
        "counter",
        "Callbacks to clients by how they ended.",
        ("result",),
        lambda: [((result.value,), granting.results[result]) for result in CallbackResult],
    )
    metrics.asked(
        "nlm_blocking_queue_size",
        "gauge",
        "Blocked NLM requests, offered ones included.",
        (),
        lambda: [((), len(granting))],
    )


def observe_content(metrics: Metrics, read: Callable[[], int], written: Callable[[], int]) -> None:
    metrics.asked("dittofs_read_bytes_total", "counter", "Content read by clients.", (), lambda: [((), read())])
    metrics.asked(
        "dittofs_written_bytes_total", "counter", "Content written by clients.", (), lambda: [((), written())]
    )


class LoopLag:
    """How late the event loop comes to a timer: what every call waited before anybody looked at it."""

    def __init__(self, metrics: Metrics) -> None:
        self.latest = 0.0
        self._seconds = metrics.histogram("dittofs_event_loop_lag_seconds", "How late the event loop comes to a timer.")
        self._timer: asyncio.TimerHandle | None = None
        self._due = 0.0

    def start(self) -> None:
        loop = asyncio.get_running_loop()
        self._due = loop.time() + LAG_SECONDS
        self._timer = loop.call_at(self._due, self._ring)

    def _ring(self) -> None:
        self.latest = max(0.0, asyncio.get_running_loop().time() - self._due)
        self._seconds.observe(self.latest)
        self.start()

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()


def observe_process(metrics: Metrics) -> LoopLag:
    started = time.time()
    metrics.asked("dittofs_build_info", "gauge", "The version that runs.", ("version",), lambda: [((__version__,), 1)])
    metrics.asked(
        "dittofs_start_time_seconds",
        "gauge",
        "When the server started, in seconds since 1970.",
        (),
        lambda: [((), started)],
    )
    return LoopLag(metrics)
