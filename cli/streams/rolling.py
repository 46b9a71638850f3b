"""``rhumbline stream roll``, ``seal`` and ``unseal``: end open segments, and refuse writers."""

import asyncio

import click

from ...client.connect import Client
from ...client.units import parse_ms, show_ms
from ...core.log.metadata.stream_description import StreamDescription
from ...core.protocol.errors import DeadlineExceededError
from ...core.protocol.ledger_metadata import LedgerState
from ...core.protocol.segments import Segment
from ...regions.ownerless.ownerless_ledgers import OwnerlessLedgers
from ...regions.repair.errors import RepairStuckError
from ..options import CommandSession, runs, session_options
from ..output import print_done
from ..output_schema import done, flag, integer, maybe, prints, text
from ..waiting import timeout_option

_POLL_S = 0.2
_NAME = text("Name of the stream.")
_SEALED = done({"stream": _NAME, "is_sealed": flag("True if all writers are refused now.")})


@click.command()
@click.argument("name")
@click.option(
    "--grace",
    "grace_ms",
    default="15s",
    show_default=True,
    callback=lambda _context, _option, text: parse_ms(text),
    help="Time without any sign of life after which the writer counts as gone.",
)
@click.option(
    "--force", is_flag=True, help="Take the stream over at once. A writer that is alive loses it."
)
@timeout_option
@prints(
    done(
        {
            "stream": _NAME,
            "completed_segment": maybe(integer("The segment that was ended; null: none was open.")),
            "open_segment": maybe(integer("The segment in which its writer continues.")),
        }
    )
)
@session_options
@runs
async def roll(
    session: CommandSession, name: str, grace_ms: int, force: bool, timeout_ms: int
) -> None:
    """End the open segment of a stream, so that its ledger is closed and can be repaired or moved.

    A writer that is alive is asked to continue in a new segment, wherever it runs. If it shows no
    sign of life for the grace time, the stream is taken over from it, and the next writer continues
    behind the last acknowledged record.
    """
    async with session.client() as client:
        namespace = client.namespace()
        before = await namespace.describe(name)
        last = _open_segment(before)
        if last is None:
            print_done(
                {"stream": name, "completed_segment": None, "open_segment": None},
                session.output,
                f"stream {name} has no open segment",
            )
            return
        if force:
            await namespace.take_over(name)
        else:
            await _roll(client, name, last, grace_ms, timeout_ms)
        after = await namespace.describe(name)
        following = after.segments[-1]
        opened = None if following.lssn == last.lssn else following.lssn
        end = "the stream has no writer"
        if opened is not None:
            end = f"its writer continues in segment {opened}"
        print_done(
            {"stream": name, "completed_segment": last.lssn, "open_segment": opened},
            session.output,
            f"segment {last.lssn} of {name} is completed; {end}",
        )


@click.command()
@click.argument("name")
@prints(_SEALED)
@session_options
@runs
async def seal(session: CommandSession, name: str) -> None:
    """Refuse all writes to a stream until it is unsealed. Its writer loses it. Safe to repeat.

    All acknowledged records stay readable. When the command has returned, no record is acknowledged
    any more.
    """
    async with session.client() as client:
        await client.namespace().seal(name)
        print_done(
            {"stream": name, "is_sealed": True},
            session.output,
            f"stream {name} is sealed: it accepts no records until it is unsealed",
        )


@click.command()
@click.argument("name")
@prints(_SEALED)
@session_options
@runs
async def unseal(session: CommandSession, name: str) -> None:
    """Let writers open a sealed stream again. Safe to repeat."""
    async with session.client(moves_data=False) as client:
        was_sealed = await client.namespace().unseal(name)
        print_done(
            {"stream": name, "is_sealed": False},
            session.output,
            f"stream {name} accepts records again"
            if was_sealed
            else f"stream {name} is not sealed",
        )


def _open_segment(known: StreamDescription) -> Segment | None:
    """Return the last segment if it is in progress."""
    if not known.segments or known.segments[-1].is_completed:
        return None
    return known.segments[-1]


async def _roll(client: Client, name: str, last: Segment, grace_ms: int, timeout_ms: int) -> None:
    """Wait until the segment is completed, by its writer or by a takeover.

    Raises DeadlineExceededError.
    """
    store = await client.namespaces.find(client.namespace().name)
    ownerless = OwnerlessLedgers(
        client.runtime,
        store.store,
        store.ledgers,
        store.directory,
        lambda namespace: client.namespace_of(store, namespace),
        grace_ms,
    )
    loop = asyncio.get_running_loop()
    deadline = loop.time() + timeout_ms / 1000
    reason = ""
    while True:
        metadata, version = await store.ledger_store.read(last.ledger_id)
        if metadata.state is LedgerState.OPEN:
            try:
                await ownerless.end(metadata, version, "an operator rolls the stream")
            except RepairStuckError as error:
                reason = str(error)
        else:
            known = await client.namespace().describe(name)
            if all(found.is_completed for found in known.segments if found.lssn <= last.lssn):
                await ownerless.withdraw_done()
                return
            reason = f"ledger {last.ledger_id} is {metadata.state.value}, its segment in progress"
        if loop.time() >= deadline:
            raise DeadlineExceededError(f"after {show_ms(timeout_ms)}: {reason}")
        await asyncio.sleep(_POLL_S)
