"""Output of all benchmarks: raw limits first, then each row of results as it arrives."""

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import click

from ...bench.raw_limits import measure_raw_limits
from ...core.ledger import add_op
from ..output import format_table

Rows = AsyncIterator[dict[str, Any]]


async def collect(rows: Rows, json_file: Path | None) -> list[dict[str, Any]]:
    """Return all rows; each is printed and appended to the file as it arrives."""
    found = []
    async for row in rows:
        found.append(row)
        click.echo(f"{row['w']:13} {row['peer']:16} {_headline(row)}")
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
