"""What all benchmarks print: raw limits first, then a line for each row of figures as it comes."""

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import click

from ...bench.raw_limits import measure_raw_limits
from ...core.ledger.write import add_op
from ..output import format_table

Rows = AsyncIterator[dict[str, Any]]


async def collect(rows: Rows, json_file: Path | None) -> list[dict[str, Any]]:
    """All rows; each is shown, and appended to the file, when it is there."""
    found = []
    async for row in rows:
        found.append(row)
        click.echo(f"{row['w']:13} {row['peer']:16} {_figure(row)}")
        if json_file is not None:
            line = json.dumps(row) + "\n"
            await asyncio.to_thread(_append_line, json_file, line)
    return found


def _figure(row: dict[str, Any]) -> str:
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
    """The table of raw limits, and in which form our own code runs."""
    rows = [
        {
            "raw limit": limit.name,
            "p50 ms": round(limit.p50_ms, 3),
            "p99 ms": round(limit.p99_ms, 3),
            "per s": round(limit.per_second),
            "MB/s": round(limit.megabytes_per_second, 1),
        }
        for limit in measure_raw_limits(directory)
    ]
    click.echo(format_table(rows))
    is_compiled = not add_op.__file__.endswith(".py")
    click.echo("code: compiled" if is_compiled else "code: source (make bench runs it compiled)")
    click.echo()
