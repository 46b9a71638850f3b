"""``sql`` reads tables and nothing else, within limits of rows and time."""

import pytest

from rhumbline.cli.sql.query import QueryDatabase
from rhumbline.cli.sql.tables import TABLES
from rhumbline.core.protocol.errors import DeadlineExceededError, InvalidArgumentError

FOREVER = "with recursive c(x) as (select 1 union all select x + 1 from c) select count(*) from c"


@pytest.fixture
def database() -> QueryDatabase:
    return QueryDatabase()


def fragments(count: int) -> list[dict[str, object]]:
    return [
        {"ledger": number, "first_entry": 0, "position": 0, "bookie": "b"}
        for number in range(count)
    ]


@pytest.mark.parametrize(
    ("query", "tables"),
    [
        ("select 1", []),
        ("select count(*) from bookies", ["bookies"]),
        ("select region from fragments join bookies using (bookie)", ["fragments", "bookies"]),
        ("select 1 where exists (select 1 from streams)", ["streams"]),
        ("with x as (select * from segments) select 1 from x", ["segments"]),
        (f"select * from {', '.join(TABLES)}", list(TABLES)),
    ],
)
def test_only_the_tables_that_a_query_reads_are_loaded(
    database: QueryDatabase, query: str, tables: list[str]
) -> None:
    assert database.tables_of(query) == tables


@pytest.mark.parametrize(
    "query",
    [
        "delete from streams",
        "insert into streams default values",
        "update streams set stream = 1",
        "drop table streams",
        "create table x (y)",
        "attach 'other.db' as other",
        "pragma user_version",
        "vacuum",
        "vacuum into 'file'",
        "with x as (select 1) delete from streams",
        "",
    ],
)
def test_everything_but_select_is_refused(database: QueryDatabase, query: str) -> None:
    for use in (database.tables_of, lambda text: database.run(text, rows_max=1, timeout_ms=1000)):
        with pytest.raises(InvalidArgumentError):
            use(query)


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("select * from nowhere", "no such table: nowhere; `rhumbline sql --tables`"),
        ("select nowhere from streams", "no such column: nowhere; `rhumbline sql --tables`"),
        ("select 1; select 2", "only one statement"),
        ("select from", "syntax error"),
    ],
)
def test_a_query_that_is_not_valid_is_explained(
    database: QueryDatabase, query: str, message: str
) -> None:
    with pytest.raises(InvalidArgumentError, match=message):
        database.tables_of(query)


def test_results_are_bounded(database: QueryDatabase) -> None:
    database.fill("fragments", fragments(10))
    query = "select ledger from fragments order by ledger"
    assert database.run(query, rows_max=2, timeout_ms=1000) == (
        [{"ledger": 0}, {"ledger": 1}],
        True,
    )
    assert database.run(query, rows_max=10, timeout_ms=1000)[1] is False


def test_a_query_that_takes_too_long_is_ended(database: QueryDatabase) -> None:
    with pytest.raises(DeadlineExceededError, match=r"ended after 50\.0 ms"):
        database.run(FOREVER, rows_max=1, timeout_ms=50)


def test_columns_of_the_same_name_are_all_shown(database: QueryDatabase) -> None:
    found, _ = database.run("select 1 as a, 2 as a, 3 as a", rows_max=1, timeout_ms=1000)
    assert found == [{"a": 1, "a_2": 2, "a_3": 3}]
