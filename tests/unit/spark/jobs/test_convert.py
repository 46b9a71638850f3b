"""Payloads become rows of the given types, or an error beside them; no payload ends the job."""

from collections.abc import Mapping
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest
from pyspark.sql.types import (
    ArrayType,
    DecimalType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from rhumbline.core.protocol.errors import ConfigurationError
from rhumbline.spark.jobs.convert import find_function, row_decoder

AT = datetime(2026, 11, 24, tzinfo=UTC)
WANTED = StructType(
    [
        StructField("id", LongType()),
        StructField("at", TimestampType()),
        StructField("total", DecimalType(5, 2)),
        StructField("error", StringType()),
    ]
)


def decode(found: Any) -> tuple[Any, ...]:  # noqa: ANN401 - what a user's function returns
    return row_decoder(lambda: lambda payload: found, WANTED)(b"payload")


@pytest.mark.parametrize(
    "found",
    [
        {"id": 1, "at": AT, "total": Decimal("999.99")},
        {"id": 1, "at": datetime(2026, 11, 24), "other": 1},
        {},
    ],
)
def test_values_of_the_right_types_become_a_row(found: Mapping[str, Any]) -> None:
    assert decode(found) == (found.get("id"), found.get("at"), found.get("total"), None)


@pytest.mark.parametrize(
    ("found", "words"),
    [
        ({"id": 1, "at": "2026-11-24 00:00:00"}, "at"),
        ({"id": "1"}, "id"),
        ({"id": 2**63}, "9223372036854775808"),
        ({"total": 1.5}, "total"),
        ({"total": Decimal("999.995")}, "too many digits for decimal(5,2)"),
        ({"total": Decimal("NaN")}, "InvalidOperation"),
        ([1, 2], "AttributeError"),
        (None, "AttributeError"),
    ],
)
def test_values_of_wrong_types_are_errors_of_their_row(found: object, words: str) -> None:
    """A string for a timestamp ended the job, and one for a number became null without an error."""
    *values, error = decode(found)
    assert values == [None, None, None]
    assert words in error


@pytest.mark.parametrize(
    ("found", "words"),
    [
        ({"totals": [Decimal("1.00"), Decimal("1000.00")]}, "totals: 1000.00"),
        ({"by_day": {"monday": Decimal("1000.00")}}, "by_day: 1000.00"),
        ({"order": {"total": Decimal("1000.00")}}, "order.total: 1000.00"),
        ({"order": (Decimal("1000.00"),)}, "order.total: 1000.00"),
    ],
)
def test_digits_are_counted_within_nested_columns(found: Mapping[str, Any], words: str) -> None:
    digits = DecimalType(5, 2)
    wanted = StructType(
        [
            StructField("totals", ArrayType(digits)),
            StructField("by_day", MapType(StringType(), digits)),
            StructField("order", StructType([StructField("total", digits)])),
            StructField("error", StringType()),
        ]
    )
    *values, error = row_decoder(lambda: lambda payload: found, wanted)(b"payload")
    assert values == [None, None, None]
    assert words in error
    fitting: dict[str, Any] = {"totals": [Decimal(1)], "by_day": {}, "order": {"total": None}}
    row = row_decoder(lambda: lambda payload: fitting, wanted)(b"payload")
    assert row == ([Decimal(1)], {}, {"total": None}, None)


@pytest.mark.parametrize("function", ["json", "json:", "no_such_module:decode", "json:no_function"])
def test_a_function_that_cannot_be_found_ends_the_job(function: str) -> None:
    """Every row of the table was an error, and a second run did not convert them again."""
    with pytest.raises(ConfigurationError, match="convert: .*" + function):
        find_function(function)


def test_a_function_is_found_by_its_name() -> None:
    assert find_function("json:loads")(b'{"id": 1}') == {"id": 1}
