"""``rhumbline repair``: run, ls."""

import asyncio
import signal
from typing import Any

import click

from ...client.units import show_count
from ...server.repair_services import RepairServices
from ...server.status_server import StatusServer
from ..options import CommandSession, runs, session_options, setting_option
from ..output import print_message, print_rows
from ..waiting import timeout_option, wait_until
from .draining import opened


@click.group()
def repair() -> None:
    """Repair the cluster: replace lost copies, and move misplaced ones."""


@repair.command()
@setting_option("repair.lost_after_ms", "--lost-after")
@setting_option("repair.audit_interval_ms", "--audit-interval")
@setting_option("repair.retention_interval_ms", "--retention-interval")
@setting_option("repair.worker_count", "--workers")
@setting_option("repair.bytes_per_second", "--bytes-per-second")
@click.option(
    "--host", default="127.0.0.1", show_default=True, help="Address of the status server."
)
@click.option("--status-port", type=click.IntRange(0, 65535), default=0, show_default=True,
              help="Port of the status server; 0 selects a free one.")  # fmt: skip
@session_options
@runs
async def run(session: CommandSession, host: str, status_port: int) -> None:
    """Audit the cluster (one process at a time) and repair ledgers, until Ctrl-C or SIGTERM.

    If the region of this process has a metadata store of its own, the ledgers in that store are
    audited and repaired too.

    The auditing process also runs retention: it truncates and purges the streams of all namespaces
    by their policies. With cluster.cold it deletes hot copies and old archives too.

    The defaults of the options are in section [repair] of the settings. /stat on the status port
    shows the progress and, in the auditing process, the entries at risk by region.
    """
    with session.server_log("repair") as log:
        async with (
            session.telemetry("rhumbline-repair") as telemetry,
            session.client(tracer=telemetry.tracer) as client,
        ):
            services = RepairServices(client, session.settings.repair)

            def statistics() -> dict[str, Any]:
                return {**services.statistics(), "client": client.statistics()}

            telemetry.observe("repair", statistics)
            status = StatusServer(statistics, services.unready_reason, service="repair")
            port = await status.start(host, status_port)
            log.source = f"repair@{host}:{port}"
            await services.start()
            print_message(
                f"repairing the cluster at {', '.join(services.uris)}; "
                f"statistics at http://{host}:{port}/stat; Ctrl-C stops it"
            )
            stop = asyncio.Event()
            for number in (signal.SIGTERM, signal.SIGINT):
                asyncio.get_running_loop().add_signal_handler(number, stop.set)
            try:
                await stop.wait()
            finally:
                await status.aclose()
                await services.aclose()


@repair.command()
@click.option("--wait", "waits", is_flag=True, help="Wait until no ledger needs repair.")
@timeout_option
@session_options
@runs
async def ls(session: CommandSession, waits: bool, timeout_ms: int) -> None:
    """List the ledgers that need repair, with the reason if one is stuck."""
    async with opened(session) as cluster:
        tasks = await wait_until(
            cluster.tasks.all,
            lambda tasks: not tasks or not waits,
            timeout_ms=timeout_ms,
            describe=lambda tasks: show_count(
                len(tasks), "ledger needs repair", "ledgers need repair"
            ),
        )
        rows = [
            {
                "ledger": task.ledger_id,
                "why": task.why,
                "stuck": task.stuck or None,
                "hopeless": task.is_hopeless,
            }
            for task in tasks
        ]
        auditor = await cluster.tasks.auditor()
        print_rows(rows, session.output, empty="no ledger needs repair")
        if auditor is None:
            print_message("no repair process is running: start `rhumbline repair run`")
