"""``rhumbline repair``: run, ls."""

import asyncio
import signal
from dataclasses import replace
from typing import Any

import click

from ...placement.region_aware import RegionAwarePlacement
from ...regions.repair.repair_service import RepairService
from ...server.status_server import StatusServer
from ..options import CommandSession, runs, session_options
from ..output import print_rows, say
from ..units import parse_bytes, parse_ms
from .draining import opened


@click.group()
def repair() -> None:
    """Repair makes copies again that were lost, and moves those that are misplaced."""


@repair.command()
@click.option("--lost-after", help="A bookie that is silent for so long is lost.")
@click.option("--audit-interval", help="Between two looks.")
@click.option("--workers", type=click.IntRange(1, 64), help="Ledgers mended side by side.")
@click.option("--bytes-per-second", help="Copied at most.")
@click.option("--host", default="127.0.0.1", show_default=True, help="Where figures are served.")
@click.option("--status-port", type=click.IntRange(0, 65535), default=0, show_default=True)
@session_options
@runs
async def run(
    session: CommandSession,
    lost_after: str | None,
    audit_interval: str | None,
    workers: int | None,
    bytes_per_second: str | None,
    host: str,
    status_port: int,
) -> None:
    """Audits (if no other process does) and mends, until it is stopped.

    What no option says is in section [repair] of the settings. /stat on the status port says how it
    goes and, in the process that audits, what hangs on each region alone.
    """
    given: dict[str, int | None] = {
        "lost_after_ms": parse_ms(lost_after) if lost_after else None,
        "audit_interval_ms": parse_ms(audit_interval) if audit_interval else None,
        "worker_count": workers,
        "bytes_per_second": parse_bytes(bytes_per_second) if bytes_per_second else None,
    }
    said = {name: value for name, value in given.items() if value is not None}
    config = replace(session.settings.repair, **said)
    async with (
        session.telemetry("rhumbline-repair") as telemetry,
        session.client(tracer=telemetry.tracer) as client,
    ):
        service = RepairService(
            client.runtime,
            client.store,
            client.ledgers,
            client.directory,
            RegionAwarePlacement(),
            config,
        )

        def statistics() -> dict[str, Any]:
            return {**service.statistics(), "client": client.statistics()}

        telemetry.observe("repair", statistics)
        status = StatusServer(
            statistics,
            lambda: None if service.is_working else service.last_error or "it is starting",
            service="repair",
        )
        port = await status.start(host, status_port)
        service.start()
        say(
            f"repairs the cluster at {client.store.uri}, figures at http://{host}:{port}/stat; "
            "Ctrl-C stops it"
        )
        stop = asyncio.Event()
        for number in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(number, stop.set)
        try:
            await stop.wait()
        finally:
            await status.aclose()
            await service.aclose()


@repair.command()
@session_options
@runs
async def ls(session: CommandSession) -> None:
    """Lists the ledgers that wait to be mended, and why they are stuck if they are."""
    async with opened(session) as cluster:
        rows = [
            {
                "ledger": task.ledger_id,
                "why": task.why,
                "stuck": task.stuck or None,
                "hopeless": task.is_hopeless,
            }
            for task in await cluster.tasks.all()
        ]
        auditor = await cluster.tasks.auditor()
        print_rows(rows, session.output, empty="nothing waits to be mended")
        if auditor is None:
            say("no repair process is running: start `rhumbline repair run`")
