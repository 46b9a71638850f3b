"""``rhumbline repair``: run, ls, drains, inspect, fix."""

import asyncio
import signal
import sys
from typing import Any

import click

from ...client.connect import Client
from ...client.units import show_count, show_ms
from ...core.protocol.segments import NO_LEDGER
from ...regions.repair.progress import NO_REPAIR
from ...regions.repair.task_store import RepairTask
from ...regions.segment_repair.segment_faults import Remedy, SegmentFault
from ...regions.segment_repair.segment_repairer import SegmentRepairer
from ...regions.subscriptions.lag_runner import SeriesRule
from ...server.repair_services import RepairServices
from ...server.server_directory import ServerRecord
from ...server.status_server import StatusServer
from ...tls.protection import certificate_statistics
from ..options import CommandSession, runs, session_options, setting_option
from ..output import TABLE, print_message, print_rows
from ..output_schema import flag, integer, maybe, prints, record, rows, text
from ..servers.serving import (
    SERVING,
    announced,
    host_option,
    start_status,
    status_host_option,
    status_port_option,
)
from ..waiting import timeout_option, wait_until
from .drains.progress import DRAIN, running_drains
from .opened_cluster import opened_stores


@click.group()
def repair() -> None:
    """Repair the cluster: replace lost copies, move misplaced ones, and correct metadata."""


@repair.command()
@setting_option("repair.lost_after_ms", "--lost-after")
@setting_option("repair.audit_interval_ms", "--audit-interval")
@setting_option("repair.retention_interval_ms", "--retention-interval")
@setting_option("repair.worker_count", "--workers")
@setting_option("repair.bytes_per_second", "--bytes-per-second")
@host_option
@status_host_option
@status_port_option
@prints(SERVING)
@session_options
@runs
async def run(session: CommandSession) -> None:
    """Audit the cluster (one process at a time) and repair ledgers, until Ctrl-C or SIGTERM.

    If the region of this process has a metadata store of its own, the ledgers in that store are
    audited and repaired too.

    The auditing process also runs retention: it truncates and purges the streams of all namespaces
    by their policies. With cluster.cold it deletes hot copies and old archives too.

    The defaults of the options are in section [repair] of the settings. /stat on the status port
    shows the progress and, in the auditing process, how safe the data is.
    """
    with session.server_log("repair") as log:
        async with (
            session.telemetry("rhumbline-repair") as telemetry,
            session.client(tracer=telemetry.tracer) as client,
        ):
            telemetry_settings = session.settings.telemetry
            series = SeriesRule(telemetry_settings.series_by, telemetry_settings.series_max)
            services = RepairServices(client, session.settings.repair, series)

            def statistics() -> dict[str, Any]:
                return {
                    **services.statistics(),
                    "client": client.statistics(),
                    "tls": certificate_statistics(session.protection),
                }

            telemetry.observe("repair", statistics)
            status = StatusServer(
                statistics,
                services.unready_reason,
                service="repair",
                protection=session.protection,
            )
            address = await start_status(status, session, "repair")
            log.source = f"repair@{address}"
            await services.start()
            stop = asyncio.Event()
            for number in (signal.SIGTERM, signal.SIGINT):
                asyncio.get_running_loop().add_signal_handler(number, stop.set)
            server = ServerRecord("repair", "", address, client.region or "")
            message = f"repairing the cluster at {', '.join(services.uris)}"
            try:
                async with announced(session, client, message, server):
                    await stop.wait()
            finally:
                await status.aclose()
                await services.aclose()


@repair.command()
@click.option("--wait", "waits", is_flag=True,
              help="Wait until repair runs and no ledger is queued for it.")  # fmt: skip
@timeout_option
@prints(
    rows(
        record(
            {
                "ledger": integer("Id of the ledger."),
                "why": text("Why it needs repair."),
                "stuck": maybe(text("Why its repair does not succeed.")),
                "hopeless": flag("True if no copy is left to repair it from."),
            }
        )
    )
)
@session_options
@runs
async def ls(session: CommandSession, waits: bool, timeout_ms: int) -> None:
    """List the ledgers that audits found to need repair, with the reason if one is stuck.

    What happened after the last audit is not in it: see `rhumbline durability`.
    """
    async with opened_stores(session) as clusters:

        async def read() -> tuple[list[RepairTask], bool]:
            tasks = [task for cluster in clusters for task in await cluster.tasks.all()]
            return tasks, None not in [await cluster.tasks.auditor() for cluster in clusters]

        def describe(found: tuple[list[RepairTask], bool]) -> str:
            tasks, is_audited = found
            needing = show_count(len(tasks), "ledger needs repair", "ledgers need repair")
            return needing if is_audited else f"{needing}; {NO_REPAIR}"

        tasks, is_audited = await wait_until(
            read,
            lambda found: not waits or (not found[0] and found[1]),
            timeout_ms=timeout_ms,
            describe=describe,
        )
        found = [
            {
                "ledger": task.ledger_id,
                "why": task.why,
                "stuck": task.stuck or None,
                "hopeless": task.is_hopeless,
            }
            for task in tasks
        ]
        print_rows(found, session.output, empty="no ledger is queued for repair")
        if not is_audited:
            print_message(NO_REPAIR)


@repair.command()
@prints(rows(DRAIN))
@session_options
@runs
async def drains(session: CommandSession) -> None:
    """List the drains in progress: what is left, what it waits for, and an estimate of the time.

    These are the bookies and regions that are drained or offline. `node drain` and `region drain`
    show the same continuously; they can be interrupted and repeated.
    """
    async with opened_stores(session) as clusters:
        documents = [found for cluster in clusters for found in await running_drains(cluster)]
    if session.output != TABLE:
        print_rows(documents, session.output, empty="")
        return
    shown = [
        {
            "target": found["target"],
            "ledgers": found["ledgers"],
            "copies": found["copies"],
            "left_bytes": found["bytes"],
            "being_written": found["being_written"],
            "eta": "done" if found["is_done"] else _shown_eta(found["eta_ms"]),
            "waits_for": next((ledger["reason"] for ledger in found["waiting"]), None),
        }
        for found in documents
    ]
    print_rows(shown, session.output, empty="nothing is drained or offline")


def _shown_eta(eta_ms: int | None) -> str:
    return "unknown" if eta_ms is None else show_ms(eta_ms)


_FAULTS = rows(
    record(
        {
            "segment": integer("Number of the segment."),
            "ledger": maybe(integer("Id of its ledger.")),
            "fault": text("What disagrees."),
            "remedy": maybe(text("What `repair fix --apply` does about it.")),
        }
    )
)


@repair.command()
@click.argument("stream")
@prints(_FAULTS)
@session_options
@runs
async def inspect(session: CommandSession, stream: str) -> None:
    """Compare the segments of a stream with their ledgers, and show what disagrees.

    The exit code is 1 if something does. While a writer rolls, its last two segments may seem to.
    """
    async with session.client() as client:
        faults = await (await _repairer(client)).inspect(stream)
        _print_faults(session, stream, faults)
    sys.exit(1 if faults else 0)


@repair.command()
@click.argument("stream")
@click.option(
    "--apply",
    "is_applied",
    is_flag=True,
    help="Make the repairs; without it, only show what would be done.",
)
@prints(_FAULTS)
@session_options
@runs
async def fix(session: CommandSession, stream: str, is_applied: bool) -> None:
    """Repair segments of a stream that disagree with their ledgers. Safe to repeat.

    Nothing is deleted, shortened or hidden: a fault after which records could be missing is
    only reported. The exit code is 1 if faults remain.
    """
    async with session.client() as client:
        repairer = await _repairer(client)
        if is_applied:
            for fault in await repairer.repair_all(stream):
                print_message(f"segment {fault.lssn}: {fault.text}; done: {fault.remedy.value}")
        faults = await repairer.inspect(stream)
        _print_faults(session, stream, faults)
        if not is_applied and any(fault.remedy is not Remedy.NONE for fault in faults):
            print_message("nothing was changed; --apply repairs the faults that have a remedy")
    sys.exit(1 if faults else 0)


async def _repairer(client: Client) -> SegmentRepairer:
    namespace = client.namespace()
    store = await client.namespaces.find(namespace.name)
    return SegmentRepairer(store.store, store.ledgers, client.namespace_of(store, namespace.name))


def _print_faults(session: CommandSession, stream: str, faults: list[SegmentFault]) -> None:
    found = [
        {
            "segment": fault.lssn,
            "ledger": None if fault.ledger_id == NO_LEDGER else fault.ledger_id,
            "fault": fault.text,
            "remedy": None if fault.remedy is Remedy.NONE else fault.remedy.value,
        }
        for fault in faults
    ]
    print_rows(found, session.output, empty=f"the segments of {stream} agree with their ledgers")
