"""``rhumbline bench`` for several bookies and regions: lost, drained or slow ones, far readers."""

import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from ...cli.output import format_table
from ...client.system_runtime import run
from ...client.units import parse_bytes, parse_ms, show_bytes
from ...core.protocol.errors import InvalidArgumentError
from ...core.protocol.quorum import Quorum
from ..bookies.drained_bookie import BOOKIES as DRAIN_BOOKIES
from ..bookies.drained_bookie import VIEWER as DRAIN_VIEWER
from ..bookies.drained_bookie import measure_drain
from ..bookies.lost_bookie import REGIONS as LOSS_REGIONS
from ..bookies.lost_bookie import LossWorkload, measure_loss
from ..bookies.slow_bookie import EACH as SLOW_EACH
from ..bookies.slow_bookie import REGIONS as SLOW_REGIONS
from ..bookies.slow_bookie import SlowWorkload, measure_slow_bookie
from ..bookies.slow_bookie_plot import plot
from ..harness.bookie_processes import REGION
from ..harness.region_processes import RegionProcesses
from ..readers.far_reading import BATCH, FarWorkload, measure_far_reading
from ..readers.far_reading import REGION as FAR_REGION
from ..readers.far_reading import VIEWER as FAR_VIEWER
from ..readers.returning import REGIONS as COPY_REGIONS
from ..readers.returning import VIEWER, ReturningWorkload, measure_returning
from ..regions import RegionWorkload, fsync_samples, measure_regions
from ..speculation import SpeculationWorkload, measure_speculation
from .bench_options import number, numbers_of, output_options, whole_number
from .bench_output import collect, print_raw, say

_FSYNC_SAMPLES = 500


# --- writing across regions -----------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Deployment:
    regions: tuple[str, ...]
    each: int
    quorum: Quorum
    streams: int
    rate: int
    """Default records per second of the open loop."""
    loses: bool
    request_timeout_ms: int
    warm_seconds: float
    """Seconds until a closed loop with this many streams is in a steady state."""


_DEPLOYMENTS = {
    "D1": _Deployment(
        ("a", "b", "c"),
        1,
        Quorum(3, 3, 2, 2),
        1_000,
        rate=1_000,
        loses=True,
        request_timeout_ms=5_000,
        warm_seconds=2,
    ),
    "D2": _Deployment(
        ("a", "b"),
        5,
        Quorum(10, 10, 6, 2),
        10_000,
        rate=200,
        loses=False,
        request_timeout_ms=60_000,
        warm_seconds=10,
    ),
}


@click.command()
@click.option("--only", help="Deployments to measure, separated by commas: D1,D2. [default: all]")
@number("--round-trip", 1, 1000, 80, "Milliseconds between any two regions.")
@whole_number(
    "--streams", 1, 100_000, None, "Number of streams. [default: 1,000 (D1), 10,000 (D2)]"
)
@whole_number(
    "--rate",
    1,
    1_000_000,
    None,
    "Records per second of the open loop, over all streams. [default: 1,000 (D1), 200 (D2)]",
)
@whole_number("--size", 1, 1 << 20, 1024, "Bytes of each record.")
@number("--seconds", 0.1, 600, 5, "Length of one timed window.")
@output_options
def regions(
    only: str | None, round_trip: float, streams: int | None, rate: int | None, size: int,
    seconds: float, directory: Path | None, json_file: Path | None,
) -> None:  # fmt: skip
    """Measure immediate appends across regions: latency, throughput, one region cut off.

    D1: three regions of one bookie, 3/3/2/R2, 1,000 streams. D2: two regions of five bookies,
    10/10/6/R2, 10,000 streams of which most are idle at any time. Latencies are those of the open
    loop, compared with round trip + fsync and with the prediction of `plan`. Afterwards some
    streams are read back.
    """
    names = list(_DEPLOYMENTS) if only is None else [name.strip() for name in only.split(",")]
    for name in names:
        if name not in _DEPLOYMENTS:
            raise InvalidArgumentError(
                f"unknown deployment {name}; the deployments are: {', '.join(_DEPLOYMENTS)}"
            )
    found = []
    for name in names:
        deployed = _DEPLOYMENTS[name]
        with tempfile.TemporaryDirectory(prefix="rhumbline-bench-", dir=directory) as folder:
            root = Path(folder)
            print_raw(root)
            fsync_ms = fsync_samples(root, _FSYNC_SAMPLES)
            work = RegionWorkload(
                name, deployed.quorum, round_trip, streams or deployed.streams, size,
                rate or deployed.rate, seconds, min(deployed.warm_seconds, 4 * seconds),
                deployed.loses, deployed.request_timeout_ms,
            )  # fmt: skip
            with RegionProcesses(root, deployed.regions, each=deployed.each) as servers:
                found += run(collect(measure_regions(servers, work, fsync_ms), json_file))
    say()
    say(format_table([_shown_of_distant(row) for row in found if "p50_ms" in row]))
    say()
    say(format_table([_shown_of_plan(row) for row in found if "bound_ms" in row]))
    for row in found:
        if row["w"].endswith("-open"):
            say(
                f"\n{row['w']}: {row['streams']:,} streams created and opened in "
                f"{row['seconds']} s; memory of the bookies: {row['srv_rss']:,} MiB, "
                f"of the client: {row['cli_rss']:,} MiB"
            )
        if "all_acknowledged_after_s" in row:
            say(
                f"\n{row['w']}: a record in each stream, appended at the cut, was acknowledged "
                f"after {row['all_acknowledged_after_s']} s"
            )
        if "records" in row:
            say(f"\n{row['w']}: {row['records']:,} records, each read exactly once")


def _shown_of_distant(row: dict[str, Any]) -> dict[str, Any]:
    return {
        "work": row["w"],
        "quorum": row["quorum"],
        "streams": row["streams"],
        "outstanding": f"{row['rate']}/s" if row["rate"] else row["window"],
        "records/s": row["rec_s"],
        "MB/s": row["MB_s"],
        "p50 ms": row["p50_ms"],
        "p99 ms": row["p99_ms"],
        "cpu s/M servers": row["srv_cpu_per_M"],
        "cpu s/M client": row["cli_cpu_per_M"],
    }


def _shown_of_plan(row: dict[str, Any]) -> dict[str, Any]:
    return {
        "work": row["w"],
        "p50 ms": row["p50_ms"],
        "round trip + fsync": row["bound_ms"],
        "ratio": row["of_bound"],
        "plan p50": row["plan_p50_ms"],
        "ratio p50": row["of_plan_p50"],
        "p99 ms": row["p99_ms"],
        "plan p99": row["plan_p99_ms"],
        "ratio p99": row["of_plan_p99"],
    }


# --- reading with a slow replica -----------------------------------------------------------------


@click.command()
@number("--round-trip", 1, 1000, 20, "Milliseconds between any two regions.")
@number("--slow", 1, 4000, 200, "Round trip to the local replica while it is slow.")
@whole_number("--entries", 1, 1_000_000, 2_000, "Entries in the ledger that is read.")
@whole_number("--size", 1, 1 << 20, 1024, "Bytes of each record.")
@whole_number("--rate", 1, 100_000, 200, "Reads per second, in an open loop.")
@number("--seconds", 0.1, 600, 10, "Length of one timed window; it begins with the fault.")
@output_options
def speculation(
    round_trip: float, slow: float, entries: int, size: int, rate: int, seconds: float,
    directory: Path | None, json_file: Path | None,
) -> None:  # fmt: skip
    """Measure reads in a region whose local replica is slow, or stopped by SIGSTOP.

    Three regions of one bookie, 3/3/2/R2. With speculation a second replica gets the request after
    the usual latency, within a budget; without it every read waits for its timeout (5 s).
    """
    work = SpeculationWorkload(round_trip, slow, entries, size, rate, seconds)
    with tempfile.TemporaryDirectory(prefix="rhumbline-bench-", dir=directory) as folder:
        root = Path(folder)
        print_raw(root)
        with RegionProcesses(root, ("a", "b", "c"), slows_local=True) as servers:
            found = run(collect(measure_speculation(servers, work), json_file))
    say()
    say(format_table([_shown_of_speculation(row) for row in found]))


def _shown_of_speculation(row: dict[str, Any]) -> dict[str, Any]:
    return {
        "local replica": row["w"].removeprefix("local-").replace("none", "healthy"),
        "speculation": "yes" if row["peer"] == "speculation" else "no",
        "reads": row["reads"],
        "p50 ms": row["p50_ms"],
        "p99 ms": row["p99_ms"],
        "p99.9 ms": row["p999_ms"],
        "max ms": row["max_ms"],
        "extra requests %": row["extra_percent"],
        "denied": row["denied"],
    }


# --- losing a bookie ------------------------------------------------------------------------------


@click.command()
@click.option("--size", default="5GiB", show_default=True, help="Payload on the lost bookie.")
@click.option(
    "--bytes-per-second",
    default="50MiB",
    show_default=True,
    help="Limit of the copying rate of repair.",
)
@whole_number(
    "--streams",
    1,
    10_000,
    16,
    "Streams written during repair, at --rate records of 1 KiB per second in total.",
)
@whole_number("--rate", 1, 100_000, 200, "Records per second, over all streams.")
@number("--seconds", 0.1, 600, 10, "Length of the measurements before and after the repair.")
@click.option(
    "--replace-after",
    default="30s",
    show_default=True,
    help="Time after which a writer replaces a bookie that is down.",
)
@number("--seconds-max", 1, 86_400, 3_600, "Fail if replication is not complete by then.")
@output_options
def lost(
    size: str, bytes_per_second: str, streams: int, rate: int, seconds: float, replace_after: str,
    seconds_max: float, directory: Path | None, json_file: Path | None,
) -> None:  # fmt: skip
    """Kill a bookie permanently: time to full replication, bytes moved, effect on writers.

    Three regions of one bookie, 3/3/2/R2, and a spare one. Needs about five times --size of disk
    space.
    """
    work = LossWorkload(
        parse_bytes(size), parse_bytes(bytes_per_second), streams, rate, seconds, seconds_max,
        parse_ms(replace_after),
    )  # fmt: skip
    with tempfile.TemporaryDirectory(prefix="rhumbline-bench-", dir=directory) as folder:
        root = Path(folder)
        print_raw(root)
        with RegionProcesses(root, LOSS_REGIONS, spares=LOSS_REGIONS[-1:], has_links=False) as b:
            found = run(collect(measure_loss(b, root, work), json_file))
    by_name = {row["w"]: row for row in found}
    during, filled = by_name["during"], by_name["fill"]
    say()
    say(format_table([_shown_of_loss(by_name[n]) for n in ("before", "during", "after")]))
    say(
        f"\nlost {show_bytes(filled['bytes'])}; fully replicated after {during['seconds']} s "
        f"({during['open_ledgers_too_seconds']} s including open ledgers), "
        f"{show_bytes(during['moved_bytes'])} moved ({during['moved_MB_s']} MB/s); "
        f"at risk afterwards, entries by region: {during['entries_at_risk']}"
    )


def _shown_of_loss(row: dict[str, Any]) -> dict[str, Any]:
    return {
        "writers": f"{row['w']} repair",
        "appends": row["appends"],
        "p50 ms": row["p50_ms"],
        "p99 ms": row["p99_ms"],
        "p99.9 ms": row["p999_ms"],
        "max ms": row["max_ms"],
    }


@click.command()
@whole_number("--ledgers", 1, 10_000_000, 1_000, "Number of ledgers.")
@whole_number("--entries", 1, 1_000_000, 1, "Entries of each ledger.")
@whole_number("--size", 1, 1 << 20, 1024, "Bytes of each entry.")
@whole_number("--workers", 1, 1_000, 32, "Number of ledgers that are repaired at the same time.")
@number("--round-trip", 0, 1000, 0, "Milliseconds between the repair process and the bookies.")
@number("--seconds-max", 1, 86_400, 3_600, "Fail if a step is not done by then.")
@output_options
def drain(
    ledgers: int, entries: int, size: int, workers: int, round_trip: float, seconds_max: float,
    directory: Path | None, json_file: Path | None,
) -> None:  # fmt: skip
    """Drain a bookie with many small ledgers: time and resources of the audit and of the repair.

    Four bookies, 3/3/2: about three quarters of the ledgers have a copy on the drained bookie.
    """
    with tempfile.TemporaryDirectory(prefix="rhumbline-bench-", dir=directory) as folder:
        root = Path(folder)
        print_raw(root)
        with RegionProcesses(
            root, [REGION], each=DRAIN_BOOKIES, viewers=[DRAIN_VIEWER], has_links=round_trip > 0
        ) as servers:
            servers.set_round_trip(round_trip)
            rows = measure_drain(
                servers, root, ledgers, entries, size, workers=workers,
                repair_region=DRAIN_VIEWER if round_trip else REGION, seconds_max=seconds_max,
            )  # fmt: skip
            found = run(collect(rows, json_file))
    say()
    say(format_table([_shown_of_drain(row) for row in found]))


def _shown_of_drain(row: dict[str, Any]) -> dict[str, Any]:
    return {
        "step": row["w"],
        "ledgers": row["ledgers"],
        "seconds": row["seconds"],
        "ledgers/s": row["ledgers_s"],
        "repair cpu s": row.get("repair_cpu_s"),
        "bookies cpu s": row.get("srv_cpu_s"),
        "repair MiB": row.get("repair_mib"),
    }


# --- a slow bookie --------------------------------------------------------------------------------


@click.command("slow-bookie")
@number("--round-trip", 1, 1000, 10, "Milliseconds between any two regions.")
@number("--factor", 2, 1000, 10, "How many times longer than before the bookie takes.")
@whole_number("--streams", 1, 10_000, 8, "Streams that are written.")
@whole_number("--rate", 1, 100_000, 200, "Records of 1 KiB per second, over all streams.")
@whole_number("--before", 2, 3600, 15, "Seconds until the bookie becomes slow.")
@whole_number("--slow", 4, 3600, 60, "Seconds for which it is slow.")
@click.option("--plot", "plot_file", type=click.Path(path_type=Path), help="Write an SVG plot.")
@output_options
def slow_bookie(
    round_trip: float, factor: float, streams: int, rate: int, before: int, slow: int,
    plot_file: Path | None, directory: Path | None, json_file: Path | None,
) -> None:  # fmt: skip
    """Make one bookie slow: latency of appends over time, if writers stay and if they leave it.

    Three regions of two bookies, 3/3/3/R3, so that each entry waits for a bookie of every region.
    Afterwards the streams are read back.
    """
    work = SlowWorkload(streams, rate, round_trip, factor, before, slow)
    with tempfile.TemporaryDirectory(prefix="rhumbline-bench-", dir=directory) as folder:
        root = Path(folder)
        print_raw(root)
        with RegionProcesses(root, SLOW_REGIONS, each=SLOW_EACH) as servers:
            found = run(collect(measure_slow_bookie(servers, work), json_file))
    say()
    say(format_table([_shown_of_slow(row) for row in found]))
    if plot_file is not None:
        lines = [
            (f"writers {'leave' if row['w'] == 'leaves' else 'stay with'} the slow bookie",
             row["p99_ms_by_second"])
            for row in found
        ]  # fmt: skip
        mark = f"one of {len(SLOW_REGIONS) * SLOW_EACH} bookies takes {factor:g} times as long"
        title = f"99th percentile of appends, {rate}/s over {streams} streams, 3/3/3/R3"
        plot_file.write_text(plot(title, lines, marked_from=before, mark=mark))
        say(f"\nplot: {plot_file}")


def _shown_of_slow(row: dict[str, Any]) -> dict[str, Any]:
    return {
        "writers": {"stays": "stay", "leaves": "leave"}[row["w"]],
        "bookie ms": f"{row['latency_ms']} -> {row['latency_ms_slow']}",
        "p99 ms before": row["p99_ms_before"],
        "p99 ms at the end": row["p99_ms"],
        "p50 ms at the end": row["p50_ms"],
        "ensemble changes": row["ensemble_changes"],
        "records read back": row["records"],
    }


# --- consumers that return ------------------------------------------------------------------------


@click.command()
@click.option(
    "--consumers", default="1,10,40", show_default=True, help="Numbers of consumers, by commas."
)
@whole_number("--megabytes", 1, 10_000, 16, "Size of what they missed.")
@whole_number("--size", 1, 1 << 20, 1024, "Bytes of each record.")
@number("--round-trip", 0, 1000, 50, "Milliseconds between any two regions.")
@number("--spread", 0, 100, 10, "Percent of the records over which their starts are spread.")
@output_options
def returning(
    consumers: str, megabytes: int, size: int, round_trip: float, spread: float,
    directory: Path | None, json_file: Path | None,
) -> None:  # fmt: skip
    """Measure the bytes that cross regions when consumers return after an outage.

    Two regions of one bookie, 2/2/2/R2, and the consumers in a third one, behind a read proxy with
    an empty cache. The links between the regions count the bytes.
    """
    work = ReturningWorkload(
        [int(count) for count in numbers_of(consumers, "--consumers")],
        megabytes * 1_000_000 // size,
        size,
        round_trip,
        spread,
    )
    with tempfile.TemporaryDirectory(prefix="rhumbline-bench-", dir=directory) as folder:
        root = Path(folder)
        print_raw(root)
        with RegionProcesses(root, COPY_REGIONS, viewers=(VIEWER,)) as servers:
            found = run(collect(measure_returning(servers, work), json_file))
    say()
    say(format_table([_shown_of_returning(row) for row in found]))


def _shown_of_returning(row: dict[str, Any]) -> dict[str, Any]:
    return {
        "consumers": row["consumers"],
        "missed MB": row["stream_MB"],
        "delivered MB": row["delivered_MB"],
        "WAN MB": row["wan_MB"],
        "WAN bytes per missed byte": row["wan_per_stream_byte"],
        "per delivered byte": row["wan_per_delivered_byte"],
        "seconds": row["seconds"],
        "MB/s": row["MB_s"],
        "proxy cpu s/M records": row["proxy_cpu_per_M"],
        "proxy MiB": row["proxy_rss"],
    }


# --- a reader in another region -------------------------------------------------------------------


@click.command()
@click.option(
    "--round-trips", default="2,20,80,160", show_default=True, help="Milliseconds, by commas."
)
@whole_number("--megabytes", 1, 10_000, 400, "Size of the stream.")
@whole_number("--size", 1, 1 << 20, 1024, "Bytes of each record.")
@output_options
def far(
    round_trips: str, megabytes: int, size: int, directory: Path | None, json_file: Path | None
) -> None:
    """Measure catch-up reads by a client in another region, by round trip.

    Three bookies in one region. The links delay each direction and limit no bandwidth.
    """
    records = max(1, megabytes * 1_000_000 // size // BATCH) * BATCH
    work = FarWorkload(records, size, numbers_of(round_trips, "--round-trips"))
    with tempfile.TemporaryDirectory(prefix="rhumbline-bench-", dir=directory) as folder:
        root = Path(folder)
        print_raw(root)
        with RegionProcesses(root, (FAR_REGION,), each=3, viewers=(FAR_VIEWER,)) as servers:
            found = run(collect(measure_far_reading(servers, work), json_file))
    say()
    say(format_table([_shown_of_far(row) for row in found]))


def _shown_of_far(row: dict[str, Any]) -> dict[str, Any]:
    return {
        "round trip ms": row["round_trip_ms"],
        "records": row["records"],
        "seconds": row["seconds"],
        "MB/s": row["MB_s"],
        "Mbit/s": row["Mbit_s"],
    }


REGION_BENCHMARKS = (regions, speculation, lost, drain, slow_bookie, returning, far)
