"""Shows the progress of drains: what is left, what each ledger waits for, and an estimated time.

On a terminal one line is kept up to date. Otherwise a line is printed when something has changed,
at most every 10 s, and every minute if nothing changes: to stderr, as text or as a JSON object.
"""

import asyncio
import time
from collections.abc import Mapping
from functools import partial
from typing import Any

from ....client.units import show_bytes, show_count, show_ms
from ....core.protocol.bookie_id import BookieId, Region
from ....regions.repair.drain_records import DrainRecord, region_target
from ....regions.repair.progress import (
    NO_REPAIR,
    IsLeaving,
    RemainingCopies,
    count_all_remaining,
    count_remaining,
)
from ....regions.states import PlacementState, PlacementStates
from ...options import CommandSession
from ...output import TABLE, ProgressBar, print_event, print_message
from ...output_schema import flag, integer, listing, maybe, text
from ...output_schema import record as record_of
from ..opened_cluster import Cluster

_POLL_S = 1.0
_LINE_S = 10.0
_LINE_S_MAX = 60.0
_SHOWN_MAX = 3
_DOCUMENT_MAX = 20
"""Maximum number of ledgers with their reasons in one JSON object."""

_MOVING = (PlacementState.DRAINED, PlacementState.OFFLINE)


DRAIN = record_of(
    {
        "target": text("The bookie, or the region."),
        "is_done": flag("True if no data is left."),
        "ledgers": integer("Ledgers with data that is left."),
        "copies": integer("Copies that are left."),
        "entries": integer("Entries that are left."),
        "bytes": integer("Their size."),
        "being_written": integer("Ledgers that are still being written."),
        "hopeless": integer("Ledgers with entries without any copy."),
        "eta_ms": maybe(integer("Estimated time until the end; null if nothing has moved yet.")),
        "waiting": listing(
            record_of(
                {
                    "ledger": integer("Id of the ledger."),
                    "stream": maybe(text("Its stream.")),
                    "is_open": flag("True if it is still open."),
                    "reason": text("What it waits for."),
                }
            ),
            "Ledgers that cannot move now, the first twenty.",
        ),
    }
)
"""The schema of ``as_document``."""


async def watch(
    session: CommandSession, cluster: Cluster, target: str, is_leaving: IsLeaving
) -> None:
    """Show progress until no data is left."""
    if await cluster.tasks.auditor() is None:
        print_message(NO_REPAIR)
    record = await cluster.drains.read(target)
    lines = ProgressLines()
    with ProgressBar() as progress:
        while True:
            begun = time.monotonic()
            found = await count_remaining(
                cluster.ledgers, cluster.directory, cluster.tasks, is_leaving
            )
            record = record or DrainRecord(_now_ms(), found.entries)
            eta_ms = record.left_ms(found.entries, _now_ms())
            line = describe(found, eta_ms)
            done = max(0, record.entries - found.entries)
            if session.output == TABLE:
                progress.show(line, done, record.entries)
            if lines.is_due(line, time.monotonic(), is_last=found.is_empty):
                document = as_document(target, found, eta_ms)
                _print_line(session, line, document, done, record.entries)
            if found.is_empty:
                await cluster.drains.end(target)
                return
            await asyncio.sleep(max(_POLL_S, time.monotonic() - begun))


def _print_line(
    session: CommandSession, line: str, document: Mapping[str, Any], done: int, total: int
) -> None:
    if session.output != TABLE:
        print_event("progress", text=line, done=done, total=total, left=document)
    elif not ProgressBar.is_shown():
        print_message(line)


async def running_drains(cluster: Cluster) -> list[dict[str, Any]]:
    """Return the progress of all drains of one metadata store as JSON values, in one pass."""
    states = await cluster.directory.states.read()
    targets = leaving_targets(states)
    found = await count_all_remaining(cluster.ledgers, cluster.directory, cluster.tasks, targets)
    documents = []
    for target, remaining in found.items():
        record = await cluster.drains.read(target)
        eta_ms = None if record is None else record.left_ms(remaining.entries, _now_ms())
        documents.append(as_document(target, remaining, eta_ms))
    return documents


def leaving_targets(states: PlacementStates) -> dict[str, IsLeaving]:
    """Return the bookies and regions whose copies move elsewhere, with their conditions."""
    targets: dict[str, IsLeaving] = {}
    for bookie, state in states.bookies.items():
        if state in _MOVING:
            targets[bookie] = partial(_is_bookie, bookie)
    for region, state in states.regions.items():
        if state in _MOVING:
            targets[region_target(region)] = partial(_is_in, region)
    return targets


def _is_bookie(leaving: BookieId, bookie: BookieId, _: Region | None) -> bool:
    return bookie == leaving


def _is_in(leaving: Region, _: BookieId, region: Region | None) -> bool:
    return region == leaving


def as_document(target: str, found: RemainingCopies, eta_ms: int | None) -> dict[str, Any]:
    """Return the progress of a drain as JSON values."""
    return {
        "target": target,
        "is_done": found.is_empty,
        "ledgers": found.ledgers,
        "copies": found.copies,
        "entries": found.entries,
        "bytes": found.bytes,
        "being_written": found.writing,
        "hopeless": found.hopeless,
        "eta_ms": eta_ms,
        "waiting": [
            {
                "ledger": ledger.ledger_id,
                "stream": ledger.stream or None,
                "is_open": ledger.is_open,
                "reason": ledger.reason,
            }
            for ledger in found.blocked[:_DOCUMENT_MAX]
        ],
    }


def describe(found: RemainingCopies, eta_ms: int | None) -> str:
    """Return the progress of a drain in one line."""
    if found.is_empty:
        return "no data left"
    parts = [
        f"{show_count(found.ledgers, 'ledger')}, {show_count(found.copies, 'copy', 'copies')}, "
        f"{show_bytes(found.bytes)} left",
        "ETA unknown" if eta_ms is None else f"ETA {show_ms(eta_ms)}",
    ]
    if found.writing:
        parts.append(f"{found.writing} being written")
    for ledger in found.blocked[:_SHOWN_MAX]:
        name = (
            f"{ledger.stream} (ledger {ledger.ledger_id})"
            if ledger.stream
            else (f"ledger {ledger.ledger_id}")
        )
        parts.append(f"{name}: {ledger.reason}")
    if len(found.blocked) > _SHOWN_MAX:
        parts.append(f"and {show_count(len(found.blocked) - _SHOWN_MAX, 'more ledger')}")
    return "; ".join(parts)


class ProgressLines:
    """Decides when a line of progress is printed for readers that are no terminal."""

    def __init__(self) -> None:
        self._last = ""
        self._printed_at: float | None = None

    def is_due(self, line: str, now: float, *, is_last: bool) -> bool:
        """Return whether to print ``line`` now (seconds); if so, it counts as printed."""
        waited = _LINE_S_MAX if self._printed_at is None else now - self._printed_at
        is_due = is_last or waited >= _LINE_S_MAX or (line != self._last and waited >= _LINE_S)
        if is_due:
            self._last, self._printed_at = line, now
        return is_due


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
