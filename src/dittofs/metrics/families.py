"""The metrics that a server has: each declared once by name, labels and help, each read when somebody scrapes.

Some are counters that others add to; the rest is asked from whoever knows it anyway, at the moment of the scrape.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from prometheus_client import CollectorRegistry, GCCollector, PlatformCollector, ProcessCollector, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from dittofs.metrics.counting import DURATION_BOUNDS, Counts, Histogram, Histograms

Kind = Literal["counter", "gauge"]
Samples = Iterable[tuple[tuple[str, ...], float]]
HistogramSamples = Iterable[tuple[tuple[str, ...], Histogram]]


@dataclass(frozen=True, slots=True)
class Family:
    """One metric: how it is called, and where its values come from."""

    name: str
    help: str
    labels: tuple[str, ...]
    read: Callable[[], Iterator[Metric]]


class Metrics(Collector):
    """All metrics of one server."""

    def __init__(self, *, with_process: bool = True) -> None:
        self.families: dict[str, Family] = {}
        self._registry = CollectorRegistry(auto_describe=False)
        self._registry.register(self)
        if with_process:
            ProcessCollector(registry=self._registry)
            PlatformCollector(registry=self._registry)
            GCCollector(registry=self._registry)

    def counter(self, name: str, text: str, *labels: str) -> Counts:
        """A counter that somebody adds to; the name ends in `_total`."""
        counts = Counts()
        self.asked(name, "counter", text, labels, counts.items)
        return counts

    def histogram(self, name: str, text: str, *labels: str, bounds: Sequence[float] = DURATION_BOUNDS) -> Histograms:
        histograms = Histograms(bounds)
        self.asked_histogram(name, text, labels, histograms.values.items)
        return histograms

    def asked(self, name: str, kind: Kind, text: str, labels: Sequence[str], read: Callable[[], Samples]) -> None:
        """A metric whose values are asked at each scrape."""
        assert (kind == "counter") == name.endswith("_total"), f"{name}: a counter, and only a counter, ends in _total"

        def collect() -> Iterator[Metric]:
            made = CounterMetricFamily if kind == "counter" else GaugeMetricFamily
            family = made(name, text, labels=labels)
            for values, value in list(read()):
                family.add_metric(values, value)
            yield family

        self._declare(Family(name, text, tuple(labels), collect))

    def asked_histogram(
        self, name: str, text: str, labels: Sequence[str], read: Callable[[], HistogramSamples]
    ) -> None:
        def collect() -> Iterator[Metric]:
            family = HistogramMetricFamily(name, text, labels=labels)
            for values, histogram in list(read()):
                family.add_metric(values, list(_cumulative(histogram)), histogram.total)
            yield family

        self._declare(Family(name, text, tuple(labels), collect))

    def _declare(self, family: Family) -> None:
        assert family.name not in self.families, f"{family.name} is declared twice"
        self.families[family.name] = family

    def collect(self) -> Iterator[Metric]:
        for family in list(self.families.values()):
            yield from family.read()

    def text(self) -> bytes:
        """Everything, in Prometheus's text format."""
        return generate_latest(self._registry)


def _cumulative(histogram: Histogram) -> Iterator[tuple[str, float]]:
    count = 0
    for bound, bucket in zip(histogram.bounds, histogram.buckets, strict=False):
        count += bucket
        yield str(float(bound)), float(count)
    yield "+Inf", float(count + histogram.buckets[-1])
