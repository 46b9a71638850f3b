"""``rhumbline top``: a live screen of regions, servers, streams, repair and alerts."""

import asyncio
import signal
import sys
from typing import Any

import click
from rich.console import Console
from rich.live import Live

from ...client.units import parse_ms
from ...core.protocol.errors import InvalidArgumentError, UnavailableError
from ..options import CommandSession, runs, session_options
from ..output import TABLE, DocumentWriter, print_document
from ..output_schema import prints
from .report import TOP, report, without_store
from .sample import ClusterSample, Sampler
from .screen import screen

_INTERVAL_MS_MIN = 200
_ONCE_S = 1.0
"""Time between the two samples of ``--once``, from which the rates follow."""
_LINES_PIPED, _COLUMNS_PIPED = 100, 120


@click.command()
@click.option("--once", is_flag=True, help="Print one screen and exit.")
@click.option("--interval", default="2s", show_default=True, help="Time between two samples.")
@prints(TOP)
@session_options
@runs
async def top(session: CommandSession, once: bool, interval: str) -> None:
    """Show regions, servers, streams by rate, lag, latency, repair and alerts, until Ctrl-C.

    Every server is asked for its statistics. Rates and 99th percentiles are those since the last
    sample. Of many streams, the busiest are examined each time, and the others in rotation. Without
    a terminal, or with --once, one screen is printed; --output jsonl prints a line for each sample.
    """
    interval_ms = parse_ms(interval)
    if interval_ms < _INTERVAL_MS_MIN:
        raise InvalidArgumentError(f"--interval {interval} is below {_INTERVAL_MS_MIN} ms")
    async with session.client(moves_data=False) as client:
        viewer = _Viewer(Sampler(client), f"rhumbline top  {client.store.uri}")
        if once or session.output == "json":
            await viewer.take()
            await asyncio.sleep(min(_ONCE_S, interval_ms / 1000))
            await viewer.take()
            if session.output != TABLE:
                print_document(viewer.document, session.output)
            else:
                viewer.print_once()
            return
        await _follow(session, viewer, interval_ms / 1000)


class _Viewer:
    """The latest document, and the screen that shows it."""

    def __init__(self, sampler: Sampler, title: str) -> None:
        self.document: dict[str, Any] = {}
        self._title = title
        self._sampler = sampler
        self._latest: ClusterSample | None = None

    async def take(self) -> None:
        """Take a sample, and compute the rates since the one before."""
        now = await self._sampler.take()
        self.document = report(self._latest, now)
        self._latest = now
        self._sampler.busiest = [row["stream"] for row in self.document["streams"]]

    def fail(self, error: UnavailableError) -> None:
        """Show the last document with the error that prevents a new one. Raises it at first."""
        if self._latest is None:
            raise error
        self.document = without_store(self.document, str(error))

    def draw(self, live: Live) -> None:
        """Show the latest document on a live screen."""
        size = live.console.size
        live.update(screen(self.document, self._title, size.width, size.height), refresh=True)

    def print_once(self) -> None:
        """Print the latest document as a screen."""
        is_terminal = sys.stdout.isatty()
        console = Console(width=None if is_terminal else _COLUMNS_PIPED)
        height = console.size.height if is_terminal else _LINES_PIPED
        console.print(screen(self.document, self._title, console.size.width, height))


async def _follow(session: CommandSession, viewer: _Viewer, interval_s: float) -> None:
    """Take samples until an interrupt; a metadata store that is away is waited for."""
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    if session.output != TABLE:
        with DocumentWriter(session.output) as writer:
            while not stop.is_set():
                await viewer.take()
                writer.write([viewer.document])
                await _pause(stop, interval_s)
        return
    if not sys.stdout.isatty():
        await viewer.take()
        await _pause(stop, min(_ONCE_S, interval_s))
        await viewer.take()
        viewer.print_once()
        return
    with Live(console=Console(), screen=True, auto_refresh=False) as live:
        while not stop.is_set():
            try:
                await viewer.take()
            except UnavailableError as error:
                viewer.fail(error)
            viewer.draw(live)
            await _pause(stop, interval_s)


async def _pause(stop: asyncio.Event, seconds: float) -> None:
    try:
        async with asyncio.timeout(seconds):
            await stop.wait()
    except TimeoutError:
        return
