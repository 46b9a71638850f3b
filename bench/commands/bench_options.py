"""Options that several benchmarks have."""

from collections.abc import Callable, Collection
from math import inf
from pathlib import Path
from typing import Any

import click

from ...core.protocol.errors import InvalidArgumentError
from .bench_output import reports

Command = Callable[..., Any]


def whole_number(
    name: str, low: int, high: int, default: int | None, help_text: str
) -> Callable[[Command], Command]:
    """Return an option for a whole number; without ``default`` the text says what then holds."""
    return _ranged(name, click.IntRange(low, high), default, help_text)


def number(
    name: str, low: float, high: float, default: float, help_text: str
) -> Callable[[Command], Command]:
    """Return an option for a number."""
    return _ranged(name, click.FloatRange(low, high), default, help_text)


def numbers_of(text: str, option: str, *, has_zero: bool = False) -> list[float]:
    """Return the positive numbers of an option that separates them by commas.

    With ``has_zero`` 0 is allowed too. Raises InvalidArgumentError.
    """
    try:
        found = [float(one) for one in text.split(",")]
    except ValueError:
        found = []
    if not found or not all((has_zero and one == 0) or 0 < one < inf for one in found):
        raise InvalidArgumentError(f"{option} {text}: expected positive numbers, as in 1,10,40")
    return found


def _ranged(
    name: str, kind: click.IntRange | click.FloatRange, default: float | None, help_text: str
) -> Callable[[Command], Command]:
    return click.option(
        name, type=kind, default=default, show_default=default is not None, help=help_text
    )


def chosen(known: Collection[str], kind: str, only: str | None) -> list[str]:
    """Return the names in ``only``, which are separated by commas; all known ones if it is None.

    Raises InvalidArgumentError if one is not known.
    """
    names = list(known) if only is None else [name.strip() for name in only.split(",")]
    for name in names:
        if name not in known:
            raise InvalidArgumentError(
                f"unknown {kind} {name}; the {kind}s are: {', '.join(known)}"
            )
    return names


def output_options(command: Command) -> Command:
    """Add the options that say where a benchmark writes."""
    for option in (
        click.option("--directory", type=click.Path(path_type=Path, exists=True, file_okay=False),
                     help="Directory for the bookies' data. [default: the temporary directory]"),
        click.option("--json", "json_file", type=click.Path(path_type=Path),
                     help="Also append the results to this file as JSON lines."),
    ):  # fmt: skip
        command = option(command)
    return reports(command)
