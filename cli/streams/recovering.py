"""``rhumbline stream recover``: take a stream over, also if the end of a ledger is not provable."""

import asyncio
import sys
from dataclasses import replace
from typing import Any

import click

from ...core.log.namespace import Namespace
from ...core.protocol.errors import RecoveryIncompleteError
from ...core.protocol.ledger_metadata import NO_ENTRY
from ...core.protocol.recovery import ProvableEnd
from ...core.runtime.clock import Clock
from ..errors import UnsafeError
from ..output import TABLE, print_done, print_message, print_record
from ..output_schema import done, flag, integer, listing, maybe, record, text

PROVABLE_END = record(
    {
        "last_entry_kept": integer("The last entry that can be kept; -1 if none."),
        "confirmed_up_to": integer("Up to this entry, all were certainly acknowledged."),
        "certainly_lost": integer("How many of these are certainly lost."),
        "doubtful_from": integer("From this entry on, some may have been acknowledged."),
        "highest_seen": integer("The highest entry of which a copy was seen."),
        "is_writer_fenced": flag("True if the old writer can acknowledge nothing more."),
        "silent_bookies": listing(text("Bookie."), "Bookies that do not respond."),
    }
)
RECOVERED = done(
    {
        "stream": text("Name of the stream."),
        "decided_ends": listing(PROVABLE_END, "Ends without proof that were decided."),
        "doubt": maybe(text("What is known about the end of the last segment.")),
    }
)
"""The schema of ``stream recover``."""


def provable_end_document(found: ProvableEnd) -> dict[str, Any]:
    """Return what is provable, and where the doubt comes from."""
    return {
        "last_entry_kept": found.last_entry_id,
        "confirmed_up_to": found.confirmed,
        "certainly_lost": found.lost_count,
        "doubtful_from": found.doubtful_from,
        "highest_seen": found.highest_seen,
        "is_writer_fenced": found.is_writer_fenced,
        "silent_bookies": list(found.silent),
    }


async def recover_stream(
    namespace: Namespace, clock: Clock, name: str, *, at_provable_end: bool, reason: str, yes: bool,
    output: str,
) -> None:  # fmt: skip
    """Take the stream over; if ``at_provable_end``, an operator may decide ends without proof.

    Raises UnsafeError if the operator does not confirm, and RecoveryIncompleteError if an end
    cannot be proven and ``at_provable_end`` is False.
    """

    decided: list[dict[str, Any]] = []

    async def confirm(found: ProvableEnd) -> ProvableEnd:
        decided.append(provable_end_document(found))
        if output == TABLE:
            print_record(decided[-1], output)
        end = "empty" if found.last_entry_id == NO_ENTRY else f"at entry {found.last_entry_id}"
        question = (
            f"Close the ledger {end}? Everything after it is lost for good, also if the bookies "
            "come back"
        )
        if not yes and not sys.stdin.isatty():
            raise UnsafeError(f"{question}: give --yes if so")
        if not yes and not await asyncio.to_thread(click.confirm, question, err=True):
            raise UnsafeError("nothing was closed")
        return replace(found, closed_ms=clock.wall_ms(), reason=reason)

    try:
        await namespace.take_over(name, confirm if at_provable_end else None)
    except RecoveryIncompleteError as error:
        if at_provable_end:
            raise
        raise RecoveryIncompleteError(
            f"{error}; if these bookies are lost for good: --at-provable-end"
        ) from error
    known = await namespace.describe(name)
    last = known.segments[-1] if known.segments else None
    if last is not None and last.doubt:
        print_message(f"segment {last.lssn} was {last.doubt}")
    print_done(
        {"stream": name, "decided_ends": decided, "doubt": (last and last.doubt) or None},
        output,
        f"stream {name} has no writer, and all of its segments are completed",
    )
