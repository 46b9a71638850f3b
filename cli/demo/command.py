"""``rhumbline demo``: the command around the script and its views."""

import asyncio
import signal
import sys
import tempfile
import textwrap
from pathlib import Path

import click
from rich.console import Console

from ...client.system_runtime import run
from ...core.protocol.errors import InvalidArgumentError, RhumblineError
from ..output import say
from .archive_query import QUERY, ask_spark, why_no_spark
from .live import LiveView
from .plain import PlainView
from .script import NAMESPACE, STREAM, Demo, DemoOptions, DemoOutcome
from .source import Source, open_source
from .state import DemoState

_EXIT_DIFFERS = 1
_EXIT_INTERRUPTED = 130
_ROUND_TRIPS = "10,40,80"


@click.command()
@click.argument("file", required=False)
@click.option("--seconds", type=click.FloatRange(1, 3600), default=30, show_default=True,
              help="How long the writing takes, if the machine keeps up.")  # fmt: skip
@click.option("--rtt", "round_trips", default=_ROUND_TRIPS, show_default=True,
              help="Round trips bonn-oslo, bonn-rome, oslo-rome in ms.")  # fmt: skip
@click.option("--plain", is_flag=True, help="Plain lines, also on a terminal.")
@click.option("--spark/--no-spark", "asks_spark", default=True,
              help="Whether Spark, if it is installed, queries the archive.")  # fmt: skip
def demo(file: str | None, seconds: float, round_trips: str, plain: bool, asks_spark: bool) -> None:
    """Three regions, real data, a region outage.

    Runs three regions with two bookies each in this process, on real sockets and files. FILE ("-":
    standard input; default: a log file found on this machine) is written line by line in one
    region and tailed in another; halfway a whole region is cut off and brought back. At the end
    what the readers saw is compared with the input: count, order, SHA-256. Then the stream is
    archived, the cluster ends, and Spark queries the archive.
    """
    options = DemoOptions(seconds, _parse_round_trips(round_trips))
    with tempfile.TemporaryDirectory(prefix="rhumbline-demo-") as scratch:
        source = open_source(file, sys.stdin.buffer, Path(scratch))
        is_live = not plain and sys.stdout.isatty()
        try:
            outcome = run(_play(source, Path(scratch), options, is_live))
            is_good = outcome.is_good
            if is_good and asks_spark and outcome.archived is not None:
                is_good = _query(source, Path(scratch))
        except (KeyboardInterrupt, asyncio.CancelledError):
            sys.exit(_EXIT_INTERRUPTED)
    click.echo(
        "OK: count, order and SHA-256 are those of the input"
        if is_good
        else "FAILED: what was read is not what was written"
    )
    sys.exit(0 if is_good else _EXIT_DIFFERS)


def _query(source: Source, scratch: Path) -> bool:
    """Asks Spark where it is installed; False when it says anything else than the input."""
    missing = why_no_spark()
    if missing is not None:
        click.echo(f"spark    is not here to query the archive: {missing}")
        return True
    click.echo("spark    the cluster has ended; Spark starts, and asks the archive alone:\n")
    click.echo(textwrap.indent(f"{QUERY}\n", " " * 9))
    answer = ask_spark(NAMESPACE, STREAM, scratch / "cold", scratch / "spark.log")
    is_same = (answer.record_count, answer.payload_bytes) == (source.line_count, source.size)
    click.echo(textwrap.indent(f"{answer.table}\n", " " * 9))
    click.echo(
        f"         {answer.record_count:>9,} records, {answer.payload_bytes:,} bytes in "
        f"{answer.seconds:.1f} s  {'same' if is_same else 'DIFFERENT'}"
    )
    return is_same


async def _play(source: Source, root: Path, options: DemoOptions, is_live: bool) -> DemoOutcome:
    this = asyncio.current_task()
    assert this is not None
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, this.cancel)
    view = LiveView(Console()) if is_live else PlainView(click.echo)
    demo_run = Demo(source, root, options, view.update)
    try:
        with view:
            outcome = await demo_run.run()
    except (RhumblineError, TimeoutError, asyncio.CancelledError) as error:
        why = "interrupted" if isinstance(error, asyncio.CancelledError) else "failed"
        say(f"{why} after {_progress(demo_run.state)}")
        raise
    if is_live:
        with PlainView(click.echo) as told:  # what the live view showed would be gone
            told.update(demo_run.state)
    click.echo(summary(demo_run.state, outcome))
    return outcome


def summary(state: DemoState, outcome: DemoOutcome) -> str:
    """What the demo showed."""
    source = outcome.source
    acks, delivery = state.ack_latency, state.delivery_latency
    lines = [
        "",
        f"input    {source.label}, {source.size:,} bytes",
        f"         {source.line_count:>9,} records                    sha256 {source.sha256[:16]}",
        f"acked    {outcome.acked_count:>9,} records",
    ]
    for reader in outcome.readers:
        is_same = (reader.count, reader.sha256) == (source.line_count, source.sha256)
        lines.append(
            f"read     {reader.count:>9,} records in {reader.region:12}    "
            f"sha256 {reader.sha256[:16]}  {'same' if is_same else 'DIFFERENT'}"
        )
    lines += [
        f"ack      p50 {acks.quantile_ms(0.5):.1f} ms  p99 {acks.quantile_ms(0.99):.1f} ms  "
        f"max {acks.max_seconds * 1000:.0f} ms",
        f"delivery p50 {delivery.quantile_ms(0.5):.1f} ms  p99 {delivery.quantile_ms(0.99):.1f} ms"
        "  from append to the tail",
        f"segments {len(state.segments)}, quorum E/WQ/AQ/R {state.quorum}",
        "archive  "
        + (
            "needs pip install 'rhumbline[arrow]'"
            if outcome.archived is None
            else outcome.archived.told()
        ),
    ]
    return "\n".join(lines)


def _progress(state: DemoState) -> str:
    return (
        f"{state.seconds:.1f} s: {state.sent_count:,} records sent, {state.acked_count:,} "
        f"acknowledged, {state.read_count:,} read"
    )


def _parse_round_trips(text: str) -> tuple[int, int, int]:
    parts = text.split(",")
    if len(parts) != 3 or not all(part.strip().isdigit() for part in parts):
        raise InvalidArgumentError(f"--rtt {text!r}: three numbers of ms, e.g. {_ROUND_TRIPS}")
    near, far, other = (int(part) for part in parts)
    if max(near, far, other) > 2_000:
        raise InvalidArgumentError(f"--rtt {text!r}: a round trip is at most 2000 ms")
    return near, far, other
