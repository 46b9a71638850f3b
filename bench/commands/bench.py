"""``rhumbline bench`` for one region; the commands for several are in ``bench_regions``."""

import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import click

from ...cli.output import format_table
from ...client.system_runtime import run
from ..bookies.garbage import SETTINGS as GARBAGE
from ..bookies.garbage import measure_garbage
from ..bookies.log_roll import SETTINGS as ROLL
from ..bookies.log_roll import measure_log_roll
from ..bookies.many_ledgers import LAYOUTS, measure_many_ledgers
from ..bookies.one_bookie import (
    COMPACTING,
    BookieLoad,
    measure_adds,
    measure_reads_and_restarts,
)
from ..catch_up import run_catch_up
from ..harness.bookie_processes import BookieProcesses
from ..harness.load import Timing, run_workload
from ..harness.workload import READ, TAIL, WRITE, BenchWorkload
from ..many_segments import measure_many_segments
from ..many_streams import measure_many_streams
from ..positions import measure_positions
from ..proxies.proxy_failover import measure_failover
from ..proxies.proxy_load import run_proxy_workload
from ..proxies.proxy_work import FAILOVER, PROXY, ProxyWorkload
from ..telemetry_cost import ObservedBookies, measure_telemetry, modes, sink
from .bench_archived import archived
from .bench_beside import beside
from .bench_durability import durability
from .bench_metadata import metadata
from .bench_options import Command, chosen, number, output_options, whole_number
from .bench_output import Rows, collect, print_raw, reports, say
from .bench_placement import placement
from .bench_profile import profile
from .bench_pruned import pruned
from .bench_regions import REGION_BENCHMARKS
from .bench_sweep import sweep
from .bench_tls import COMPARED, OFF, comparison, measured, running_clusters, tls_option
from .proxies.bench_connections import connections
from .proxies.bench_fairness import fairness
from .proxies.bench_takeover import takeover

_WARM_SECONDS = 2.0

BOOKIE_PARTS = ("adds", "compacting", "reads", "restarts", "ledgers", "garbage", "roll")
"""Parts of ``rhumbline bench bookie``."""


@click.group()
def bench() -> None:
    """Measure three bookie processes on this machine, with fsync, E3/WQ3/AQ2.

    Every benchmark first measures the disk and the loopback interface. Compare the results with
    these limits, because they depend on the machine and its load.
    """


def _measuring(command: Command) -> Command:
    command = whole_number("--repetitions", 1, 100, 1, "Number of runs.")(output_options(command))
    return number("--seconds", 0.1, 600, 5, "Length of one timed window.")(command)


@bench.command()
@click.option("--directory", type=click.Path(path_type=Path, exists=True, file_okay=False),
              help="Directory to measure. [default: the temporary directory]")  # fmt: skip
@reports
def raw(directory: Path | None) -> None:
    """Measure only the raw limits: appends with fdatasync, round trips, and both together."""
    print_raw(directory or Path(tempfile.gettempdir()))


@bench.command()
@click.option("--only", help="Names of workloads, separated by commas: W1-128,W2-64.")
@tls_option
@_measuring
def write(
    only: str | None, seconds: float, repetitions: int, json_file: Path | None,
    directory: Path | None, tls: str,
) -> None:  # fmt: skip
    """Write many streams at full speed, at a fixed rate, and one record at a time."""
    _run_workloads(_chosen(WRITE, only), seconds, repetitions, json_file, directory, tls)


@bench.command()
@click.option("--only", help="Names of workloads, separated by commas: W3-1000.")
@tls_option
@_measuring
def tail(
    only: str | None, seconds: float, repetitions: int, json_file: Path | None,
    directory: Path | None, tls: str,
) -> None:  # fmt: skip
    """Measure the delay from append to delivery: one reader at 1,000 and 10,000/s, many readers."""
    _run_workloads(_chosen(TAIL, only), seconds, repetitions, json_file, directory, tls)


@bench.command()
@click.option("--only", default="W1-128", show_default=True, help="A workload of `bench write`.")
@_measuring
def telemetry(
    only: str, seconds: float, repetitions: int, json_file: Path | None, directory: Path | None
) -> None:  # fmt: skip
    """Measure the cost of metrics and traces: alternate a workload without and with them.

    Every run uses a new cluster.
    """
    (workload,) = _chosen(WRITE, only)
    timing = Timing(_WARM_SECONDS, seconds, 1)
    found: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory(prefix="rhumbline-bench-", dir=directory) as root:
        print_raw(Path(root))
        with sink() as endpoint:
            for number in range(repetitions):
                for mode, settings in modes(endpoint).items():
                    below = Path(root) / f"{number}-{len(found)}"
                    below.mkdir()
                    with ObservedBookies(below, settings) as servers:
                        rows = measure_telemetry(workload, servers, mode, settings, timing)
                        found += run(collect(rows, json_file))
    say()
    say(format_table([{"telemetry": row["telemetry"], **_shown(row)} for row in found]))


@bench.command()
@click.option(
    "--cold",
    is_flag=True,
    help="Drop the page cache before each reading, and also read the files alone.",
)
@click.option(
    "--records", type=click.IntRange(1000), help="Records of each stream, instead of the default."
)
@tls_option
@_measuring
def read(
    cold: bool, records: int | None, seconds: float, repetitions: int, json_file: Path | None,
    directory: Path | None, tls: str,
) -> None:  # fmt: skip
    """Measure catch-up reads of one stream, by record and by Arrow batch.

    The page cache is warm, unless --cold is given. --seconds does not apply.
    """
    del seconds

    parts = [
        partial(
            run_catch_up,
            name=name,
            size=size,
            count=count if records is None else records,
            repetitions=repetitions,
            is_cold=cold,
        )
        for name, size, count in READ
    ]
    _measure(parts, json_file, directory, tls=tls)


_metadata_delay = number(
    "--metadata-delay",
    0,
    1000,
    0,
    "Milliseconds by which each metadata call is delayed, as if from another region.",
)


@bench.command()
@whole_number("--count", 1, 100_000, 10_000, "Number of streams.")
@_metadata_delay
@_measuring
def streams(
    count: int, metadata_delay: float, seconds: float, repetitions: int, json_file: Path | None,
    directory: Path | None,
) -> None:  # fmt: skip
    """Measure thousands of streams in one process: opening, one record to each, idle time, and
    takeover by another client.

    --seconds is the length of the idle phase, which begins one second after the last record;
    --repetitions does not apply. P50 MS is the median for one stream, while 64 are opened
    concurrently. PAUSE MS is the longest time during which the idle client served nothing.
    """
    del repetitions

    def rows(servers: BookieProcesses) -> Rows:
        return measure_many_streams(servers, count, seconds, metadata_delay / 1000)

    _measure([rows], json_file, directory, shown=_shown_of_streams)


@bench.command()
@whole_number("--count", 1, 1_000_000, 10_000, "Number of segments.")
@_metadata_delay
@output_options
def segments(
    count: int, metadata_delay: float, json_file: Path | None, directory: Path | None
) -> None:
    """Measure how long it takes to list, open, read and truncate a stream of many segments.

    Only the metadata of the segments is written: all of them share one ledger.
    """

    def rows(servers: BookieProcesses) -> Rows:
        return measure_many_segments(servers, count, metadata_delay / 1000)

    _measure([rows], json_file, directory, shown=_shown_of_segments)


@bench.command()
@whole_number("--segments", 1, 100_000, 1_000, "Segments in the stream.")
@whole_number("--lookups", 1, 100_000, 200, "Lookups of each kind.")
@_measuring
def positions(
    segments: int, lookups: int, seconds: float, repetitions: int, json_file: Path | None,
    directory: Path | None,
) -> None:  # fmt: skip
    """Measure lookups of positions among many segments.

    --seconds and --repetitions do not apply.
    """
    del seconds, repetitions

    def rows(servers: BookieProcesses) -> Rows:
        return measure_positions(servers, segments, lookups)

    _measure([rows], json_file, directory, shown=_shown_of_positions)


@bench.command()
@click.option(
    "--only",
    help="Parts to measure, separated by commas: adds, compacting (adds while the compactor keeps "
    "up), reads, restarts, ledgers (restarts with synthetic ledgers), garbage (a collection among "
    "synthetic ledgers), roll (a new log file with synthetic ledgers). [default: all]",
)
@whole_number(
    "--entries", 1_000, 1_000_000_000, 100_000,
    "Entries for reads and restarts, and synthetic entries for ledgers.",
)  # fmt: skip
@whole_number("--ledgers", 1, 2_000_000, 10_000, "Number of synthetic ledgers.")
@whole_number("--size", 1, 1 << 20, 1024, "Bytes of each of those entries.")
@_measuring
def bookie(
    only: str | None, entries: int, ledgers: int, size: int, seconds: float, repetitions: int,
    json_file: Path | None, directory: Path | None,
) -> None:  # fmt: skip
    """Measure one bookie: adds by size with their disk writes, reads, restarts, memory.

    Bytes written are per byte of acknowledged entries, including headers. A large run is
    --entries 10000000 --size 1024: ten million entries, 10 GB. The largest number of ledgers is
    measured by --only ledgers --ledgers 1000000 --entries 100000000, which needs 4 GB.
    """
    load = BookieLoad(seconds, entries, size)
    names = chosen(BOOKIE_PARTS, "part", only)
    for _ in range(repetitions):
        for settings, rows in _bookie_runs(names, load, ledgers):
            _measure([rows], json_file, directory, _Shape(1, settings), _shown_of_bookie)


def _bookie_runs(
    names: Sequence[str], load: BookieLoad, ledger_count: int
) -> Iterator[tuple[Mapping[str, str], Callable[[BookieProcesses], Rows]]]:
    """Yield the bookie's settings and the measurement of each run; reads and restarts share one."""
    if "adds" in names:
        yield {}, lambda servers: measure_adds(servers, "adds", load)
    if "compacting" in names:
        yield COMPACTING, lambda servers: measure_adds(servers, "compacting", load)
    has_reads, has_restarts = "reads" in names, "restarts" in names
    if has_reads or has_restarts:
        yield (
            {},
            lambda servers: measure_reads_and_restarts(
                servers, load, has_reads=has_reads, has_restarts=has_restarts
            ),
        )
    for name in LAYOUTS if "ledgers" in names else ():
        yield (
            {},
            partial(
                measure_many_ledgers,
                name=name,
                ledger_count=ledger_count,
                entry_count=load.entry_count,
            ),
        )
    if "garbage" in names:
        yield GARBAGE, lambda servers: measure_garbage(servers, ledger_count)
    if "roll" in names:
        yield ROLL, lambda servers: measure_log_roll(servers, ledger_count)


@bench.command()
@click.option("--only", help="Names of workloads, separated by commas: P1-batching,P3-100.")
@click.option(
    "--rate", type=click.IntRange(1), help="Records/s written in total, instead of the workload's."
)
@click.option(
    "--streams", type=click.IntRange(1), help="Streams written, instead of the workload's number."
)
@tls_option
@_measuring
def proxy(
    only: str | None, rate: int | None, streams: int | None, seconds: float, repetitions: int,
    json_file: Path | None, directory: Path | None, tls: str,
) -> None:  # fmt: skip
    """Measure a write proxy with many producers, and a read proxy with many readers.

    P1: 100 streams with batching producers, and the same with the core client. P2: 1,000 producers
    in four processes that wait for each record, at full speed and at 20,000 records/s in total, and
    a quarter of the latter in one process. P3: one stream of 1 MB/s to 100 readers, a small one to
    1,000 and to 5,000, and 10,000 that only wait; MB/s and latencies are those of delivery. P4: 100
    producers while the owner of their stream is killed, and stopped in an orderly way; the gap is
    the median of five.
    """
    chosen = _chosen((*PROXY, FAILOVER), only)
    chosen = [
        work
        if work is FAILOVER
        else replace(work, rate=rate or work.rate, streams=streams or work.streams)
        for work in chosen
    ]
    timing = Timing(_WARM_SECONDS, seconds, repetitions)

    parts: list[Callable[[BookieProcesses], Rows]] = [
        partial(measure_failover, seconds=seconds)
        if work is FAILOVER
        else partial(run_proxy_workload, work, timing=timing)
        for work in chosen
    ]
    _measure(parts, json_file, directory, shown=_shown_of_proxy, tls=tls)


Named = TypeVar("Named", BenchWorkload, ProxyWorkload)


@bench.command()
@whole_number("--records", 1000, 1_000_000_000, 10_000_000, "Number of records.")
@whole_number("--size", 16, 65536, 128, "Bytes of each record.")
@whole_number("--rounds", 1, 100, 3, "Number of rounds.")
@click.option(
    "--directory",
    type=click.Path(path_type=Path, exists=True, file_okay=False),
    help="Directory for the archive. [default: the temporary directory]",
)
@reports
def scan(records: int, size: int, rounds: int, directory: Path | None) -> None:
    """Measure Spark on an archive: its own Parquet reader, `read_archive` and the data source.

    The query sums payload lengths, takes the largest txid and counts; then the effect of filters is
    measured. The same query for a hundredth of the creation times is also run by pyiceberg on the
    stream's Iceberg table, and by DuckDB if it is installed. Needs no cluster.
    """
    from .bench_scan import run_scan  # only this command needs PySpark

    run_scan(records, size, rounds, directory)


def _chosen(workloads: Sequence[Named], only: str | None) -> Sequence[Named]:
    names = chosen(dict.fromkeys(workload.name for workload in workloads), "workload", only)
    return [workload for workload in workloads if workload.name in names]


def _run_workloads(
    workloads: Sequence[BenchWorkload],
    seconds: float,
    repetitions: int,
    json_file: Path | None,
    directory: Path | None,
    tls: str,
) -> None:
    timing = Timing(_WARM_SECONDS, seconds, repetitions)
    parts = [partial(run_workload, workload, timing=timing) for workload in workloads]
    _measure(parts, json_file, directory, tls=tls)


@dataclass(frozen=True, slots=True)
class _Shape:
    """The shape of the measured cluster: number of bookies, and their settings."""

    bookie_count: int
    settings: Mapping[str, str]


_THREE = _Shape(3, {})


def _measure(
    parts: Sequence[Callable[[BookieProcesses], Rows]],
    json_file: Path | None,
    directory: Path | None,
    shape: _Shape = _THREE,
    shown: Callable[[dict[str, Any]], dict[str, Any]] | None = None,
    tls: str = OFF,
) -> None:
    """Print raw limits, then rows as they arrive, then all rows as a table."""
    with tempfile.TemporaryDirectory(prefix="rhumbline-bench-", dir=directory) as root:
        print_raw(Path(root))
        with running_clusters(
            Path(root), tls, count=shape.bookie_count, settings=shape.settings
        ) as clusters:
            found = run(collect(measured(parts, clusters), json_file))
    say()
    say(format_table([(shown or _shown)(row) for row in found]))
    say()
    if tls in COMPARED:
        say(format_table(comparison(tls, found)))
        say()


def _shown(row: dict[str, Any]) -> dict[str, Any]:
    """Return the columns of the table."""
    latency = row.get("del", row)
    return {
        "work": row["w"],
        "peer": row["peer"],
        "size": row["size"],
        "streams": row["streams"],
        "readers": row.get("readers"),
        "records/s": row.get("del_rec_s", row["rec_s"]),
        "MB/s": row.get("del_MB_s", row["MB_s"]),
        "p50 ms": latency.get("p50_ms"),
        "p99 ms": latency.get("p99_ms"),
        "p99.9 ms": latency.get("p999_ms"),
        "cpu s/M servers": row.get("srv_cpu_per_M"),
        "cpu s/M client": row.get("cli_cpu_per_M"),
        "MiB servers": row.get("srv_rss"),
    }


def _shown_of_streams(row: dict[str, Any]) -> dict[str, Any]:
    return {
        "step": row["w"],
        "streams": row["streams"],
        "seconds": row["seconds"],
        "streams/s": row["rec_s"],
        "p50 ms": row["p50_ms"],
        "pause ms": row["pause_ms"],
        "cores servers": row["srv_cpu"],
        "cores client": row["cli_cpu"],
        "MiB servers": row["srv_rss"],
        "MiB client": row["cli_rss"],
        "tasks": row["tasks"],
        "metadata calls": row["metadata_calls"],
        "files": row["files"],
    }


def _shown_of_segments(row: dict[str, Any]) -> dict[str, Any]:
    return {
        "operation": row["w"],
        "segments": row["segments"],
        "p50 ms": row["p50_ms"],
        "max ms": row["max_ms"],
        "metadata calls": row["metadata_calls"],
        "MiB client": row["cli_rss"],
    }


def _shown_of_positions(row: dict[str, Any]) -> dict[str, Any]:
    return {
        "lookup": row["w"],
        "segments": row["segments"],
        "p50 ms": row["p50_ms"],
        "max ms": row["max_ms"],
        "metadata reads": row["metadata_reads"],
        "at most": row["metadata_reads_max"],
        "entry reads": row["entry_reads"],
        "at most ": row["entry_reads_max"],
    }


def _shown_of_proxy(row: dict[str, Any]) -> dict[str, Any]:
    return {
        "work": row["w"],
        "clients": row["clients"],
        "streams": row["streams"],
        "size": row["size"],
        "records/s": row["rec_s"],
        "MB/s": row["MB_s"],
        "p50 ms": row["p50_ms"],
        "p99 ms": row["p99_ms"],
        "gap ms": row.get("gap_ms"),
        "cpu proxy": row.get("proxy_cpu"),
        "cpu servers": row.get("srv_cpu"),
        "cpu clients": row.get("cli_cpu"),
        "s/M proxy": row.get("proxy_cpu_per_M"),
        "s/M servers": row.get("srv_cpu_per_M"),
        "s/M clients": row.get("cli_cpu_per_M"),
        "MiB proxy": row.get("proxy_rss"),
        "MiB clients": row.get("cli_rss"),
    }


def _shown_of_bookie(row: dict[str, Any]) -> dict[str, Any]:
    if row["w"].startswith(("garbage", "roll")):
        return {
            "work": row["w"],
            "ledgers": row["ledgers"],
            "deleted": row.get("deleted"),
            "collection s": row.get("collect_s"),
            "cpu s": row.get("srv_cpu_s"),
            "add p50 ms": row["p50_ms"],
            "add p99 ms": row["p99_ms"],
            "add max ms": row["max_ms"],
        }
    return {
        "work": row["w"],
        "entries/s": row.get("rec_s"),
        "MB/s": row.get("MB_s"),
        "p50 ms": row.get("p50_ms"),
        "p99 ms": row.get("p99_ms"),
        "log/byte": row.get("log_per_byte"),
        "sorted/byte": row.get("sorted_per_byte"),
        "disk/byte": row.get("disk_per_byte"),
        "restart s": row.get("restart_s"),
        "restart cpu s": row.get("restart_cpu_s"),
        "cpu s/M": row.get("srv_cpu_per_M"),
        "MiB anonymous": row["anon_mib"],
    }


for _command in (
    *REGION_BENCHMARKS, archived, beside, placement, metadata, durability, takeover, connections,
    fairness, profile, pruned, sweep,
):  # fmt: skip
    bench.add_command(_command)
