"""``rhumbline bench`` of several regions: regions, speculation, lost."""

import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from ...bench.harness.region_processes import DistantProcesses
from ...bench.lost_bookie import REGIONS as LOSS_REGIONS
from ...bench.lost_bookie import LossWork, measure_loss
from ...bench.regions import DistantWork, fsync_samples, measure_distant
from ...bench.speculation import SpeculationWork, measure_speculation
from ...client.system_runtime import run
from ...core.protocol.errors import InvalidArgumentError
from ...core.protocol.quorum import Quorum
from ..output import format_table
from ..units import parse_bytes, parse_ms, show_bytes
from .bench_output import collect, print_raw

_FSYNC_SAMPLES = 500


def _measuring(command: Callable[..., Any]) -> Callable[..., Any]:
    for option in (
        click.option("--directory", type=click.Path(path_type=Path, exists=True, file_okay=False),
                     help="Where the bookies' data goes (default: the temporary directory)."),
        click.option("--json", "json_file", type=click.Path(path_type=Path),
                     help="Also append the figures to this file as JSON lines."),
    ):  # fmt: skip
        command = option(command)
    return command


# --- writing across regions -----------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Deployment:
    regions: tuple[str, ...]
    each: int
    quorum: Quorum
    streams: int
    rate: int
    """Records a second of the open loop, if no other is asked for."""
    loses: bool
    request_timeout_ms: int
    warm_seconds: float
    """Until a closed loop of so many streams has become one."""


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
@click.option("--only", help="D1 or D2.")
@click.option(
    "--round-trip",
    type=click.FloatRange(1, 1000),
    default=80,
    show_default=True,
    help="Milliseconds between any two regions.",
)
@click.option("--streams", type=click.IntRange(1, 100_000), help="Instead of 1,000 and 10,000.")
@click.option(
    "--rate",
    type=click.IntRange(1, 1_000_000),
    help="Records a second of the open loop, over all streams, instead of 1,000 and 200.",
)
@click.option("--size", type=click.IntRange(1, 1 << 20), default=1024, show_default=True)
@click.option(
    "--seconds",
    type=click.FloatRange(0.1, 600),
    default=5,
    show_default=True,
    help="Length of one timed window.",
)
@_measuring
def regions(
    only: str | None, round_trip: float, streams: int | None, rate: int | None, size: int,
    seconds: float, directory: Path | None, json_file: Path | None,
) -> None:  # fmt: skip
    """Immediate appends across regions: acknowledgements, throughput, one region cut off.

    D1: three regions of one bookie, 3/3/2/R2, 1,000 streams. D2: two regions of five, ten copies,
    10/10/6/R2, 10,000 streams of which most are idle at any time. Latencies are those of the open
    loop, beside round trip + fsync and beside what `plan` says. Afterwards some streams are read
    back.
    """
    names = list(_DEPLOYMENTS) if only is None else [name.strip() for name in only.split(",")]
    for name in names:
        if name not in _DEPLOYMENTS:
            raise InvalidArgumentError(
                f"no deployment {name}; there are: {', '.join(_DEPLOYMENTS)}"
            )
    found = []
    for name in names:
        deployed = _DEPLOYMENTS[name]
        with tempfile.TemporaryDirectory(prefix="rhumbline-bench-", dir=directory) as folder:
            root = Path(folder)
            print_raw(root)
            fsync_ms = fsync_samples(root, _FSYNC_SAMPLES)
            work = DistantWork(
                name, deployed.quorum, round_trip, streams or deployed.streams, size,
                rate or deployed.rate, seconds, min(deployed.warm_seconds, 4 * seconds),
                deployed.loses, deployed.request_timeout_ms,
            )  # fmt: skip
            with DistantProcesses(root, deployed.regions, each=deployed.each) as servers:
                found += run(collect(measure_distant(servers, work, fsync_ms), json_file))
    click.echo()
    click.echo(format_table([_shown_of_distant(row) for row in found if "p50_ms" in row]))
    click.echo()
    click.echo(format_table([_shown_of_plan(row) for row in found if "bound_ms" in row]))
    for row in found:
        if row["w"].endswith("-open"):
            click.echo(
                f"\n{row['w']}: {row['streams']:,} streams made and opened in {row['seconds']} s; "
                f"then the bookies have {row['srv_rss']:,} MiB of memory, the client "
                f"{row['cli_rss']:,} MiB"
            )
        if "all_acknowledged_after_s" in row:
            click.echo(
                f"\n{row['w']}: a record in each stream, appended at the cut, was acknowledged "
                f"after {row['all_acknowledged_after_s']} s"
            )
        if "records" in row:
            click.echo(f"\n{row['w']}: {row['records']:,} records, each there once")


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


# --- reading past a replica in trouble -----------------------------------------------------------


@click.command()
@click.option(
    "--round-trip",
    type=click.FloatRange(1, 1000),
    default=20,
    show_default=True,
    help="Milliseconds between any two regions.",
)
@click.option(
    "--slow",
    type=click.FloatRange(1, 4000),
    default=200,
    show_default=True,
    help="Round trip to the local replica while it is slow.",
)
@click.option("--entries", type=click.IntRange(1, 1_000_000), default=2_000, show_default=True)
@click.option("--size", type=click.IntRange(1, 1 << 20), default=1024, show_default=True)
@click.option(
    "--rate",
    type=click.IntRange(1, 100_000),
    default=200,
    show_default=True,
    help="Reads a second, in an open loop.",
)
@click.option(
    "--seconds",
    type=click.FloatRange(0.1, 600),
    default=10,
    show_default=True,
    help="Length of one timed window; it begins with the fault.",
)
@_measuring
def speculation(
    round_trip: float, slow: float, entries: int, size: int, rate: int, seconds: float,
    directory: Path | None, json_file: Path | None,
) -> None:  # fmt: skip
    """Reads from a region whose own replica is slow, or stopped by SIGSTOP.

    Three regions of one bookie, 3/3/2/R2. With speculation another replica is asked after the
    usual latency, within a budget; without it each waits for its time-out (5 s).
    """
    work = SpeculationWork(round_trip, slow, entries, size, rate, seconds)
    with tempfile.TemporaryDirectory(prefix="rhumbline-bench-", dir=directory) as folder:
        root = Path(folder)
        print_raw(root)
        with DistantProcesses(root, ("a", "b", "c"), slows_local=True) as servers:
            found = run(collect(measure_speculation(servers, work), json_file))
    click.echo()
    click.echo(format_table([_shown_of_speculation(row) for row in found]))


def _shown_of_speculation(row: dict[str, Any]) -> dict[str, Any]:
    return {
        "local replica": row["w"].removeprefix("local-").replace("none", "well"),
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
@click.option("--size", default="5GiB", show_default=True, help="Payload that it holds.")
@click.option(
    "--bytes-per-second", default="50MiB", show_default=True, help="What repair may copy."
)
@click.option(
    "--streams",
    type=click.IntRange(1, 10_000),
    default=16,
    show_default=True,
    help="Written meanwhile, at --rate records of 1 KiB a second in all.",
)
@click.option("--rate", type=click.IntRange(1, 100_000), default=200, show_default=True)
@click.option(
    "--seconds",
    type=click.FloatRange(0.1, 600),
    default=10,
    show_default=True,
    help="How long writers are measured before and after.",
)
@click.option(
    "--replace-after",
    default="30s",
    show_default=True,
    help="How long a writer bears with a bookie that is away.",
)
@click.option(
    "--seconds-max",
    type=click.FloatRange(1, 86_400),
    default=3_600,
    show_default=True,
    help="Fails if there are not as many copies again by then.",
)
@_measuring
def lost(
    size: str, bytes_per_second: str, streams: int, rate: int, seconds: float, replace_after: str,
    seconds_max: float, directory: Path | None, json_file: Path | None,
) -> None:  # fmt: skip
    """Kills a bookie for good: time to full replication, bytes moved, what writers notice.

    Three regions of one bookie, 3/3/2/R2, and a spare one. Needs about five times --size of disk.
    """
    work = LossWork(
        parse_bytes(size), parse_bytes(bytes_per_second), streams, rate, seconds, seconds_max,
        parse_ms(replace_after),
    )  # fmt: skip
    with tempfile.TemporaryDirectory(prefix="rhumbline-bench-", dir=directory) as folder:
        root = Path(folder)
        print_raw(root)
        with DistantProcesses(root, LOSS_REGIONS, spares=LOSS_REGIONS[-1:], has_links=False) as b:
            found = run(collect(measure_loss(b, root, work), json_file))
    by_name = {row["w"]: row for row in found}
    during, filled = by_name["during"], by_name["fill"]
    click.echo()
    click.echo(format_table([_shown_of_loss(by_name[n]) for n in ("before", "during", "after")]))
    click.echo(
        f"\nheld {show_bytes(filled['bytes'])}; whole again after {during['seconds']} s "
        f"({during['open_ledgers_too_seconds']} s with those being written), "
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


REGION_BENCHMARKS = (regions, speculation, lost)
