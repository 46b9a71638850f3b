"""Generates the page of the tables that ``rhumbline sql`` queries."""

from ..sql.tables import TABLES

SQL_FILE = "sql.md"

_HEAD = """\
# Tables of rhumbline sql

Generated from the program; do not edit. `rhumbline sql "select ..."` runs one SELECT of
[SQLite](https://www.sqlite.org/lang_select.html) over these tables. Those that the query reads are
loaded into a database in memory first: the command changes nothing, and what it shows may be some
seconds apart. Truth values are 1 and 0, what is not known is null. See [Observe a
cluster](../how-to/observe.md#query-the-state-with-sql) for examples.
"""


def sql_page() -> str:
    """Return the page with the columns of each table."""
    lines = [_HEAD]
    for table in TABLES.values():
        lines += [f"## {table.name}\n", f"{table.meaning}\n", "| column | type | meaning |"]
        lines.append("|---|---|---|")
        lines += [
            f"| `{column.name}` | {column.type} | {column.meaning.replace('|', '&#124;')} |"
            for column in table.columns
        ]
        lines.append("")
    return "\n".join(lines)
