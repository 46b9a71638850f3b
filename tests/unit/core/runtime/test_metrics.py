"""The catalogue of metrics: naming conventions."""

import re

import pytest

from rhumbline.client.settings import TelemetrySettings
from rhumbline.core.protocol.errors import ConfigurationError
from rhumbline.core.protocol.record_set import encode_extension, encode_record_set
from rhumbline.core.runtime.histogram import Histogram
from rhumbline.core.runtime.metrics import CATALOGUE, MetricType, samples
from rhumbline.core.runtime.trace_context import trace_extension, traceparent_in, traceparent_of_set

TRACEPARENT = f"00-{'ab' * 16}-{'cd' * 8}-01"


def test_names_follow_the_convention_and_are_unique() -> None:
    names = [metric.prometheus_name for metric in CATALOGUE]
    assert len(set(names)) == len(names)
    for metric, name in zip(CATALOGUE, names, strict=True):
        assert re.fullmatch("rhumbline_(bookie|proxy|repair|archive|client)_[a-z_]+", name)
        assert name.endswith("_total") is (metric.type is MetricType.COUNTER)
        assert not name.endswith(("_count", "_sum", "_bucket")), "reserved for histograms"
        assert metric.help.endswith(".")
        assert metric.unit in ("By", "s", "1") or metric.unit[0] + metric.unit[-1] == "{}"
        bare = name.removesuffix("_total")
        assert bare.endswith("_bytes") is (metric.unit == "By")
        assert bare.endswith("_seconds") is (metric.unit == "s")
        assert not re.search("_(ms|millis|milliseconds|us|kb|mb|kib|mib|percent)(_|$)", name)
        assert not {"le", "quantile", "job", "instance"} & {*metric.labels}


def test_milliseconds_are_exported_in_seconds() -> None:
    found = samples("client", {"metadata": {"stale_age_ms": 2_500}})
    ((metric, (sample,)),) = found.items()
    assert (metric.prometheus_name, metric.name, sample.value) == (
        "rhumbline_client_metadata_stale_age_seconds",
        "rhumbline.client.metadata.stale_age",
        2.5,
    )


def test_metrics_of_regional_stores_have_the_region_as_a_label() -> None:
    statistics = {
        "stuck": 1,
        "regional": {"oslo": {"stuck": 2}},
        "client": {
            "ledgers": {"open_handles": 1},
            "regional": {"oslo": {"ledgers": {"open_handles": 2}}},
        },
    }
    found = samples("repair", statistics)
    assert [metric.path for metric in found] == ["repair.stuck", "client.ledgers.open_handles"]
    for values in found.values():
        assert [(sample.labels, sample.value) for sample in values] == [
            ((), 1),
            ((("store", "oslo"),), 2),
        ]


def test_empty_summary_is_zero() -> None:
    assert Histogram().summary()["mean_ms"] == 0


@pytest.mark.parametrize(
    "wrong",
    [
        {"otlp_endpoint": "127.0.0.1:4317"},
        {"otlp_endpoint": "http://x", "sample_ratio": 1.1},
        {"sample_ratio": 0.5},
        {"export_ms": 0},
    ],
)
def test_invalid_telemetry_settings_are_refused(wrong: dict[str, str | float]) -> None:
    with pytest.raises(ConfigurationError):
        TelemetrySettings(**wrong)  # type: ignore[arg-type]


def test_trace_context_travels_in_its_record_set() -> None:
    encoded = encode_record_set(
        [b"x"], first_txid=1, last_txid=1, extension=trace_extension(TRACEPARENT)
    )
    assert traceparent_of_set(encoded) == TRACEPARENT
    assert traceparent_of_set(encode_record_set([b"x"], first_txid=1, last_txid=1)) is None


@pytest.mark.parametrize(
    "area",
    [
        b"",
        b"\x01",
        encode_extension({2: TRACEPARENT.encode()}),
        encode_extension({1: b"\xff" * 55}),
        encode_extension({1: TRACEPARENT.upper().encode()}),
        encode_extension({1: f"00-{'0' * 32}-{'cd' * 8}-01".encode()}),
        encode_extension({1: TRACEPARENT.encode() + b"\n"}),
    ],
)
def test_invalid_traceparent_counts_as_absent(area: bytes) -> None:
    assert traceparent_in(area) is None
