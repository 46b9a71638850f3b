"""``rhumbline group``: ls, describe, reset, delete."""

from typing import Any

import click

from ...client.system_runtime import system_runtime
from ...client.topics import Topics
from ...core.log.topics.group_state import GroupDescription
from ...regions.subscriptions.group_lag import LagTotal, PartitionLag, lag_by_member
from ..options import CommandSession, runs, session_options
from ..output import TABLE, ProgressBar, print_document, print_done, print_rows
from ..output_schema import Schema, done, integer, listing, maybe, prints, record, rows, text
from .start_options import START_HELP, parse_start


@click.group()
def group() -> None:
    """Show consumer groups: members that share the partitions of a topic."""


_TOPIC = text("Name of the topic.")
_GROUP = text("Name of the group.")
_LAG: dict[str, Schema] = {
    "lag_records": maybe(integer("Readable records that are not committed; null: unknown.")),
    "lag_bytes": maybe(integer("Their bytes, exact in wholly unread segments; null: unknown.")),
    "behind_ms": maybe(integer("Age of the oldest of them; 0: none, null: unknown.")),
}


@group.command()
@click.argument("topic")
@prints(rows(record({"group": _GROUP, "members": integer("Its members now."), **_LAG})))
@session_options
@runs
async def ls(session: CommandSession, topic: str) -> None:
    """List the groups of TOPIC with their members and their lag."""
    async with session.client(moves_data=False) as client:
        topics = Topics(client)
        found = []
        with ProgressBar() as progress:
            for name in await topics.groups(topic):
                progress.show(f"measuring the lag of {name}")
                described = await topics.describe_group(topic, name)
                lags = await topics.lag(topic, name)
                total = LagTotal.of(lags, system_runtime().clock.wall_ms())
                found.append({"group": name, "members": len(described.members), **_shown(total)})
        print_rows(found, session.output, empty=f"no group has read {topic}")


_DESCRIPTION = record(
    {
        "topic": _TOPIC,
        "group": _GROUP,
        "members": listing(
            record(
                {
                    "member": text("Id of the member."),
                    "partitions": text("The partitions that it reads now."),
                    **_LAG,
                }
            ),
            "A row for each member.",
        ),
        "partitions": listing(
            record(
                {
                    "partition": integer("Number of the partition."),
                    "member": maybe(text("Id of the member that reads it; null: none does.")),
                    "position": maybe(text("DLSN that it committed; null: it never read it.")),
                    "acknowledged_ranges": integer(
                        "Ranges of single records above the position that are acknowledged."
                    ),
                    **_LAG,
                }
            ),
            "A row for each partition.",
        ),
        **_LAG,
    }
)


@group.command()
@click.argument("topic")
@click.argument("name")
@prints(_DESCRIPTION)
@session_options
@runs
async def describe(session: CommandSession, topic: str, name: str) -> None:
    """Show the members, positions and lag of the group NAME of TOPIC."""
    async with session.client(moves_data=False) as client:
        topics = Topics(client)
        with ProgressBar() as progress:
            progress.show(f"measuring the lag of {name}")
            described = await topics.describe_group(topic, name)
            lags = await topics.lag(topic, name)
    now_ms = system_runtime().clock.wall_ms()
    members, partitions = _members(described, lags, now_ms), _partitions(described, lags, now_ms)
    if session.output == TABLE:
        print_rows(members, session.output, empty=f"group {name} has no member now")
        print_rows(partitions, session.output, empty="no partition")
        return
    print_document(
        {
            "topic": topic,
            "group": name,
            "members": members,
            "partitions": partitions,
            **_shown(LagTotal.of(lags, now_ms)),
        },
        session.output,
    )


@group.command()
@click.argument("topic")
@click.argument("name")
@click.option("--to", "start", required=True, help=f"Begin again at {START_HELP}.")
@click.option("--partition", type=int, help="Only this partition.")
@click.option("--even-if-used", is_flag=True, help="Also while the group has members.")
@prints(done({"topic": _TOPIC, "group": _GROUP, "partitions": integer("Those that were reset.")}))
@session_options
@runs
async def reset(
    session: CommandSession,
    topic: str,
    name: str,
    start: str,
    partition: int | None,
    even_if_used: bool,
) -> None:
    """Reset the positions of the group NAME of TOPIC. Creates it if it does not exist.

    With --even-if-used, what its members have not committed yet is refused; they continue at the
    new position when they join again.
    """
    async with session.client(moves_data=False) as client:
        described = await Topics(client).reset_group(
            topic, name, parse_start(start), partition=partition, even_if_used=even_if_used
        )
        count = len(described.partitions) if partition is None else 1
        print_done(
            {"topic": topic, "group": name, "partitions": count},
            session.output,
            f"group {name} of {topic} begins at {start}",
        )


@group.command()
@click.argument("topic")
@click.argument("name")
@prints(done({"topic": _TOPIC, "group": _GROUP}))
@session_options
@runs
async def delete(session: CommandSession, topic: str, name: str) -> None:
    """Delete the positions of the group NAME of TOPIC. It is refused while it has members."""
    async with session.client(moves_data=False) as client:
        await Topics(client).delete_group(topic, name)
        print_done(
            {"topic": topic, "group": name}, session.output, f"group {name} of {topic} was deleted"
        )


def _shown(total: LagTotal) -> dict[str, int | None]:
    return {
        "lag_records": total.records,
        "lag_bytes": total.bytes,
        "behind_ms": total.behind_ms,
    }


def _members(
    described: GroupDescription, lags: list[PartitionLag], now_ms: int
) -> list[dict[str, Any]]:
    by_member = lag_by_member(lags, now_ms)
    found = []
    for member in described.members:
        held = [str(one.partition) for one in described.partitions if one.member == member]
        total = by_member.get(member, LagTotal(0, 0, 0))
        found.append({"member": member, "partitions": " ".join(held), **_shown(total)})
    return found


def _partitions(
    described: GroupDescription, lags: list[PartitionLag], now_ms: int
) -> list[dict[str, Any]]:
    found = []
    for one, lag in zip(described.partitions, lags, strict=True):
        known = one.subscription
        held = None if known is None else known.acknowledgements
        found.append(
            {
                "partition": one.partition,
                "member": one.member,
                "position": None if known is None else str(known.position),
                "acknowledged_ranges": 0 if held is None else len(held.ranges),
                **_shown(LagTotal.of([lag], now_ms)),
            }
        )
    return found
