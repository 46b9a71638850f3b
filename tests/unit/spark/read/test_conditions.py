"""The option ``where`` is understood as SQL understands it, or refused in words."""

import pytest

from rhumbline.core.protocol.errors import ConfigurationError
from rhumbline.spark.read.conditions import HIGHEST, Ranges, RowCondition, parse_conditions
from rhumbline.spark.read.options import parse_options


def test_conditions_are_parsed() -> None:
    found = parse_conditions(" LSSN = 2 and txid>=-5 AND created<'1970-01-01 00:00:01' ")
    assert found.of_rows == (
        RowCondition("lssn", "=", (2,)),
        RowCondition("txid", ">=", (-5,)),
        RowCondition("created", "<", (1_000_000,)),
    )
    assert found.streams is None
    assert found.columns == frozenset(("lssn", "txid", "created"))


def test_a_position_stands_for_three_columns() -> None:
    found = parse_conditions("dlsn = '3:1:2'").of_rows
    assert found == tuple(
        RowCondition(name, "=", (value,))
        for name, value in (("lssn", 3), ("entry_id", 1), ("slot", 2))
    )


def test_text_in_quotes_is_no_condition() -> None:
    found = parse_conditions("stream in ('a and b', 'c') and stream in ('c','d')")
    assert found.streams == frozenset("c")
    assert found.of_rows == ()
    assert found.includes_stream("c")
    assert not found.includes_stream("d")


def test_ranges_hold_every_row_that_meets_the_conditions() -> None:
    ranges = Ranges.of(parse_conditions("txid > 5 and txid <= 9 and lssn in (7, 3) and lssn < 7"))
    assert ranges.of_column("txid") == ((6, 9),)
    assert ranges.of_column("lssn") == ((3, 3),)
    assert (ranges.lowest("txid"), ranges.highest("txid")) == (6, 9)
    assert ranges.highest("created") == HIGHEST
    assert ranges.may_match("txid", 9, 20)
    assert not ranges.may_match("txid", 10, 20)


def test_ranges_exclude_what_is_between_the_values_of_a_list() -> None:
    """The list stood for all values between its lowest and its highest one."""
    ranges = Ranges.of(parse_conditions("lssn in (1000, 1, 1)"))
    assert ranges.of_column("lssn") == ((1, 1), (1000, 1000))
    assert [n for n in range(1, 1001) if ranges.may_match("lssn", n, n)] == [1, 1000]
    assert not ranges.may_match("lssn", 2, 999)
    assert ranges.may_match("lssn", 2, 1000)


def test_conditions_that_exclude_each_other_match_nothing() -> None:
    ranges = Ranges.of(parse_conditions("created < '1970-01-02' and created > '1970-01-03'"))
    assert ranges.of_column("created") == ()
    assert ranges.lowest("created") > ranges.highest("created")
    assert not ranges.may_match("created", -HIGHEST, HIGHEST)


@pytest.mark.parametrize(
    ("where", "words"),
    [
        ("", "joined by `and`"),
        ("lssn = 2 or lssn = 3", "joined by `and`"),
        ("lssn = 2 and", "joined by `and`"),
        ("lssn = 2and txid = 3", "joined by `and`"),
        ("lssn != 2", "joined by `and`"),
        ("lssn in 2", "joined by `and`"),
        ("lssn = (2, 3)", "joined by `and`"),
        ("length(payload) > 2", "one of stream, dlsn, lssn"),
        ("payload = 'x'", "one of stream, dlsn, lssn"),
        ("lssn = '2'", "lssn: '2' is not a whole number"),
        ("txid = 99999999999999999999", "joined by `and`"),
        ("created > 5", "created: 5 is not text in single quotes"),
        ("created > 'soon'", "created: 'soon' is not a time, such as '2026"),
        ("stream = 4", "stream: 4 is not text"),
        ("stream > 'a'", "stream can only be compared by = or in"),
        ("dlsn in ('1:0:0')", "dlsn can only be compared by ="),
        ("dlsn = 'first'", "dlsn: .*first"),
    ],
)
def test_faults_are_explained(where: str, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        parse_conditions(where)
    given = {"archive": "file:///cold", "subscribe": "s", "where": where}
    with pytest.raises(ConfigurationError, match=f"where: .*{words}"):
        parse_options(given, is_streaming=False)


def test_a_streaming_query_has_no_conditions() -> None:
    given = {"archive": "file:///cold", "subscribe": "s", "where": "lssn = 1"}
    with pytest.raises(ConfigurationError, match="where: use the filters of Spark"):
        parse_options(given, is_streaming=True)


def test_filters_of_spark_are_not_accepted() -> None:
    """With pushFilters, a union of two filters of one DataFrame missed rows."""
    given = {"archive": "file:///cold", "subscribe": "s", "pushFilters": "true"}
    with pytest.raises(ConfigurationError, match="pushfilters: unknown option"):
        parse_options(given, is_streaming=False)
