"""Tables become dataclasses of settings: units, lists, nested tables, and all errors at once."""

from dataclasses import dataclass

import pytest

from rhumbline.client.settings_table import LENGTH_MAX, read_table, read_value
from rhumbline.core.log.policy import StreamPolicy
from rhumbline.core.protocol.compression import Codec
from rhumbline.core.protocol.errors import InvalidArgumentError
from rhumbline.core.runtime.settings import setting, settings_of


@dataclass(frozen=True)
class Inner:
    at_ms: int = setting(text="When.", low=0, high=100)
    ratio: float = setting(0.5, "Ratio.", low=0, high=1)


@dataclass(frozen=True)
class Outer:
    name: str
    inner: tuple[Inner, ...] = ()
    words: tuple[str, ...] = setting((), "Words.", words=("a", "b"))
    pairs: tuple[tuple[str, str], ...] = ()
    is_on: bool = False


def test_values_may_have_units_and_be_nested() -> None:
    errors: list[str] = []
    table = {
        "name": "n",
        "inner": [{"at_ms": "0.05s"}, {"at_ms": 7, "ratio": 1}],
        "words": ["a"],
        "pairs": {"x": "1"},
        "is_on": "true",
    }
    assert read_table(Outer, table, "top", errors) == Outer(
        "n", (Inner(50), Inner(7, 1)), ("a",), (("x", "1"),), True
    )
    assert errors == []


def test_all_errors_are_collected_with_their_places() -> None:
    errors: list[str] = []
    table = {
        "nam": "n",
        "inner": [{"at_ms": "1s"}, {"ratio": "much"}],
        "words": ["c"],
        "pairs": {"x": 1},
        "is_on": 1,
    }
    assert read_table(Outer, table, "top", errors) is None
    assert errors == [
        "top: unknown key nam; did you mean name?",
        "top: name is missing",
        "top.inner[1].at_ms: 1000 is not between 0 and 100 ms",
        "top.inner[2]: at_ms is missing",
        "top.inner[2].ratio: 'much' is not a number",
        "top.words[1]: 'c' is not one of a, b",
        "top.pairs: {'x': 1} is not a table of strings",
        "top.is_on: 1 is not true or false",
    ]


def test_lists_and_strings_are_bounded() -> None:
    errors: list[str] = []
    table = {"name": "n" * (10 * LENGTH_MAX + 1), "words": ["a"] * (LENGTH_MAX + 1)}
    assert read_table(Outer, table, "top", errors) is None
    assert errors == [
        "top.name: 2001 characters, above the limit of 2000",
        "top.words: 201 items, above the limit of 200",
    ]


def test_single_values_are_read_by_their_type() -> None:
    declared = settings_of(StreamPolicy)
    assert read_value(declared["retention_ms"], "none") is None
    assert read_value(declared["codec"], "ZSTD") is Codec.ZSTD
    assert read_value(declared["truncates_by_subscriptions"], "True") is True
    with pytest.raises(InvalidArgumentError, match="'none' is not a duration"):
        read_value(declared["roll_ms"], "none")
    with pytest.raises(InvalidArgumentError, match="'gzip' is not one of none, zstd"):
        read_value(declared["codec"], "gzip")
