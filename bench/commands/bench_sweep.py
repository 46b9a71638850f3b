"""``rhumbline bench sweep``."""

import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from ...cli.output import format_table
from ...client.system_runtime import run
from ...core.protocol.quorum import Quorum
from ..harness.bookie_processes import BookieProcesses
from ..harness.load import Timing
from ..harness.region_processes import RegionProcesses
from ..harness.workload import BenchWorkload
from ..sweep import Sweep, measure_sweep
from .bench_options import number, numbers_of, output_options, whole_number
from .bench_output import collect, print_raw, say

_REGIONS = ("a", "b", "c")
_WARM_SECONDS = 2.0
_RATES = "1000,2000,5000,10000,20000,50000,100000,200000,500000,1000000"


@click.command()
@click.option("--flush", default="0,10", show_default=True,
              help="Flush intervals in ms, separated by commas; 0: immediately.")  # fmt: skip
@click.option("--rates", default=_RATES, show_default=True, help="Records per second, ascending.")
@number("--round-trip", 0, 1000, 0, "Milliseconds between regions. 0: one region only.")
@whole_number("--streams", 1, 10_000, 16, "Number of streams.")
@whole_number("--size", 8, 1 << 20, 128, "Bytes of each record.")
@number("--seconds", 0.1, 600, 5, "Length of one timed window.")
@output_options
def sweep(
    flush: str, rates: str, round_trip: float, streams: int, size: int, seconds: float,
    directory: Path | None, json_file: Path | None,
) -> None:  # fmt: skip
    """Raise the rate of an open loop until it is not sustained.

    A record that is sent late is timed from when it was due, so that no delay is hidden. A reader
    tails one of the streams. With --round-trip there are three regions of one bookie, with copies
    in two of them before an acknowledgement (3/3/2/R2): the records come from region a, and a
    reader in each region tails one of the streams.
    """
    workload = BenchWorkload("sweep", "rate", size, streams=streams, readers=1)
    if round_trip:
        workload = replace(
            workload, region=_REGIONS[0], viewers=_REGIONS[1:], quorum=Quorum(3, 3, 2, 2)
        )
    tried = Sweep(
        workload,
        [int(way) for way in numbers_of(flush, "--flush", has_zero=True)],
        [int(rate) for rate in numbers_of(rates, "--rates")],
    )
    with tempfile.TemporaryDirectory(prefix="rhumbline-bench-", dir=directory) as folder:
        root = Path(folder)
        print_raw(root)
        with RegionProcesses(root, _REGIONS) if round_trip else BookieProcesses(root) as servers:
            if isinstance(servers, RegionProcesses):
                servers.set_round_trip(round_trip)
            timing = Timing(_WARM_SECONDS, seconds, 1)
            found = run(collect(measure_sweep(servers, tried, timing), json_file))
    say()
    say(format_table([_shown(row) for row in found]))
    say()


def _shown(row: dict[str, Any]) -> dict[str, Any]:
    shown = {
        "flush ms": row["flush_ms"],
        "rate": row["rate"],
        "records/s": row["rec_s"],
        "p50 ms": row["p50_ms"],
        "p99 ms": row["p99_ms"],
        "p99.9 ms": row["p999_ms"],
    }
    for key, name in (("del", "delivery"), ("del_b", "in b"), ("del_c", "in c")):
        if key in row:
            shown |= {
                f"{name} p50": row[key]["p50_ms"],
                f"{name} p99": row[key]["p99_ms"],
                f"{name} p99.9": row[key]["p999_ms"],
            }
    return {**shown, "cores servers": row["srv_cpu"], "cores client": row["cli_cpu"]}
