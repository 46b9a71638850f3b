"""``rhumbline rebalance``: plan, start, status, pause, resume, stop."""

from typing import Any

import click

from ...client.connect import Client
from ...client.units import parse_bytes, show_bytes, show_count
from ...core.metadata.ledger_store import LedgerStore
from ...core.protocol.errors import InvalidArgumentError
from ...regions.rebalance.order_store import (
    OrderStore,
    RebalanceOrder,
    RebalanceProgress,
    RebalanceStatus,
)
from ...regions.rebalance.plan import RebalancePlan
from ...regions.rebalance.survey import Survey
from ...regions.repair.liveness import LivenessMonitor
from ...regions.repair.task_store import TaskStore
from ..cluster_store import cluster_store
from ..options import CommandSession, runs, session_options
from ..output import TABLE, ProgressBar, print_done, print_message, print_record, print_rows
from ..output_schema import done, integer, maybe, prints, record, rows, text
from ..waiting import timeout_option, wait_until

_tolerance_option = click.option(
    "--tolerance",
    type=click.IntRange(1, 1000),
    default=10,
    show_default=True,
    help="Percentage by which the share of a bookie may exceed that of its region.",
)


@click.group()
def rebalance() -> None:
    """Move copies of closed ledgers to bookies of the same region that hold less."""


_STATUS = text("State of the order.", "none", *(status.value for status in RebalanceStatus))
_ORDERED = done({"status": _STATUS})
_FILL = {
    "bookie": text("Id of the bookie."),
    "region": maybe(text("Its region.")),
    "disk_bytes": integer("Size of its file system."),
    "used_bytes": integer("Used bytes before."),
    "used_after_bytes": integer("Used bytes after the moves."),
}
_PROGRESS = {
    "status": _STATUS,
    "moved_copies": integer("Copies that were moved."),
    "moved_bytes": integer("Their size."),
    "left_copies": integer("Copies that are left."),
    "left_bytes": integer("Their size."),
    "rate_limit_bytes_per_second": maybe(integer("Limit of the copying.")),
    "failed": integer("Moves that failed."),
    "last_error": maybe(text("The error of the last one.")),
}


@rebalance.command()
@_tolerance_option
@prints(rows(record(_FILL)))
@session_options
@runs
async def plan(session: CommandSession, tolerance: int) -> None:
    """Show what would move, and the used bytes of each bookie before and after. Changes nothing."""
    async with session.client() as client:
        with ProgressBar() as progress:
            progress.show("reading the metadata of all ledgers")
            fills, copies, size = await _planned(
                client, session.settings.repair.lost_after_ms, tolerance
            )
    print_rows(fills, session.output, empty="no bookie takes new data")
    print_message(f"{show_count(copies, 'copy', 'copies')} of {show_bytes(size)} would move")


async def _planned(
    client: Client, lost_after_ms: int, tolerance: int
) -> tuple[list[dict[str, Any]], int, int]:
    liveness = await LivenessMonitor(client.directory, lost_after_ms).snapshot()
    survey = Survey(client.ledgers, LedgerStore(client.store), liveness)
    fills = await survey.fills()
    found = RebalancePlan(fills, tolerance)
    copies = size = 0
    async for settled in survey.copies():
        moves = found.moves_of(settled)
        copies += len(moves)
        size += sum(move.bytes for move in moves)
    shown = [
        {
            "bookie": fill.info.bookie,
            "region": fill.info.region,
            "disk_bytes": fill.capacity_bytes,
            "used_bytes": fill.used_bytes,
            "used_after_bytes": found.used_bytes[fill.info.bookie],
        }
        for fill in sorted(fills, key=lambda fill: (str(fill.info.region), fill.info.bookie))
    ]
    return shown, copies, size


@rebalance.command()
@_tolerance_option
@click.option(
    "--bytes-per-second",
    default="20MiB",
    show_default=True,
    help="Rate limit of copying.",
)
@prints(_ORDERED)
@session_options
@runs
async def start(session: CommandSession, tolerance: int, bytes_per_second: str) -> None:
    """Let repair move copies in the background. Replaces an earlier request."""
    rate = parse_bytes(bytes_per_second)
    if rate < 1:
        raise InvalidArgumentError(f"--bytes-per-second {bytes_per_second} is not at least 1")
    async with session.client() as client:
        now_ms = client.runtime.clock.wall_ms()
        order = RebalanceOrder(RebalanceStatus.RUNNING, rate, tolerance, now_ms)
        await OrderStore(client.store).order(order)
        print_done(
            {"status": order.status.value},
            session.output,
            f"rebalancing is requested, at {show_bytes(rate)}/s",
        )
        if await TaskStore(client.store).auditor() is None:
            print_message("no repair process is running: start `rhumbline repair run`")


@rebalance.command()
@click.option("--wait", "waits", is_flag=True, help="Wait until nothing is left to move.")
@timeout_option
@prints(record(_PROGRESS))
@session_options
@runs
async def status(session: CommandSession, waits: bool, timeout_ms: int) -> None:
    """Show the state and the progress of rebalancing."""
    async with cluster_store(session) as store:
        orders = OrderStore(store)

        async def read() -> tuple[RebalanceOrder | None, RebalanceProgress | None]:
            return await orders.read(), await orders.read_progress()

        order, progress = await wait_until(
            read,
            lambda found: not waits or found[0] is None or found[0].status is RebalanceStatus.DONE,
            timeout_ms=timeout_ms,
            describe=lambda found: (
                show_count(found[1].left_copies, "copy to move", "copies to move")
                if found[1]
                else "all copies to move"
            ),
        )
    if order is None:
        if session.output == TABLE:
            print_rows([], session.output, empty="no rebalancing is requested")
        else:
            nothing = dict.fromkeys(("moved_copies", "moved_bytes", "left_copies", "left_bytes"), 0)
            shown = {"rate_limit_bytes_per_second": None, "failed": 0, "last_error": None}
            print_record({"status": "none", **nothing, **shown}, session.output)
        return
    if progress is None or progress.ordered_ms != order.ordered_ms:
        progress = RebalanceProgress(order.ordered_ms)
    row = {
        "status": order.status.value,
        "moved_copies": progress.moved_copies,
        "moved_bytes": progress.moved_bytes,
        "left_copies": progress.left_copies,
        "left_bytes": progress.left_bytes,
        "rate_limit_bytes_per_second": order.bytes_per_second,
        "failed": progress.failed_moves,
        "last_error": progress.last_error or None,
    }
    if session.output == TABLE:
        print_rows([row], session.output, empty="")
    else:
        print_record(row, session.output)


async def _change(
    session: CommandSession, before: RebalanceStatus, after: RebalanceStatus, message: str
) -> None:
    async with cluster_store(session) as store:
        await OrderStore(store).change(before, after)
        print_done({"status": after.value}, session.output, message)


@rebalance.command()
@prints(_ORDERED)
@session_options
@runs
async def pause(session: CommandSession) -> None:
    """Stop after the copy that is being moved. Safe to repeat."""
    message = "rebalancing pauses after the copy that is being moved"
    await _change(session, RebalanceStatus.RUNNING, RebalanceStatus.PAUSED, message)


@rebalance.command()
@prints(_ORDERED)
@session_options
@runs
async def resume(session: CommandSession) -> None:
    """Continue after a pause, with a new plan. Safe to repeat."""
    await _change(session, RebalanceStatus.PAUSED, RebalanceStatus.RUNNING, "rebalancing continues")


@rebalance.command()
@prints(_ORDERED)
@session_options
@runs
async def stop(session: CommandSession) -> None:
    """Cancel rebalancing. Copies that have moved stay where they are. Safe to repeat."""
    async with cluster_store(session) as store:
        await OrderStore(store).remove()
        print_done({"status": "none"}, session.output, "no rebalancing is requested")
