"""``rhumbline stream roll``, ``seal`` and ``unseal``: end open segments, and refuse writers."""

import asyncio
from typing import NamedTuple

import click

from ...client.connect import Client
from ...client.store_client import StoreClient
from ...client.units import parse_ms, show_ms
from ...core.log.metadata.stream_description import StreamDescription
from ...core.log.namespace import Namespace
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


class RollOutcome(NamedTuple):
    """The result of a roll."""

    completed: int | None
    """The segment that was ended; None if none was open."""
    opened: int | None
    """The segment in which the writer continues; None if there is no writer."""

    def describe(self, name: str) -> str:
        """Return the result in a sentence."""
        if self.completed is None:
            return f"stream {name} has no open segment"
        end = "the stream has no writer"
        if self.opened is not None:
            end = f"its writer continues in segment {self.opened}"
        return f"segment {self.completed} of {name} is completed; {end}"


@click.command()
@click.argument("name")
@click.option(
    "--grace",
    "grace_ms",
    default="15s",
    show_default=True,
    callback=lambda _context, _option, text: parse_ms(text),
    help="Time without activity after which the writer is presumed dead.",
)
@click.option(
    "--force", is_flag=True, help="Take the stream over immediately, even from a live writer."
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

    A live writer is asked to continue in a new segment, wherever it runs. If it shows no activity
    for the grace time, the stream is taken over from it, and the next writer continues after the
    last acknowledged record.
    """
    async with session.client() as client:
        found = await roll_stream(
            client,
            client.namespace().name,
            name,
            grace_ms=grace_ms,
            timeout_ms=timeout_ms,
            force=force,
        )
        print_done(
            {"stream": name, "completed_segment": found.completed, "open_segment": found.opened},
            session.output,
            found.describe(name),
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


async def roll_stream(
    client: Client, namespace: str, name: str, *, grace_ms: int, timeout_ms: int, force: bool
) -> RollOutcome:
    """End the open segment of a stream, if it has one.

    Raises NoSuchStreamError, DeadlineExceededError, MetadataUnavailableError.
    """
    store = await client.namespaces.find(namespace)
    found = client.namespace_of(store, namespace)
    last = open_segment(await found.describe(name))
    if last is None:
        return RollOutcome(None, None)
    if force:
        await found.take_over(name)
    else:
        await _roll(client, store, found, name, last, grace_ms, timeout_ms)
    following = (await found.describe(name)).segments[-1]
    return RollOutcome(last.lssn, None if following.lssn == last.lssn else following.lssn)


def open_segment(known: StreamDescription) -> Segment | None:
    """Return the last segment if it is in progress."""
    if not known.segments or known.segments[-1].is_completed:
        return None
    return known.segments[-1]


async def _roll(
    client: Client, store: StoreClient, found: Namespace, name: str, last: Segment, grace_ms: int,
    timeout_ms: int,
) -> None:  # fmt: skip
    """Wait until the segment is completed, by its writer or by a takeover.

    Raises DeadlineExceededError.
    """
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
            known = await found.describe(name)
            if all(one.is_completed for one in known.segments if one.lssn <= last.lssn):
                await ownerless.withdraw_done()
                return
            reason = f"ledger {last.ledger_id} is {metadata.state.value}, its segment in progress"
        if loop.time() >= deadline:
            raise DeadlineExceededError(f"after {show_ms(timeout_ms)}: {reason}")
        await asyncio.sleep(_POLL_S)
