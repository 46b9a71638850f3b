"""Output of commands: tables, JSON for programs, and progress on terminals."""

import json
import sys
from collections.abc import Mapping, Sequence
from typing import Any

import click

Row = Mapping[str, Any]


def print_rows(rows: Sequence[Row], output: str, *, empty: str) -> None:
    """Print rows with equal keys as a table or a JSON list; ``empty`` replaces an empty table."""
    if output == "json":
        click.echo(json.dumps(list(rows), indent=2, default=str))
    elif not rows:
        click.echo(empty)
    else:
        click.echo(format_table(rows))


def print_record(record: Row, output: str) -> None:
    """Print one record as ``key  value`` lines or as a JSON object."""
    if output == "json":
        click.echo(json.dumps(dict(record), indent=2, default=str))
        return
    flat = _flat(record)
    width = max(len(key) for key in flat)
    for key, value in flat.items():
        click.echo(f"{key:{width}}  {_cell(value)}".rstrip())


def _flat(record: Row, prefix: str = "") -> dict[str, Any]:
    """Flatten nested records; the keys become ``outer.inner``."""
    found: dict[str, Any] = {}
    for key, value in record.items():
        if isinstance(value, Mapping):
            found |= _flat(value, f"{prefix}{key}.") or {f"{prefix}{key}": None}
        else:
            found[f"{prefix}{key}"] = value
    return found


def format_table(rows: Sequence[Row]) -> str:
    """Return a table with minimal column widths; numbers are right-aligned."""
    keys = list(rows[0])
    cells = [[_cell(row[key]) for key in keys] for row in rows]
    widths = [max(len(key), *(len(line[i]) for line in cells)) for i, key in enumerate(keys)]
    numeric = [all(isinstance(row[key], int | float) for row in rows) for key in keys]

    def line(parts: Sequence[str]) -> str:
        padded = (
            part.rjust(width) if is_number else part.ljust(width)
            for part, width, is_number in zip(parts, widths, numeric, strict=True)
        )
        return "  ".join(padded).rstrip()

    return "\n".join([line([key.upper() for key in keys]), *(line(part) for part in cells)])


def print_message(text: str) -> None:
    """Print a line for the user to stderr, so that it does not mix with the output."""
    click.echo(text, err=True)


class ProgressBar:
    """A line on stderr that is overwritten; not shown if stderr is not a terminal."""

    def __init__(self) -> None:
        self._is_shown = False
        self._is_terminal = sys.stderr.isatty()

    def show(self, text: str) -> None:
        """Replace the line."""
        if self._is_terminal:
            self._is_shown = True
            sys.stderr.write(f"\r\x1b[2K{text}")
            sys.stderr.flush()

    def clear(self) -> None:
        """Clear the line."""
        if self._is_shown:
            self._is_shown = False
            sys.stderr.write("\r\x1b[2K")
            sys.stderr.flush()


def _cell(value: object) -> str:
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list | tuple):
        return ", ".join(map(str, value))
    if isinstance(value, dict):
        return ", ".join(f"{key}={item}" for key, item in value.items())
    return str(value)
