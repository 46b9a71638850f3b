"""The command ``rhumbline demo``: steps in ``script``, views in ``live`` and ``plain``."""

import asyncio
import signal
import sys
import tempfile
import textwrap
from pathlib import Path
from typing import Any

import click
from rich.console import Console

from ...client.system_runtime import run
from ...core.protocol.errors import InvalidArgumentError, RhumblineError
from ...server.ports import PORTS
from ..output import TABLE, output_option, print_document, print_message
from ..output_form import selected_form
from ..output_schema import flag, integer, listing, maybe, number, prints, record, text
from .archive_query import QUERY, missing_for_spark, query_with_arrow, query_with_spark
from .live import LiveView
from .plain import PlainView
from .script import NAMESPACE, STREAM, Demo, DemoOptions, DemoOutcome
from .source import Source, open_source
from .state import DemoState

_EXIT_DIFFERS = 1
_EXIT_INTERRUPTED = 130
_ROUND_TRIPS = "10,40,80"


_READER = record(
    {
        "region": text("Region of the reader."),
        "records": integer("Records that it read."),
        "sha256": text("Digest of their content."),
    }
)
_OUTCOME = record(
    {
        "is_good": flag("True if everything that was read is the input."),
        "input": text("The input."),
        "size_bytes": integer("Its size."),
        "records": integer("Its lines."),
        "sha256": text("Its digest."),
        "acked": integer("Acknowledged records."),
        "readers": listing(_READER, "What the readers got."),
        "segments": integer("Segments of the stream."),
        "quorum": text("E/WQ/AQ/R of the stream."),
        "ack_p50_ms": number("Median time to an acknowledgement."),
        "ack_p99_ms": number("99th percentile."),
        "ack_max_ms": number("Longest time, which includes the outage."),
        "delivery_p50_ms": number("Median time from append to the tail."),
        "delivery_p99_ms": number("99th percentile."),
        "archive": maybe(text("The archive; null if it was skipped.")),
    }
)


@click.command()
@click.argument("file", required=False)
@click.option("--seconds", type=click.FloatRange(1, 3600), default=30, show_default=True,
              help="Duration of the writes, if the machine is fast enough.")  # fmt: skip
@click.option("--rtt", "round_trips", default=_ROUND_TRIPS, show_default=True,
              help="Round trips bonn-oslo, bonn-rome, oslo-rome in ms.")  # fmt: skip
@click.option("--console", "shows_console", is_flag=True,
              help="Also serve the web console until the end.")  # fmt: skip
@click.option("--console-port", type=click.IntRange(0, 65535), default=PORTS["console"],
              show_default=True, help="Port of the console; 0 selects a free one.")  # fmt: skip
@click.option("--plain", is_flag=True, help="Print plain lines, even on a terminal.")
@click.option("--spark/--no-spark", "queries_spark", default=True,
              help="Query the archive with Spark if it is installed, or pyarrow.")  # fmt: skip
@prints(_OUTCOME)
@output_option
def demo(
    file: str | None, seconds: float, round_trips: str, plain: bool, queries_spark: bool,
    output: str, shows_console: bool, console_port: int,
) -> None:  # fmt: skip
    """Demonstrate three regions with real data and a region outage.

    Runs three regions with two bookies each in this process, on real sockets and files. FILE ("-":
    standard input; default: a log file found on this machine) is written line by line in one
    region and tailed in another, while a whole region is cut off and reconnected. At the end the
    records that the readers got are compared with the input: count, order, SHA-256. Then the stream
    is archived, the cluster is stopped, and Spark or pyarrow queries the archive.
    """
    options = DemoOptions(
        seconds, _parse_round_trips(round_trips), console_port if shows_console else None
    )
    with tempfile.TemporaryDirectory(prefix="rhumbline-demo-") as scratch:
        source = open_source(file, sys.stdin.buffer, Path(scratch))
        is_live = not plain and output == TABLE and sys.stdout.isatty()
        try:
            outcome, state = run(_play(source, Path(scratch), options, is_live))
            is_good = outcome.is_good
            if is_good and outcome.archived is not None:
                is_good = _query(source, Path(scratch), queries_spark=queries_spark)
        except (KeyboardInterrupt, asyncio.CancelledError):
            sys.exit(_EXIT_INTERRUPTED)
    if output != TABLE:
        print_document(_document(state, outcome, is_good=is_good), output)
    _say(
        "OK: count, order and SHA-256 match the input"
        if is_good
        else "FAILED: the records read differ from the records written"
    )
    sys.exit(0 if is_good else _EXIT_DIFFERS)


def _query(source: Source, scratch: Path, *, queries_spark: bool) -> bool:
    """Query the archive; return False if the result differs from the input."""
    missing = missing_for_spark() if queries_spark else "--no-spark"
    cold = scratch / "cold"
    if missing is None:
        _say("spark    the cluster is stopped; Spark queries the archive alone:\n")
    else:
        _say(f"pyarrow  the cluster is stopped; pyarrow queries the archive (Spark: {missing}):\n")
    _say(textwrap.indent(f"{QUERY}\n", " " * 9))
    if missing is None:
        result = query_with_spark(NAMESPACE, STREAM, cold, scratch / "spark.log")
    else:
        result = query_with_arrow(NAMESPACE, STREAM, cold)
    is_same = (result.record_count, result.payload_bytes) == (source.line_count, source.size)
    _say(textwrap.indent(f"{result.table}\n", " " * 9))
    _say(
        f"         {result.record_count:>9,} records, {result.payload_bytes:,} bytes in "
        f"{result.seconds:.1f} s  {'same' if is_same else 'DIFFERENT'}"
    )
    return is_same


def _say(text: str) -> None:
    """Print a line for people, on stderr if standard output holds a document."""
    if selected_form() == TABLE:
        click.echo(text)
    else:
        print_message(text)


def _document(state: DemoState, outcome: DemoOutcome, *, is_good: bool) -> dict[str, Any]:
    source, acks, delivery = outcome.source, state.ack_latency, state.delivery_latency
    return {
        "is_good": is_good,
        "input": source.label,
        "size_bytes": source.size,
        "records": source.line_count,
        "sha256": source.sha256,
        "acked": outcome.acked_count,
        "readers": [
            {"region": reader.region, "records": reader.count, "sha256": reader.sha256}
            for reader in outcome.readers
        ],
        "segments": len(state.segments),
        "quorum": str(state.quorum),
        "ack_p50_ms": acks.quantile_ms(0.5),
        "ack_p99_ms": acks.quantile_ms(0.99),
        "ack_max_ms": acks.max_seconds * 1000,
        "delivery_p50_ms": delivery.quantile_ms(0.5),
        "delivery_p99_ms": delivery.quantile_ms(0.99),
        "archive": None if outcome.archived is None else outcome.archived.summary(),
    }


async def _play(
    source: Source, root: Path, options: DemoOptions, is_live: bool
) -> tuple[DemoOutcome, DemoState]:
    this = asyncio.current_task()
    assert this is not None
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, this.cancel)
    view = LiveView(Console()) if is_live else PlainView(_say)
    demo_run = Demo(source, root, options, view.update)
    try:
        with view:
            outcome = await demo_run.run()
    except (RhumblineError, TimeoutError, asyncio.CancelledError) as error:
        why = "interrupted" if isinstance(error, asyncio.CancelledError) else "failed"
        print_message(f"{why} after {_progress(demo_run.state)}")
        raise
    if is_live:
        with PlainView(_say) as plain:  # the live view has left the screen
            plain.update(demo_run.state)
    _say(summary(demo_run.state, outcome))
    return outcome, demo_run.state


def summary(state: DemoState, outcome: DemoOutcome) -> str:
    """Return the summary of a demo run."""
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
            "skipped: pip install 'rhumbline[arrow]'"
            if outcome.archived is None
            else outcome.archived.summary()
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
        raise InvalidArgumentError(
            f"--rtt {text!r} is not three round trips in ms, e.g. {_ROUND_TRIPS}"
        )
    near, far, other = (int(part) for part in parts)
    if max(near, far, other) > 2_000:
        raise InvalidArgumentError(f"--rtt {text!r}: a round trip is above 2000 ms")
    return near, far, other
