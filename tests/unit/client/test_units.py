"""Parsing and formatting of durations and sizes."""

import pytest

from rhumbline.client.units import (
    parse_bytes,
    parse_ms,
    parse_time_ms,
    show_bytes,
    show_count,
    show_ms,
)
from rhumbline.core.protocol.errors import InvalidArgumentError


@pytest.mark.parametrize(
    ("text", "ms"),
    [
        ("10", 10),
        ("10ms", 10),
        ("1.5s", 1500),
        ("2 m", 120_000),
        ("1h", 3_600_000),
        ("7D", 604_800_000),
    ],
)
def test_durations_are_parsed(text: str, ms: int) -> None:
    assert parse_ms(text) == ms


@pytest.mark.parametrize(
    ("text", "size"),
    [("512", 512), ("512B", 512), ("64KiB", 65536), ("64 mib", 2**26), ("1.5GB", 1_500_000_000)],
)
def test_sizes_are_parsed(text: str, size: int) -> None:
    assert parse_bytes(text) == size


@pytest.mark.parametrize("text", ["", "ms", "-1s", "10 parsecs", "1e3", "1.2.3s", "10MiB"])
def test_invalid_duration_is_refused(text: str) -> None:
    with pytest.raises(InvalidArgumentError, match="is not a duration"):
        parse_ms(text)


@pytest.mark.parametrize("text", ["", "KiB", "-1", "10s", "0x10"])
def test_invalid_size_is_refused(text: str) -> None:
    with pytest.raises(InvalidArgumentError, match="is not a size"):
        parse_bytes(text)


def test_sizes_and_durations_are_formatted() -> None:
    assert [show_bytes(n) for n in (0, 1023, 17_613, 3 * 2**40)] == [
        "0 B", "1023 B", "17.2 KiB", "3.0 TiB",
    ]  # fmt: skip
    assert [show_ms(n) for n in (0.314, 45.21, 1400, 190_000, 7_500_000, 273_600_000)] == [
        "0.31 ms", "45.2 ms", "1.4 s", "3m 10s", "2h 5m", "3d 4h",
    ]  # fmt: skip


def test_counts_agree_with_their_nouns() -> None:
    assert [show_count(n, "record") for n in (0, 1, 2, 1_000)] == [
        *("0 records", "1 record", "2 records", "1,000 records"),
    ]
    assert [show_count(n, "copy", "copies") for n in (0, 1, 2)] == [
        "0 copies",
        "1 copy",
        "2 copies",
    ]


@pytest.mark.parametrize(
    ("text", "ms"),
    [
        ("1700000000123", 1_700_000_000_123),
        ("2023-11-14T22:13:20", 1_700_000_000_000),
        ("2023-11-14T23:13:20.5+01:00", 1_700_000_000_500),
        ("2023-11-14", 1_699_920_000_000),
        ("15m ago", 99_100_000),
        ("9d ago", 0),
    ],
)
def test_time_is_parsed(text: str, ms: int) -> None:
    assert parse_time_ms(text, 100_000_000) == ms


@pytest.mark.parametrize("text", ["", "yesterday", "15m", "-5", "x ago"])
def test_text_that_is_no_time_is_refused(text: str) -> None:
    with pytest.raises(InvalidArgumentError):
        parse_time_ms(text, 0)
