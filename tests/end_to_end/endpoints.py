"""Where a server of the tests has its metrics and its control plane."""

import json
import urllib.request

from prometheus_client.parser import text_string_to_metric_families

from tests.end_to_end.server_process import ServerProcess

Samples = dict[tuple[str, tuple[tuple[str, str], ...]], float]


def endpoints(server: ServerProcess) -> dict[str, str]:
    found: dict[str, str] = json.loads((server.data / "endpoints.json").read_text())
    return found


def scrape(server: ServerProcess) -> Samples:
    """All samples by name and sorted labels; it fails if Prometheus's own parser does not understand them."""
    with urllib.request.urlopen(endpoints(server)["metrics"] + "/metrics", timeout=10) as answer:
        text = answer.read().decode()
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def value(samples: Samples, name: str, **labels: str) -> float:
    """The sum over all series that have these labels."""
    wanted = set(labels.items())
    return sum(found for (series, has), found in samples.items() if series == name and wanted <= set(has))
