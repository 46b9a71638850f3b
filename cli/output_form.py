"""The output format of this process's command, and its lines on stderr."""

import json
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, TypeVar

import click

Command = TypeVar("Command", bound=Callable[..., Any])

TABLE, JSON, JSONL = "table", "json", "jsonl"


class _Selected:
    """The output format of this process's command."""

    form = TABLE


def select_form(form: str) -> None:
    """Set the format of messages, progress and errors."""
    _Selected.form = form


def selected_form() -> str:
    """Return the format of messages, progress and errors."""
    return _Selected.form


def output_option(command: Command, *, is_passed: bool = True) -> Command:
    """Add ``--output``, which is passed on as ``output`` unless ``is_passed`` is False."""

    def select(_context: click.Context, _option: click.Parameter, form: str) -> str:
        select_form(form)
        return form

    return click.option(
        "-o",
        "--output",
        type=click.Choice([TABLE, JSON, JSONL]),
        default=TABLE,
        show_default=True,
        is_eager=True,  # errors of other options are reported in this format
        callback=select,
        expose_value=is_passed,
        help="Output format; json is one document, jsonl a line for each row.",
    )(command)


def iso_time(wall_ms: float | None) -> str | None:
    """Return a time in ISO 8601 in UTC, to the millisecond; None for None."""
    if wall_ms is None:
        return None
    text = datetime.fromtimestamp(wall_ms / 1000, UTC).isoformat(timespec="milliseconds")
    return text.replace("+00:00", "Z")


def print_message(text: str) -> None:
    """Print a line for the user to stderr, so that it does not mix with the output."""
    if _Selected.form == TABLE:
        click.echo(text, err=True)
    else:
        print_event("message", text=text)


def print_event(event: str, **fields: Any) -> None:  # noqa: ANN401 - JSON values
    """Print an event as a JSON line to stderr."""
    click.echo(json.dumps({"event": event, **fields}), err=True)
