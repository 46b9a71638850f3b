"""A report is bounded, survives its encoding, and equal loads give equal reports."""

import pytest

from rhumbline.core.protocol.errors import CorruptionError
from rhumbline.core.runtime.metadata_store import Version
from rhumbline.proxies.balance.assignment_store import StoredReport
from rhumbline.proxies.balance.believed_reports import BelievedReports
from rhumbline.proxies.balance.load_report import (
    HOT_STREAMS_MAX,
    BusyStream,
    LoadReport,
    hottest,
    rounded,
)

REPORT = LoadReport(
    "id", "a:1", "east", 120.0, 3, 400.0, 1e6, 35, 4, (BusyStream("n/s", 80.0, 65_000),)
)


def test_report_is_encoded_and_decoded() -> None:
    assert LoadReport.decode("id", REPORT.encode(7)) == REPORT
    assert REPORT.encode(7) != REPORT.encode(8)


@pytest.mark.parametrize(
    "item",
    [
        b'["n/s",80.0]',
        b'["n/s","80",1]',
        b"7",
        b'["n/s",true,1]',
        b'["n/s",1.0,false]',
        b'["n/s",NaN,1]',
        b'["n/s",-1.0,1]',
    ],
)
def test_an_unreadable_report_is_refused(item: bytes) -> None:
    data = REPORT.encode(1).replace(b'["n/s",80.0,65000]', item)
    with pytest.raises(CorruptionError):
        LoadReport.decode("id", data)


@pytest.mark.parametrize(
    "field", [b'"load":"120"', b'"load":true', b'"load":Infinity', b'"load":-1.0']
)
def test_a_field_of_the_wrong_type_or_range_is_refused(field: bytes) -> None:
    data = REPORT.encode(1).replace(b'"load":120.0', field)
    with pytest.raises(CorruptionError):
        LoadReport.decode("id", data)


def test_fields_of_a_later_program_are_ignored() -> None:
    data = REPORT.encode(1).replace(b'"load"', b'"zone":"a","load"')
    data = data.replace(b'["n/s",80.0,65000]', b'["n/s",80.0,65000,"new"]')
    assert LoadReport.decode("id", data) == REPORT


def test_report_names_the_hottest_streams_with_rounded_values() -> None:
    streams = [BusyStream(f"n/{n}", float(n), 61_234) for n in range(100)]
    found = hottest(streams)
    assert len(found) == HOT_STREAMS_MAX
    assert found[0] == BusyStream("n/99", 99.0, 60_000)
    assert hottest([BusyStream("n/idle", 0.001, 0)]) == ()
    assert [rounded(value) for value in (0.0, 0.0123, 1.26, 1234.0)] == [0, 0.012, 1.3, 1200]


def test_a_report_that_is_not_renewed_is_not_believed() -> None:
    believed = BelievedReports(stale_s=60.0)

    def update(version: str, now: float, *members: str) -> list[LoadReport]:
        found = [StoredReport(REPORT, Version(version))]
        return believed.update(found, members or ("id",), now)

    assert update("v1", 0.0) == [REPORT]
    assert update("v1", 59.0) == [REPORT]
    assert update("v1", 60.0) == []
    assert update("v2", 61.0) == [REPORT]
    assert update("v3", 62.0, "another id") == []
