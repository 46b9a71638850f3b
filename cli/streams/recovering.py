"""``rhumbline stream recover``: take a stream over, also if the end of a ledger is not provable."""

import asyncio
import sys
from dataclasses import replace

import click

from ...core.log.namespace import Namespace
from ...core.protocol.errors import RecoveryIncompleteError
from ...core.protocol.ledger_metadata import NO_ENTRY
from ...core.protocol.recovery import ProvableEnd
from ...core.runtime.clock import Clock
from ..errors import UnsafeError
from ..output import print_message, print_record


def show_provable_end(found: ProvableEnd, output: str) -> None:
    """Print what is provable, and where the doubt comes from."""
    print_record(
        {
            "last entry that can be kept": found.last_entry_id,
            "certainly acknowledged up to entry": found.confirmed,
            "of these certainly lost": found.lost_count,
            "may have been acknowledged from entry": found.doubtful_from,
            "highest entry of which a copy was seen": found.highest_seen,
            "the old writer is fenced": found.is_writer_fenced,
            "bookies that do not respond": list(found.silent),
        },
        output,
    )


async def recover_stream(
    namespace: Namespace, clock: Clock, name: str, *, at_provable_end: bool, reason: str, yes: bool,
    output: str,
) -> None:  # fmt: skip
    """Take the stream over; if ``at_provable_end``, an operator may decide ends without proof.

    Raises UnsafeError if the operator does not confirm, and RecoveryIncompleteError if an end
    cannot be proven and ``at_provable_end`` is False.
    """

    async def confirm(found: ProvableEnd) -> ProvableEnd:
        show_provable_end(found, output)
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
    print_message(f"stream {name} has no writer, and all of its segments are completed")
