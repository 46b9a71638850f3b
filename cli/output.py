"""Output of commands: tables, documents for programs, messages, and progress.

Rows and records have plain values under snake_case keys (see ``output_schema``). A table shows them
for people: ``free_bytes: 1048576`` becomes the column FREE with ``1.0 MiB``.

Under ``--output json`` or ``jsonl``, standard output holds nothing but the document, and each line
on stderr is a JSON object as well: a message, progress, or the error that ended the command.
"""

import asyncio
import json
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Self

import click

from ..client.units import show_bytes, show_ms
from .output_form import (
    JSON,
    TABLE,
    iso_time,
    output_option,
    print_event,
    print_message,
    selected_form,
)
from .output_schema import faults, schema_of

if TYPE_CHECKING:  # rich is imported by the commands that print a table
    from rich.progress import Progress, TaskID

__all__ = [
    "JSON",
    "TABLE",
    "ProgressBar",
    "DocumentWriter",
    "format_table",
    "iso_time",
    "output_option",
    "print_document",
    "print_done",
    "print_event",
    "print_message",
    "print_record",
    "print_rows",
    "print_table",
]

Row = Mapping[str, Any]

_UNLIMITED = 1_000_000  # columns of output that is not for a terminal
_EVENT_S = 1.0
"""Minimum time between two lines of progress for a program."""
_QUIET_S = 0.5
"""Time that a command may take before it shows progress on a terminal."""


def print_rows(rows: Sequence[Row], output: str, *, empty: str) -> None:
    """Print rows with equal keys as a table or as JSON; ``empty`` replaces an empty table."""
    if output != TABLE:
        print_document(list(map(dict, rows)), output)
    elif not rows:
        click.echo(empty)
    else:
        print_table(rows)


def print_record(record: Row, output: str) -> None:
    """Print one record as ``key  value`` lines or as a JSON object."""
    if output != TABLE:
        print_document(dict(record), output)
        return
    lines = [(_heading(key), _cell(value, key)) for key, value in _flat(record).items()]
    click.echo(_rendered((("", False), ("", False)), lines, is_terminal=sys.stdout.isatty()))


def print_done(record: Row, output: str, text: str) -> None:
    """Report a change: ``text`` for people, on stderr; ``record`` and the text for programs."""
    if output == TABLE:
        print_message(text)
    else:
        print_document({**record, "message": text}, output)


def print_document(document: Any, output: str) -> None:  # noqa: ANN401 - any JSON value
    """Print a JSON value that the schema of the current command allows; jsonl: a line per row."""
    _check_document(document)
    if output == JSON:
        click.echo(json.dumps(document, indent=2))
    else:
        for row in document if isinstance(document, list) else [document]:
            click.echo(json.dumps(row))


class DocumentWriter:
    """Prints rows as they become known, for programs: a list under json, lines under jsonl."""

    def __init__(self, output: str) -> None:
        assert output != TABLE
        self._is_list = output == JSON
        self._is_empty = True

    def write(self, rows: Iterable[Row]) -> None:
        """Print rows. Only the first one is compared with the schema."""
        lines = []
        for row in rows:
            if self._is_empty:
                _check_document([row])
            before = ("[\n" if self._is_empty else ",\n") if self._is_list else ""
            lines.append(before + json.dumps(row) + ("" if self._is_list else "\n"))
            self._is_empty = False
        sys.stdout.write("".join(lines))
        sys.stdout.flush()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        """Complete the list, also after an error: the exit code says that rows are missing."""
        if self._is_list:
            sys.stdout.write("[]\n" if self._is_empty else "\n]\n")
            sys.stdout.flush()


def _check_document(document: object) -> None:
    context = click.get_current_context(silent=True)
    if context is None:
        return
    schema = schema_of(context.command.callback)
    assert schema is not None, f"{context.command_path} does not declare what it prints"
    found = list(faults(document, schema))
    assert not found, f"{context.command_path}: {'; '.join(found[:5])}"


def print_table(rows: Sequence[Row]) -> None:
    """Print rows with equal keys; on a terminal in its width and with bold headings."""
    click.echo(_table(rows, is_terminal=sys.stdout.isatty()))


def format_table(rows: Sequence[Row]) -> str:
    """Return a table with minimal column widths; numbers are right-aligned."""
    return _table(rows, is_terminal=False)


def _table(rows: Sequence[Row], *, is_terminal: bool) -> str:
    columns = [
        (_heading(key).upper(), all(isinstance(row[key], int | float) for row in rows))
        for key in rows[0]
    ]
    lines = [[_cell(value, key) for key, value in row.items()] for row in rows]
    return _rendered(columns, lines, is_terminal=is_terminal)


def _rendered(
    columns: Iterable[tuple[str, bool]], lines: Iterable[Sequence[str]], *, is_terminal: bool
) -> str:
    """Return lines of cells below headings; a column is (heading, whether it is right-aligned).

    What is not for a terminal is never wrapped, so that programs can read it line by line.
    """
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    headings = list(columns)
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="bold")
    table.show_header = any(heading for heading, _ in headings)
    for heading, is_right in headings:
        table.add_column(Text(heading), justify="right" if is_right else "left", overflow="fold")
    for cells in lines:
        table.add_row(*map(Text, cells))
    width = None if is_terminal else _UNLIMITED
    console = Console(width=width, force_terminal=is_terminal)
    with console.capture() as capture:
        console.print(table)
    return "\n".join(line.rstrip() for line in capture.get().splitlines())


def _flat(record: Row, prefix: str = "") -> dict[str, Any]:
    """Flatten nested records; the keys become ``outer.inner``."""
    found: dict[str, Any] = {}
    for key, value in record.items():
        if isinstance(value, Mapping):
            found |= _flat(value, f"{prefix}{key}.") or {f"{prefix}{key}": None}
        else:
            found[f"{prefix}{key}"] = value
    return found


class ProgressBar:
    """Progress on stderr, which disappears at the end of its ``with`` block.

    On a terminal it appears when the block has lasted for half a second. For programs it is a JSON
    line, at most one per second. Otherwise it is not shown.
    """

    def __init__(self) -> None:
        self._is_terminal = self.is_shown() and selected_form() == TABLE
        self._since = time.monotonic()
        self._event_at = self._since
        self._latest: tuple[str, float, float | None] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._progress: Progress | None = None
        self._task: TaskID | None = None

    @staticmethod
    def is_shown() -> bool:
        """True if stderr is a terminal."""
        return sys.stderr.isatty()

    def show(self, text: str, done: float = 0, total: float | None = None) -> None:
        """Replace the text; a bar shows ``done`` of ``total`` if the total is known."""
        if selected_form() != TABLE:
            self._print_event(text, done, total)
        if not self._is_terminal:
            return
        self._latest = text, done, total
        waits_s = self._since + _QUIET_S - time.monotonic()
        if waits_s <= 0 or self._progress is not None:
            self._draw()
        elif self._timer is None:
            with suppress(RuntimeError):  # without an event loop, the next call draws
                self._timer = asyncio.get_running_loop().call_later(waits_s, self._draw)

    def _print_event(self, text: str, done: float, total: float | None) -> None:
        now = time.monotonic()
        if now - self._event_at >= _EVENT_S:
            self._event_at = now
            print_event("progress", text=text, done=done, total=total)

    def _draw(self) -> None:
        if self._latest is None:
            return
        if self._progress is None:
            self._progress = _new_progress()
            self._progress.start()
            self._task = self._progress.add_task("")
        assert self._task is not None
        text, done, total = self._latest
        self._progress.update(
            self._task, description=text, completed=done, total=total, refresh=True
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.clear()

    def clear(self) -> None:
        """Remove it from the screen until it is shown again."""
        self._latest = None
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._progress is not None:
            self._progress.stop()
            self._progress = self._task = None


def _new_progress() -> "Progress":
    from rich.console import Console
    from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    return Progress(
        SpinnerColumn(),
        TextColumn("{task.description}", markup=False),
        BarColumn(bar_width=30),
        TimeElapsedColumn(),
        console=Console(stderr=True),
        transient=True,
    )


def _heading(key: str) -> str:
    """Return the words of a key, without the unit that the cell shows."""
    for unit in ("_bytes", "_ms", "_bytes_per_second"):
        key = key.removesuffix(unit)
    return key.replace("_", " ")


def _cell(value: object, key: str = "") -> str:
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int | float) and (size := _with_unit(value, key)):
        return size
    if isinstance(value, list | tuple):
        return ", ".join(map(str, value))
    if isinstance(value, dict):
        return ", ".join(f"{key}={item}" for key, item in value.items())
    return str(value)


def _with_unit(value: float, key: str) -> str:
    if key.endswith("bytes_per_second"):
        return f"{show_bytes(value)}/s"
    if key == "bytes" or key.endswith("_bytes"):
        return show_bytes(value)
    return show_ms(value) if key.endswith("_ms") else ""
