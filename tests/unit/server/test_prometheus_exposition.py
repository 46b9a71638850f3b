"""Metrics become Prometheus families: histograms in seconds, escaped labels, catalogue order."""

import pytest
from prometheus_client.parser import text_string_to_metric_families

from rhumbline import __version__
from rhumbline.core.runtime.histogram import Histogram
from rhumbline.server.prometheus_exposition import BUILD_INFO, exposition, registry_of


def test_latencies_are_histograms_in_seconds_and_paths_may_contain_labels() -> None:
    adds = Histogram()
    adds.add(0.010, 3)
    adds.add(0.020)
    ledgers = {"adds": adds.summary(), "bookies": {'b"1\\': {"sent_bytes": 7}}}
    lines = (
        exposition(registry_of("proxy", lambda: {"client": {"ledgers": ledgers}}))
        .decode()
        .splitlines()
    )
    name = "rhumbline_client_ledgers_adds_seconds"
    assert lines[1] == f"# TYPE {name} histogram"
    values = dict(line.rsplit(" ", 1) for line in lines if line[0] != "#")
    counts = [values[f'{name}_bucket{{le="{le}"}}'] for le in ("0.008192", "0.016384", "+Inf")]
    assert counts == ["0.0", "3.0", "4.0"]
    assert float(values[f"{name}_sum"]) == pytest.approx(0.050, rel=0.03)
    assert values[f"{name}_count"] == "4.0"
    sent = 'rhumbline_client_ledgers_bookies_sent_bytes_total{bookie="b\\"1\\\\"}'
    assert values[sent] == "7.0"


def test_prometheus_reads_back_what_was_collected() -> None:
    statistics = {"ready": True, "entries": 7, "syncs": 3, "unknown": 1}
    text = exposition(registry_of("bookie", lambda: statistics)).decode()
    families = list(text_string_to_metric_families(text))
    assert [(family.name, family.type) for family in families][:3] == [
        ("rhumbline_bookie_ready", "gauge"),
        ("rhumbline_bookie_entries", "gauge"),
        ("rhumbline_bookie_syncs", "counter"),
    ]
    assert [sample.value for family in families[:3] for sample in family.samples] == [1, 7, 3]


def test_every_server_exports_its_build_and_its_process() -> None:
    text = exposition(registry_of("repair", dict)).decode()
    families = {family.name: family for family in text_string_to_metric_families(text)}
    (build,) = families.pop(BUILD_INFO).samples
    assert build.value == 1
    assert build.labels["version"] == __version__
    assert build.labels["form"] in ("source", "compiled")
    assert all(name.startswith("process_") for name in families)


def test_values_are_those_of_the_time_of_the_request() -> None:
    statistics = {"entries": 1}
    registry = registry_of("bookie", lambda: statistics)
    first = exposition(registry)
    statistics["entries"] = 2
    assert (b"entries 1.0" in first, b"entries 2.0" in exposition(registry)) == (True, True)
