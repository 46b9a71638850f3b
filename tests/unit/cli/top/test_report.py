"""``top`` shows rates between two samples, and everything that is wrong; it fits the terminal."""

from dataclasses import replace
from typing import Any

import pytest
from rich.console import Console

from rhumbline.cli.output_schema import faults
from rhumbline.cli.overview.status_documents import StatusDocument
from rhumbline.cli.top.rates import number_at, p99_ms, rate
from rhumbline.cli.top.report import TOP, report, without_store
from rhumbline.cli.top.sample import ClusterSample, StreamSample
from rhumbline.cli.top.screen import screen
from rhumbline.core.protocol.bookie_id import Region
from rhumbline.core.protocol.dlsn import Dlsn
from rhumbline.core.runtime.histogram import BOUNDS_S
from rhumbline.regions.subscriptions.stream_lag import StreamCount
from rhumbline.server.server_directory import ServerRecord
from rhumbline.tests.unit.cli.overview.test_regions import EU, US, bookie

PROXY = ServerRecord("write-proxy", "p:1", "p:2", "eu")
REPAIR = ServerRecord("repair", "", "r:2", "eu")
AUDITED = {"auditor": True, "durability": {"known": True, "ledgers": {"whole": {"open": 1}}}}


def buckets(*, quick: int, slow: int) -> list[int]:
    """Durations of up to the third and the tenth bound."""
    return [0, 0, *[quick] * 7, *[quick + slow] * (len(BOUNDS_S) - 9)]


def of_bookie(adds: int, *, slow: int = 0) -> StatusDocument:
    latency = {"count": adds, "buckets": buckets(quick=adds - slow, slow=slow)}
    statistics: dict[str, Any] = {
        "free_bytes": 26,
        "log_bytes": adds * 100,
        "operations": {"add": {"ok": adds}},
        "operation": {"add": latency},
        "ledgers": 3,
        "connections": 1,
    }
    return StatusDocument(statistics, None)


def sample(time_s: float, adds: int, records: int | None, **changes: Any) -> ClusterSample:  # noqa: ANN401
    position = Dlsn(1, records or 0, 0)
    fields: dict[str, Any] = {
        "wall_ms": 1_700_000_000_000,
        "time_s": time_s,
        "bookies": [bookie(status=of_bookie(adds)), bookie("c@00000002", US)],
        "ordered": {},
        "servers": [PROXY, REPAIR],
        "statuses": {
            "p:2": StatusDocument({"write": {"streams": 1, "records": 7 * adds}}, None),
            "r:2": StatusDocument({**AUDITED, "repaired": {"bytes": adds}}, None),
        },
        "proxies": [],
        "tasks": 0,
        "auditor": "r",
        "streams": {"n/s": StreamSample(StreamCount(position, records), "p:1", 4)},
    }
    return ClusterSample(**{**fields, **changes})


def test_rates_are_those_between_two_samples() -> None:
    found = report(sample(10, 100, 1000), sample(12, 300, 1500))
    assert list(faults(found, TOP)) == []
    assert found["interval_ms"] == 2000
    eu, us = found["regions"]
    assert (eu["adds_per_second"], eu["written_bytes_per_second"]) == (100, 10_000)
    assert us["adds_per_second"] is None, (
        "a bookie that reports no counters is not one without load"
    )
    by_name = {row["server"]: row for row in found["servers"]}
    assert by_name["p:1"]["work_per_second"] == 700
    (stream,) = found["streams"]
    assert (stream["records_per_second"], stream["lag_records"]) == (250, 4)
    assert found["repair"]["copied_bytes_per_second"] == 100
    assert found["alerts"] == []


def test_the_first_sample_has_no_rates() -> None:
    found = report(None, sample(10, 100, 1000))
    assert list(faults(found, TOP)) == []
    assert found["regions"][0]["adds_per_second"] is None
    assert found["regions"][0]["add_p99_ms"] is None, "not that since the start of the bookie"


def test_latencies_are_those_of_the_interval() -> None:
    before, after = of_bookie(1000, slow=500).statistics, of_bookie(1100, slow=500).statistics
    assert p99_ms(before, after, "operation.add") == BOUNDS_S[2] * 1000
    slower = of_bookie(1100, slow=510).statistics
    assert p99_ms(before, slower, "operation.add") == BOUNDS_S[9] * 1000
    assert p99_ms(before, before, "operation.add") is None
    assert p99_ms(after, before, "operation.add") is None, "the bookie started again"


@pytest.mark.parametrize(
    ("before", "after", "expected"), [(1, 3, 1.0), (3, 1, None), (None, 1, None), (1, None, None)]
)
def test_a_counter_that_began_again_has_no_rate(
    before: float | None, after: float | None, expected: float | None
) -> None:
    assert rate(before, after, 2) == expected
    assert number_at({"a": {"b": True}}, "a.b") is None


def test_everything_that_is_wrong_is_an_alert() -> None:
    silent = StatusDocument({}, "p:2 does not respond")
    ledgers = {"at_risk": {"open": 1, "closed": 2}}
    durability = {"durability": {"known": True, "ledgers": ledgers}}
    now = sample(
        10,
        1,
        1,
        bookies=[bookie(is_up=False), bookie("c@00000002", US)],
        statuses={"p:2": silent, "r:2": StatusDocument(durability, None)},
        tasks=3,
        auditor=None,
    )
    found = [(one["verdict"], one["subject"]) for one in report(None, now)["alerts"]]
    assert found == [
        ("fault", "region eu"),
        ("fault", "bookie b@00000001"),
        ("fault", "repair"),
        ("fault", "write-proxy p:1"),
        ("fault", "durability"),
        ("warning", "repair"),
    ]


def durability_alerts(statistics: dict[str, Any], *stores: Region) -> list[tuple[Any, ...]]:
    statuses = {"p:2": StatusDocument({}, None), "r:2": StatusDocument(statistics, None)}
    now = sample(10, 1, 1, statuses=statuses, stores=stores)
    assert "all is well" not in drawn(report(None, now), 80, 24)[0]
    return [tuple(one.values()) for one in report(None, now)["alerts"]]


def test_durability_without_a_recent_audit_is_unknown_and_not_well() -> None:
    unknown = ("warning", "unknown: no recent complete audit", "RhumblineDurabilityUnknown")
    for statistics in ({}, {"auditor": True, "durability": {"known": False}}):
        assert durability_alerts(statistics) == [("durability", *unknown)]
    assert durability_alerts(AUDITED, EU) == [("durability in eu", *unknown)], "its audit is silent"
    regional = {"regional": {"eu": {"auditor": False, "durability": {"known": False}}}}
    assert durability_alerts({**AUDITED, **regional}) == [("durability in eu", *unknown)]


def test_lost_data_in_a_regional_store_is_a_fault() -> None:
    lost = {"known": True, "ledgers": {"lost": {"open": 0, "closed": 2}}}
    found = durability_alerts({**AUDITED, "regional": {"eu": {"durability": lost}}}, EU)
    assert found == [("durability in eu", "fault", "ledgers: 2 lost", "RhumblineDataLost")]


def drawn(document: dict[str, Any], width: int, height: int) -> list[str]:
    console = Console(width=width, height=height, color_system=None, record=True, quiet=True)
    with console.capture() as capture:
        console.quiet = False
        console.print(screen(document, "rhumbline top  x://store", width, height))
    return capture.get().splitlines()


@pytest.mark.parametrize(("width", "height"), [(80, 24), (110, 24), (200, 60)])
@pytest.mark.parametrize("count", [1, 30])
def test_the_screen_fits_the_terminal(width: int, height: int, count: int) -> None:
    names = [f"b{number}@{number:08d}" for number in range(count)]
    now = sample(
        10,
        100,
        1000,
        bookies=[bookie(name, is_up=number % 3 != 2) for number, name in enumerate(names)],
        streams={
            f"n/{name}": StreamSample(StreamCount(Dlsn(1, 1, 0), 5), None, None) for name in names
        },
    )
    lines = drawn(report(None, now), width, height)
    assert len(lines) < height, "the cursor's line stays free"
    assert max(map(len, lines)) <= width
    text = "\n".join(lines)
    for heading in ("REGION", "SERVER", "STREAM", "repair: "):
        assert heading in text
    assert ("fault" in lines[0]) == (count > 2)
    if (count, height) == (30, 24):
        assert "SERVER (+" in text
        assert "STREAM (+" in text


def test_a_store_that_does_not_respond_is_never_all_is_well() -> None:
    document = report(None, sample(10, 100, 1000))
    assert "all is well" in drawn(document, 80, 24)[0]
    lines = drawn(without_store(document, "x://store is away"), 80, 24)
    assert "1 fault" in lines[0]
    assert "nothing is known: x://store is away" in lines[1]


def test_servers_that_are_not_well_are_shown_first() -> None:
    names = [f"b{number}@{number:08d}" for number in range(30)]
    views = [bookie(name) for name in names]
    views[17] = replace(views[17], is_read_only=True)
    lines = drawn(report(None, sample(10, 1, 1, bookies=views)), 80, 24)
    start = next(number for number, line in enumerate(lines) if line.startswith("SERVER"))
    assert lines[start + 1].startswith(names[17])
