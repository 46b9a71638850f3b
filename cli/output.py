"""Output of commands: tables, JSON for programs, and progress on terminals."""

import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:  # rich is imported by the commands that print a table
    from rich.progress import Progress, TaskID

Row = Mapping[str, Any]

_UNLIMITED = 1_000_000  # columns of output that is not for a terminal


def print_rows(rows: Sequence[Row], output: str, *, empty: str) -> None:
    """Print rows with equal keys as a table or a JSON list; ``empty`` replaces an empty table."""
    if output == "json":
        click.echo(json.dumps(list(rows), indent=2, default=str))
    elif not rows:
        click.echo(empty)
    else:
        print_table(rows)


def print_record(record: Row, output: str) -> None:
    """Print one record as ``key  value`` lines or as a JSON object."""
    if output == "json":
        click.echo(json.dumps(dict(record), indent=2, default=str))
        return
    flat = _flat(record)
    lines = [(key, _cell(value)) for key, value in flat.items()]
    click.echo(_rendered((("", False), ("", False)), lines, is_terminal=sys.stdout.isatty()))


def print_table(rows: Sequence[Row]) -> None:
    """Print rows with equal keys; on a terminal in its width and with bold headings."""
    click.echo(_table(rows, is_terminal=sys.stdout.isatty()))


def format_table(rows: Sequence[Row]) -> str:
    """Return a table with minimal column widths; numbers are right-aligned."""
    return _table(rows, is_terminal=False)


def _table(rows: Sequence[Row], *, is_terminal: bool) -> str:
    columns = [
        (key.upper(), all(isinstance(row[key], int | float) for row in rows)) for key in rows[0]
    ]
    lines = [[_cell(value) for value in row.values()] for row in rows]
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


def print_message(text: str) -> None:
    """Print a line for the user to stderr, so that it does not mix with the output."""
    click.echo(text, err=True)


class ProgressBar:
    """Progress on stderr, which disappears at the end of its ``with`` block.

    It is not shown if stderr is not a terminal.
    """

    def __init__(self) -> None:
        self._is_terminal = self.is_shown()
        self._progress: Progress | None = None
        self._task: TaskID | None = None

    @staticmethod
    def is_shown() -> bool:
        """True if stderr is a terminal."""
        return sys.stderr.isatty()

    def show(self, text: str, done: float = 0, total: float | None = None) -> None:
        """Replace the text; a bar shows ``done`` of ``total`` if the total is known."""
        if not self._is_terminal:
            return
        if self._progress is None:
            self._progress = _new_progress()
            self._progress.start()
            self._task = self._progress.add_task("")
        assert self._task is not None
        self._progress.update(
            self._task, description=text, completed=done, total=total, refresh=True
        )

    def __enter__(self) -> "ProgressBar":
        return self

    def __exit__(self, *error: object) -> None:
        self.clear()

    def clear(self) -> None:
        """Remove it from the screen until it is shown again."""
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
