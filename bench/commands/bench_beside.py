"""``rhumbline bench beside``."""

import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from ...cli.output import format_table
from ...client.system_runtime import run
from ..beside.catch_up_readers import measure_catch_up_readers
from ..beside.compaction import (
    COMPACTING,
    KEEPING,
    measure_while_compacting,
    measure_without_compaction,
)
from ..beside.faults import measure_faults
from ..beside.foreground import WORKLOADS
from ..harness.bookie_processes import BookieProcesses
from .bench_options import chosen, number, numbers_of, output_options, whole_number
from .bench_output import collect, print_raw, say

PARTS = ("readers", "compaction", "faults")
_MIB = 1 << 20


@click.command()
@click.option(
    "--only", help="Parts, separated by commas: readers, compaction, faults. [default: all]"
)
@click.option("--work", help="Workloads, separated by commas: W1b, W3-1000, W2-1. [default: all]")
@click.option("--readers", default="1,8,64", show_default=True, help="Numbers of readers.")
@whole_number("--mib", 16, 1 << 20, 1024, "MiB that each bookie holds for readers or compaction.")
@whole_number("--size", 128, 1 << 20, 4096, "Bytes of each of those entries.")
@number("--seconds", 0.1, 600, 5, "Length of one timed window.")
@whole_number("--repetitions", 1, 100, 2, "Windows of each mode.")
@output_options
def beside(
    only: str | None, work: str | None, readers: str, mib: int, size: int, seconds: float,
    repetitions: int, json_file: Path | None, directory: Path | None,
) -> None:  # fmt: skip
    """Measure the latency of writers and tailing readers beside other work.

    W1b: 10,000 records/s over 16 streams, flushed every 10 ms, and a tailing reader of one of them.
    W3-1000: delivery at 1,000 records/s, flushed every 1 ms. W2-1: one outstanding record. Beside
    them run readers that catch up, with the page cache warm and dropped; the compaction of a
    backlog; a bookie that is slow, hung (SIGSTOP) or killed. Quiet windows alternate with the
    others, but come before those with compaction.
    """
    load: Mapping[str, Any] = {
        "bytes_held": mib * _MIB, "entry_size": size,
        "seconds": seconds, "repetitions": repetitions,
    }  # fmt: skip
    known = {workload.name: workload for workload in WORKLOADS}
    workloads = [known[name] for name in chosen(known, "workload", work)]
    parts = chosen(PARTS, "part", only)
    counts = [int(count) for count in numbers_of(readers, "--readers")]
    found: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory(prefix="rhumbline-bench-", dir=directory) as root:
        print_raw(Path(root))
        for part in parts:
            below = Path(root) / part
            below.mkdir()
            cluster = BookieProcesses(below, settings=KEEPING if part == "compaction" else None)
            with cluster as servers:
                if part == "readers":
                    rows = measure_catch_up_readers(servers, workloads, counts, **load)
                elif part == "faults":
                    rows = measure_faults(servers, workloads, seconds, repetitions)
                else:
                    rows = measure_without_compaction(servers, workloads, **load)
                found += run(collect(rows, json_file))
                if part == "compaction":
                    servers.restart(COMPACTING)
                    rows = measure_while_compacting(servers, workloads, seconds, repetitions)
                    found += run(collect(rows, json_file))
    say()
    say(format_table([_shown(row) for row in found]))
    say()


def _shown(row: dict[str, Any]) -> dict[str, Any]:
    delivery = row.get("del", {})
    return {
        "work": row["w"],
        "beside": row["beside"],
        "records/s": row.get("rec_s"),
        "p50 ms": row.get("p50_ms"),
        "p99 ms": row.get("p99_ms"),
        "p99.9 ms": row.get("p999_ms"),
        "delivery p50": delivery.get("p50_ms"),
        "delivery p99": delivery.get("p99_ms"),
        "delivery p99.9": delivery.get("p999_ms"),
        "readers MB/s": row.get("readers_MB_s"),
        "slowest": row.get("slowest_reader_MB_s"),
        "fastest": row.get("fastest_reader_MB_s"),
        "sorted MB/s": row.get("sorted_MB_s"),
        "logs left": row.get("sealed_logs_left"),
        "cores servers": row.get("srv_cpu"),
    }
