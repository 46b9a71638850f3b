"""``rhumbline repair``: run, ls."""

import asyncio
import signal

import click

from ..placement.region_aware import RegionAwarePlacement
from ..regions.repair.config import RepairConfig
from ..regions.repair.service import RepairService
from .draining import opened
from .options import Session, runs, session_options
from .output import print_rows, say
from .units import parse_bytes, parse_ms


@click.group()
def repair() -> None:
    """Repair makes copies again that were lost, and moves those that are misplaced."""


@repair.command()
@click.option("--lost-after", default="5m", show_default=True, help="A silent bookie is lost.")
@click.option("--audit-interval", default="1m", show_default=True, help="Between two looks.")
@click.option("--workers", type=click.IntRange(1, 64), default=2, show_default=True)
@click.option("--bytes-per-second", default="50MiB", show_default=True, help="Copied at most.")
@session_options
@runs
async def run(
    session: Session, lost_after: str, audit_interval: str, workers: int, bytes_per_second: str
) -> None:
    """Audits (if no other process does) and mends, until it is stopped."""
    config = RepairConfig(
        lost_after_ms=parse_ms(lost_after),
        audit_interval_ms=parse_ms(audit_interval),
        worker_count=workers,
        bytes_per_second=parse_bytes(bytes_per_second),
    )
    async with session.client() as client:
        service = RepairService(
            client.runtime,
            client.store,
            client.ledgers,
            client.directory,
            RegionAwarePlacement(),
            config,
        )
        service.start()
        say(f"repairs the cluster at {client.store.uri}; Ctrl-C stops it")
        stop = asyncio.Event()
        for number in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(number, stop.set)
        try:
            await stop.wait()
        finally:
            await service.aclose()


@repair.command()
@session_options
@runs
async def ls(session: Session) -> None:
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
