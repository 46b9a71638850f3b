"""Output of all benchmarks: raw limits first, then each row of results as it arrives.

For programs the rows are the output; tables and remarks are for people.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, TypeVar

import click

from ...cli.output import TABLE, DocumentWriter, format_table
from ...cli.output_form import output_option, selected_form
from ...cli.output_schema import prints, record, rows, text
from ...core.protocol.installation import installed_form
from ..raw_limits import measure_raw_limits

Rows = AsyncIterator[dict[str, Any]]
Command = TypeVar("Command", bound=Callable[..., Any])

_RAW_COLUMNS = ("raw limit", "p50 ms", "p99 ms", "per s", "MB/s")
_WRITER = "bench_rows"


def reports(command: Command) -> Command:
    """Add ``--output``, and declare that the command prints rows of measurements."""
    row = record({"w": text("What was measured; the other keys depend on it.")}, is_open=True)
    return output_option(prints(rows(row))(command), is_passed=False)


def say(text: str = "") -> None:
    """Print a remark or a table for people."""
    if selected_form() == TABLE:
        click.echo(text)


def emit(found: Iterable[Mapping[str, Any]]) -> None:
    """Print rows for programs."""
    if selected_form() == TABLE:
        return
    context = click.get_current_context()
    if _WRITER not in context.meta:
        context.meta[_WRITER] = context.with_resource(DocumentWriter(selected_form()))
    context.meta[_WRITER].write(
        {key.replace(" ", "_"): value for key, value in row.items()} for row in found
    )


async def collect(measured: Rows, json_file: Path | None) -> list[dict[str, Any]]:
    """Return all rows; each is printed and appended to the file as it arrives."""
    found = []
    async for row in measured:
        found.append(row)
        emit([row])
        say(f"{row['w']:13} {row['peer']:16} {_headline(row)}")
        if json_file is not None:
            line = json.dumps(row) + "\n"
            await asyncio.to_thread(_append_line, json_file, line)
    return found


def _headline(row: dict[str, Any]) -> str:
    if "rec_s" in row:
        return f"{row['rec_s']:>10,} records/s"
    for name in ("restart_s", "seconds"):
        if name in row:
            return f"{row[name]:>10} s"
    return f"{row['p50_ms']:>10} ms"


def _append_line(file: Path, line: str) -> None:
    with file.open("a", encoding="utf-8") as out:
        out.write(line)


def print_raw(directory: Path) -> None:
    """Print the table of raw limits, and whether the code is compiled."""
    limits = measure_raw_limits(directory)
    is_compiled = installed_form() == "compiled"
    shown = [
        {
            "raw_limit": limit.name,
            "p50_ms": round(limit.p50_ms, 3),
            "p99_ms": round(limit.p99_ms, 3),
            "per_s": round(limit.per_second),
            "MB_s": round(limit.megabytes_per_second, 1),
        }
        for limit in limits
    ]
    emit({"w": "raw", **row, "is_compiled": is_compiled} for row in shown)
    say(format_table([dict(zip(_RAW_COLUMNS, row.values(), strict=True)) for row in shown]))
    say("code: compiled" if is_compiled else "code: source (make bench runs it compiled)")
    say()
