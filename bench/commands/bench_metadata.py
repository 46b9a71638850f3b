"""``rhumbline bench metadata``: metadata stores, with results for the page that compares them."""

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click

from ...cli.output import format_table
from ...client.system_runtime import run
from ..metadata.sitting import (
    PARTS,
    STORES,
    SittingSize,
    conditions,
    measure_store,
    measure_uri,
    merge_results,
)
from .bench_options import number, whole_number
from .bench_output import emit, reports, say


@click.command()
@click.argument("uris", nargs=-1, metavar="[URI]...")
@click.option("--store", "stores", multiple=True, type=click.Choice(STORES),
              help="Start a server of this kind and measure it. May be repeated.")  # fmt: skip
@click.option("--part", "parts", multiple=True, type=click.Choice(PARTS),
              help="What to measure. May be repeated. [default: all]")  # fmt: skip
@number("--seconds", 0.05, 600, 3, "Length of one timed window.")
@whole_number("--watches", 1, 1_000_000, 10_000, "Watched nodes.")
@whole_number("--children", 1, 10_000_000, 100_000, "Children of one node.")
@number("--fault", 0.1, 600, 3, "Length of a fault in seconds.")
@whole_number("--rtt", 0, 2_000, 80, "Round trip between regions in ms.")
@click.option("--json", "json_file", type=click.Path(path_type=Path),
              help="Write the results into this file; others in it are kept.")  # fmt: skip
@reports
def metadata(
    uris: tuple[str, ...], stores: tuple[str, ...], parts: tuple[str, ...], seconds: float,
    watches: int, children: int, fault: float, rtt: int, json_file: Path | None,
) -> None:  # fmt: skip
    """Measure metadata stores: operations, watches, listings, faults, and three regions.

    A store is named by its URI, or started here by --store. Faults and regions are measured only of
    stores that are started here. The nodes of the benchmark are removed afterwards.
    """
    size = SittingSize(seconds, watches, children, fault, rtt)
    chosen = parts or PARTS
    for store in stores:
        with tempfile.TemporaryDirectory(prefix="rhumbline-bench-") as folder:
            found = run(measure_store(store, Path(folder), chosen, size, say))
        _show(store, found, json_file)
    for uri in uris:
        scheme = uri.partition(":")[0]
        found = run(measure_uri(uri, chosen, size, say))
        _show(scheme, {**conditions(size), **found}, json_file)


def _show(store: str, found: dict[str, Any], json_file: Path | None) -> None:
    emit([{"w": store, "results": found}])
    say(format_table(list(_rows(store, found))))
    if json_file is not None:
        merge_results(json_file, store, found)


def _rows(store: str, found: dict[str, Any]) -> Iterator[dict[str, Any]]:
    for part in PARTS:
        for name, row in _flat(found.get(part, {})):
            shown = ", ".join(f"{key} {value}" for key, value in row.items())
            yield {"store": store, "measured": f"{part}: {name}" if name else part, "": shown}


def _flat(part: dict[str, Any], prefix: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the innermost dictionaries with the path of their names."""
    if part and not any(isinstance(value, dict) for value in part.values()):
        yield prefix, part
        return
    for name, below in part.items():
        yield from _flat(below, f"{prefix}, {name}" if prefix else name)
