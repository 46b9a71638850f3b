"""The sections of results on the page about capacity, written from the results of a run."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from .capacity_run import Results

BEGIN, END = "<!-- results: begin -->", "<!-- results: end -->"
KINDS = ("get", "list", "create", "put", "delete", "transaction")
"""The kinds of operations in the order of the table."""

_TB = 10**12


def write_section(page: Path, results: Results) -> None:
    """Replace what lies between the marks of a page."""
    before, _, rest = page.read_text().partition(BEGIN)
    _, mark, after = rest.partition(END)
    if not mark:
        raise ValueError(f"{page} has no marks {BEGIN} and {END}")
    page.write_text(f"{before}{BEGIN}\n\n{section(results)}\n{END}{after}")


def section(results: Results) -> str:
    """Return the tables and the links to the plots."""
    return "\n".join(
        [
            "### The modelled cluster",
            "",
            *_table(("what", "value"), _shape(results)),
            "",
            "### Placement",
            "",
            *_table(("what", "value"), _placement(results)),
            "",
            "![Used bytes by bookie before and after growth](capacity-fill.svg)",
            "",
            "### A lost rack, and a lost region",
            "",
            *_table(("what", "rack", "region"), _losses(results)),
            "",
            "![Copied bytes over time after a lost rack and a lost region](capacity-healing.svg)",
            "",
            "### Load on the metadata store",
            "",
            *_table(("operations", *KINDS), _metadata(results)),
            "",
            *_table(("at this size", "value"), _rates(results)),
            "",
            "### Rebalancing after growth",
            "",
            *_table(("what", "value"), _growth(results)),
            "",
        ]
    )


def _table(header: Sequence[str], rows: Iterable[Sequence[object]]) -> Iterator[str]:
    yield f"| {' | '.join(header)} |"
    yield "|---" * len(header) + "|"
    for row in rows:
        yield f"| {' | '.join(map(str, row))} |"


def _shape(results: Results) -> Iterator[tuple[str, str]]:
    shape, run = results["shape"], results["run"]
    yield "bookies", f"{shape['bookies']:,}, each with {shape['disk_bytes'] / _TB:g} TB"
    yield "failure domains", f"{shape['regions']} regions with {shape['racks']} racks each"
    yield "streams", f"{shape['streams']:,}, one ledger each, quorum {shape['quorum']}"
    yield "bytes of a ledger", f"{_size(shape['mean_ledger_bytes'])} on average, exponential"
    rate = shape["repair_bytes_per_second"] / 2**20
    yield (
        "repair",
        f"{shape['repair_processes']} processes with {shape['repair_workers']} workers and "
        f"{rate:g} MiB/s each",
    )
    yield "seed of the run", str(results["seed"])
    yield "cost of the run", f"{run['cpu_s']} s of CPU, {run['peak_mib']} MiB"


def _placement(results: Results) -> Iterator[tuple[str, str]]:
    found = results["placement"]
    copies, size = found["copies"], found["bytes"]
    yield "choices of an ensemble", f"{found['choices']:,}"
    yield "choices per second of CPU", f"{found['choices_per_cpu_s']:,}"
    yield "searches that ended early", f"{found['inexact']:,}"
    yield "ensembles in as many regions as copies", f"{found['in_most_regions']:,}"
    yield "ensembles with two copies in one rack", f"{found['rack_shared']:,}"
    yield "copies of a bookie", _least_to_most(copies, "{:,}".format)
    yield "bytes of a bookie", _least_to_most(size, _size)


def _least_to_most(spread: dict[str, Any], shown: Callable[[float], str]) -> str:
    return (
        f"{shown(spread['least'])} to {shown(spread['most'])}, mean {shown(spread['mean'])}, "
        f"standard deviation {spread['deviation_percent']} %"
    )


def _losses(results: Results) -> Iterator[tuple[str, ...]]:
    both = results["rack"], results["region"]

    def row(name: str, shown: Callable[[dict[str, Any]], object]) -> tuple[str, ...]:
        return name, *(str(shown(loss)) for loss in both)

    yield row("lost bookies", lambda loss: loss["lost_bookies"])
    yield row("ledgers to repair", lambda loss: f"{loss['ledgers']:,}")
    yield row("bytes to copy", lambda loss: _size(loss["bytes"]))
    yield row("decisions per second of CPU", lambda loss: f"{loss['decisions_per_cpu_s']:,.0f}")
    yield row("ledgers without a legal place", lambda loss: loss["unplaced"])
    yield row("until the copying begins", lambda loss: f"{loss['detect_s'] / 60:.1f} min")
    yield row("copying", lambda loss: f"{loss['copy_s'] / 3600:.1f} h")
    yield row("bytes between regions", lambda loss: _size(loss["wan_bytes"]))
    yield row("of these, unavoidable", lambda loss: _size(loss["wan_bytes_least"]))
    yield row(
        "busiest link",
        lambda loss: (
            f"{loss['busiest_link']}: {_size(loss['busiest_link_bytes'])}, "
            f"{8 * loss['busiest_link_bytes'] / max(loss['copy_s'], 1) / 1e9:.2f} Gbit/s"
        ),
    )
    yield row(
        "bookie that receives most",
        lambda loss: (
            f"{_size(loss['busiest_target_bytes'])}, "
            f"{loss['busiest_target_bytes'] / max(loss['copy_s'], 1) / 1e6:.1f} MB/s"
        ),
    )


def _metadata(results: Results) -> Iterator[tuple[str, ...]]:
    metadata = results["metadata"]
    rows = [("one ledger created and closed", metadata["created"])]
    rows.append(("one ledger audited", metadata["audited"]))
    for processes, counts in metadata["repaired"].items():
        rows.append((f"one ledger repaired, processes: {processes}", counts))
    for name, counts in rows:
        yield name, *(f"{counts.get(kind, 0):g}" for kind in KINDS)


def _rates(results: Results) -> Iterator[tuple[str, str]]:
    shape = results["shape"]
    audit_s = shape["audit_s"]
    pause_s = shape["audit_interval_ms"] / 1000
    gets = shape["streams"] * results["metadata"]["audited"]["get"]
    at_once = shape["audit_reads_at_once"]
    read_ms = shape["metadata_read_ms"]
    yield "one audit", f"{audit_s:.0f} s, at {read_ms:g} ms per read, {at_once} at once"
    yield "reads of audits, on average", f"{gets / (audit_s + pause_s):,.0f} per second"
    listed = results["metadata"]["names_listed_by_creation"] / results["metadata"]["bookies"]
    yield (
        "names that are listed to create a ledger",
        f"{listed * shape['bookies']:,.0f} (all writable bookies)",
    )
    for name in ("rack", "region"):
        loss = results[name]
        per_s = loss["ledgers"] / max(loss["copy_s"], 1)
        yield f"ledgers repaired after a lost {name}", f"{per_s:.1f} per second"


def _growth(results: Results) -> Iterator[tuple[str, str]]:
    growth = results["growth"]
    yield "added bookies", f"{growth['added']:,}"
    yield "tolerance", f"{growth['tolerance_percent']} %"
    yield "copies to move", f"{growth['moves']:,}"
    yield "bytes to move", f"{_size(growth['bytes'])}, all within their regions"
    rate = growth["bytes_per_second"] / 2**20
    yield f"time at {rate:g} MiB/s, by the one process that moves", f"{growth['hours']:,.0f} h"
    yield "CPU time of one plan", f"{growth['plan_cpu_s']:.0f} s"
    for name in ("before", "after"):
        fills = growth[name]
        yield (
            f"used share of the emptiest and the fullest disk {name}",
            f"{100 * fills[0]:.1f} % and {100 * fills[-1]:.1f} %",
        )


def _size(count: float) -> str:
    for unit, factor in (("PB", 1e15), ("TB", 1e12), ("GB", 1e9), ("MB", 1e6)):
        if count >= factor:
            return f"{count / factor:.2f} {unit}"
    return f"{count:.0f} bytes"
