"""``rhumbline subscription``: ls, describe, create, seek, delete."""

from typing import Any

import click

from ...client.connect import Client
from ...client.system_runtime import system_runtime
from ...core.log.metadata.subscriptions import Subscription
from ...core.log.namespace import Namespace
from ...core.protocol.dlsn import Dlsn
from ...regions.subscriptions.lag_bytes import measure_bytes
from ...regions.subscriptions.stream_lag import (
    UNKNOWN_LAG,
    StreamCount,
    count_records,
    lag_of,
)
from ..options import CommandSession, runs, session_options
from ..output import print_done, print_record, print_rows
from ..output_schema import Schema, done, integer, maybe, prints, record, rows, text
from .start_options import START_HELP, parse_start


@click.group()
def subscription() -> None:
    """Show and move subscriptions: the stored positions of readers of a stream."""


_STREAM = text("Name of the stream.")
_NAME = text("Name of the subscription.")
_ROW: dict[str, Schema] = {
    "subscription": _NAME,
    "position": text("DLSN of the first record that is not acknowledged."),
    "lag_records": maybe(integer("Readable records from the position on; null: unknown.")),
    "lag_bytes": maybe(integer("Their bytes, exact in wholly unread segments; null: unknown.")),
    "behind_ms": maybe(integer("Age of the oldest of them; 0: none, null: unknown.")),
    "acknowledged_ranges": integer(
        "Ranges of single records above the position that are acknowledged."
    ),
}


@subscription.command()
@click.argument("stream")
@prints(rows(record(_ROW)))
@session_options
@runs
async def ls(session: CommandSession, stream: str) -> None:
    """List the subscriptions of STREAM with their lag."""
    async with session.client(moves_data=False) as client:
        namespace = client.namespace()
        await namespace.describe(stream)  # fails if the stream does not exist
        count = await count_records(namespace, stream)
        found = []
        after = None
        while page := await namespace.subscriptions.names(stream, after=after, limit=100):
            for name in page:
                known = await namespace.subscriptions.read(stream, name)
                found.append(await _row(namespace, stream, known, count))
            after = page[-1]
        print_rows(found, session.output, empty=f"no subscription of {stream}")


@subscription.command()
@click.argument("stream")
@click.argument("name")
@prints(
    record(
        {
            "stream": _STREAM,
            **_ROW,
            "generation": integer("How often it was moved by seek."),
            "repeated_deliveries": integer(
                "Unacknowledged records that were delivered more than once."
            ),
            "consumer": maybe(
                text("Id of the consumer that acknowledges single records; null: none did.")
            ),
        }
    )
)
@session_options
@runs
async def describe(session: CommandSession, stream: str, name: str) -> None:
    """Show the subscription NAME of STREAM."""
    async with session.client(moves_data=False) as client:
        namespace = client.namespace()
        known = await namespace.subscriptions.read(stream, name)
        row = await _row(namespace, stream, known, await count_records(namespace, stream))
    held = known.acknowledgements
    print_record(
        {
            "stream": stream,
            **row,
            "generation": known.generation,
            "repeated_deliveries": 0 if held is None else len(held.deliveries),
            "consumer": None if held is None else held.owner,
        },
        session.output,
    )


_MOVED = done({"stream": _STREAM, "subscription": _NAME, "position": text("Its DLSN now.")})


@subscription.command()
@click.argument("stream")
@click.argument("name")
@click.option("--from", "start", default="earliest", help=f"Begin at {START_HELP}.")
@prints(_MOVED)
@session_options
@runs
async def create(session: CommandSession, stream: str, name: str, start: str) -> None:
    """Create the subscription NAME of STREAM. An existing one keeps its position."""
    async with session.client(moves_data=False) as client:
        position = await _find(client, stream, start)
        made = await client.namespace().subscriptions.create(stream, name, position)
        _print_moved(session, stream, made)


@subscription.command()
@click.argument("stream")
@click.argument("name")
@click.option("--to", "start", required=True, help=f"Continue at {START_HELP}.")
@prints(_MOVED)
@session_options
@runs
async def seek(session: CommandSession, stream: str, name: str, start: str) -> None:
    """Move the subscription NAME of STREAM, forward or back.

    Acknowledgements of single records are discarded. Readers that began before cannot commit any
    more, and continue at the new position when they open the subscription again.
    """
    async with session.client(moves_data=False) as client:
        position = await _find(client, stream, start)
        moved = await client.namespace().subscriptions.reset(stream, name, position)
        _print_moved(session, stream, moved)


@subscription.command()
@click.argument("stream")
@click.argument("name")
@prints(done({"stream": _STREAM, "subscription": _NAME}))
@session_options
@runs
async def delete(session: CommandSession, stream: str, name: str) -> None:
    """Delete the subscription NAME of STREAM."""
    async with session.namespace(moves_data=False) as namespace:
        await namespace.subscriptions.delete(stream, name)
        print_done(
            {"stream": stream, "subscription": name},
            session.output,
            f"subscription {name} of {stream} was deleted",
        )


async def _find(client: Client, stream: str, start: str) -> Dlsn:
    reader = await client.namespace().open_reader(stream, parse_start(start))
    try:
        return reader.confirmed_position()
    finally:
        await reader.aclose()


async def _row(
    namespace: Namespace, stream: str, known: Subscription, count: StreamCount | None
) -> dict[str, Any]:
    lag = UNKNOWN_LAG
    if count is not None:
        lag = await lag_of(namespace, stream, known.position, count)
    [size] = await measure_bytes(namespace, stream, [lag], count)
    held = known.acknowledgements
    return {
        "subscription": known.name,
        "position": str(known.position),
        "lag_records": lag.records,
        "lag_bytes": size,
        "behind_ms": lag.behind_ms(system_runtime().clock.wall_ms()),
        "acknowledged_ranges": 0 if held is None else len(held.ranges),
    }


def _print_moved(session: CommandSession, stream: str, known: Subscription) -> None:
    print_done(
        {"stream": stream, "subscription": known.name, "position": str(known.position)},
        session.output,
        f"subscription {known.name} of {stream} is at {known.position}",
    )
