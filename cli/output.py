"""What commands print: tables for people, JSON for programs, progress on a terminal only."""

import json
import sys
from collections.abc import Mapping, Sequence
from typing import Any

import click

Row = Mapping[str, Any]


def print_rows(rows: Sequence[Row], output: str, *, empty: str) -> None:
    """Rows with the same keys, as a table or as a JSON list; ``empty`` says what is not there."""
    if output == "json":
        click.echo(json.dumps(list(rows), indent=2, default=str))
    elif not rows:
        click.echo(empty)
    else:
        click.echo(format_table(rows))


def print_record(record: Row, output: str) -> None:
    """One thing, as ``key  value`` lines or as a JSON object."""
    if output == "json":
        click.echo(json.dumps(dict(record), indent=2, default=str))
        return
    flat = _flat(record)
    width = max(len(key) for key in flat)
    for key, value in flat.items():
        click.echo(f"{key:{width}}  {_cell(value)}".rstrip())


def _flat(record: Row, prefix: str = "") -> dict[str, Any]:
    """Records within a record get names like ``outer.inner``."""
    found: dict[str, Any] = {}
    for key, value in record.items():
        if isinstance(value, Mapping):
            found |= _flat(value, f"{prefix}{key}.") or {f"{prefix}{key}": None}
        else:
            found[f"{prefix}{key}"] = value
    return found


def format_table(rows: Sequence[Row]) -> str:
    """Columns as wide as they need to be; numbers to the right."""
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


def say(text: str) -> None:
    """A line for the person at the terminal (stderr, so that it never mixes with the output)."""
    click.echo(text, err=True)


class ProgressBar:
    """One line on stderr that is overwritten; nothing when stderr is no terminal."""

    def __init__(self) -> None:
        self._is_shown = False
        self._is_terminal = sys.stderr.isatty()

    def show(self, text: str) -> None:
        """Replaces the line."""
        if self._is_terminal:
            self._is_shown = True
            sys.stderr.write(f"\r\x1b[2K{text}")
            sys.stderr.flush()

    def clear(self) -> None:
        """Takes the line away."""
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
