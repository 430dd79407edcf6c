"""Counters and how they are exposed [OPS-4]."""

from prometheus_client.parser import text_string_to_metric_families

from dittofs.metrics.counting import OTHER, SERIES_MAX, Counts, Histogram, Histograms, ProcedureCounts
from dittofs.metrics.families import Metrics


def samples(metrics: Metrics) -> dict[tuple[str, tuple[str, ...]], float]:
    return {
        (sample.name, tuple(sample.labels.values())): sample.value
        for family in text_string_to_metric_families(metrics.text().decode())
        for sample in family.samples
    }


def test_a_value_on_a_bound_counts_below_it() -> None:
    histogram = Histogram((1.0, 2.0))
    for value in (0.5, 1.0, 1.5, 2.0, 2.5):
        histogram.observe(value)
    assert histogram.buckets == [2, 2, 1]
    assert (histogram.count, histogram.total) == (5, 7.5)


def test_what_is_counted_is_exposed() -> None:
    metrics = Metrics(with_process=False)
    counter = metrics.counter("things_total", "Things.", "kind")
    seconds = metrics.histogram("work_seconds", "Work.", "kind", bounds=(1.0, 2.0))
    metrics.asked("level", "gauge", "Level.", (), lambda: [((), 7)])
    counter.add("red")
    counter.add("red", amount=2)
    for value in (0.5, 1.5, 9.0):
        seconds.observe(value, "x")
    found = samples(metrics)
    assert found["things_total", ("red",)] == 3
    assert found["level", ()] == 7
    assert [found["work_seconds_bucket", ("x", bound)] for bound in ("1.0", "2.0", "+Inf")] == [1, 2, 3]
    assert found["work_seconds_sum", ("x",)] == 11


def test_label_values_are_bounded() -> None:
    """Whoever invents names cannot make the server keep all of them."""
    counts, histograms = Counts(), Histograms()
    for number in range(SERIES_MAX + 10):
        counts.add(f"n{number}")
        histograms.observe(1.0, f"n{number}")
    assert dict(counts.items())[(OTHER,)] == 10
    assert histograms.values[(OTHER,)].count == 10
    assert len(counts.items()) == len(histograms.values) == SERIES_MAX + 1


def test_a_batch_is_timed_once_for_all_its_calls() -> None:
    counts = ProcedureCounts("NFS", "GETATTR")
    counts.in_batch = 16
    counts.end_batch(0.001)
    assert counts.durations.count == 16
    assert counts.durations.total == 0.016
