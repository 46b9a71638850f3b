"""``rhumbline sql``: a SELECT over the state of a cluster."""

import click

from ...client.units import parse_ms
from ..options import CommandSession, runs, session_options
from ..output import ProgressBar, print_message, print_rows
from ..output_schema import prints, record, rows
from .loading import TableLoader
from .query import QueryDatabase
from .tables import TABLES


@click.command()
@click.argument("query", required=False)
@click.option("--tables", "shows_tables", is_flag=True, help="List the tables and their columns.")
@click.option(
    "--limit",
    "rows_max",
    type=click.IntRange(1, 1_000_000),
    default=1000,
    show_default=True,
    help="Maximum number of rows in the result.",
)
@click.option(
    "--load-limit",
    "loaded_max",
    type=click.IntRange(1, 10_000_000),
    default=200_000,
    show_default=True,
    help="Maximum number of rows that are loaded into a table.",
)
@click.option(
    "--timeout",
    "time_limit",
    default="30s",
    show_default=True,
    help="Time limit of the query itself.",
)
@prints(rows(record({}, is_open=True)))
@session_options
@runs
async def sql(
    session: CommandSession, query: str | None, shows_tables: bool, rows_max: int, loaded_max: int,
    time_limit: str,
) -> None:  # fmt: skip
    """Run QUERY, a SELECT of SQLite, over the streams, ledgers, servers and metrics of the cluster.

    The tables that it names are loaded into a database in memory first, so it changes nothing. They
    are read one after another, while the cluster keeps changing.
    """
    if shows_tables:
        shown = [
            {"table": table.name, "column": column.name, "type": column.type,
             "meaning": column.meaning}
            for table in TABLES.values()
            for column in table.columns
        ]  # fmt: skip
        print_rows(shown, session.output, empty="")
        return
    if query is None:
        raise click.UsageError("give a QUERY, or --tables")
    database = QueryDatabase()
    try:
        names = database.tables_of(query)
        async with session.client(moves_data=False) as client:
            loader = TableLoader(client, loaded_max)
            with ProgressBar() as progress:
                for number, name in enumerate(names):
                    progress.show(f"reading {name}", number, len(names))
                    database.fill(name, await loader.load(name))
        found, has_more = database.run(query, rows_max=rows_max, timeout_ms=parse_ms(time_limit))
    finally:
        database.close()
    print_rows(found, session.output, empty="no rows")
    for name in loader.cut:
        print_message(f"table {name} holds only its first {loaded_max:,} rows; see --load-limit")
    if has_more:
        print_message(f"only the first {rows_max:,} rows are shown; see --limit")
