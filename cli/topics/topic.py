"""``rhumbline topic``: create, ls, describe, grow, append, delete."""

import sys
from pathlib import Path

import click

from ...client.topics import Topics
from ...client.units import show_count
from ..options import CommandSession, runs, session_options
from ..output import TABLE, print_document, print_done, print_rows
from ..output_schema import done, integer, listing, maybe, prints, record, rows, text
from ..streams.policy_options import PolicyOptions, policy_options


@click.group()
def topic() -> None:
    """Create, write and show topics: streams under one name that share records by their key."""


_NAME = text("Name of the topic.")
_PARTITIONS = integer("Number of its partitions.")
_CHANGED = done({"topic": _NAME, "namespace": text("Its namespace."), "partitions": _PARTITIONS})


@topic.command()
@click.argument("name")
@click.option("--partitions", type=int, required=True, help="Number of partitions.")
@policy_options
@prints(_CHANGED)
@session_options
@runs
async def create(
    session: CommandSession, name: str, partitions: int, policy: PolicyOptions
) -> None:
    """Create a topic with its streams NAME.0, NAME.1, ... Safe to repeat.

    Without policy options the streams follow the policy of their namespace.
    """
    async with session.client(moves_data=False) as client:
        namespace = client.namespace()
        chosen = policy.apply_to(await namespace.policy()) if policy.is_any_given else None
        made = await Topics(client).create(name, partitions, chosen)
        print_done(
            {"topic": name, "namespace": namespace.name, "partitions": made.partition_count},
            session.output,
            f"topic {name} was created with {show_count(made.partition_count, 'partition')}",
        )


@topic.command()
@click.argument("prefix", default="")
@prints(rows(record({"topic": _NAME, "partitions": _PARTITIONS, "groups": integer("Its groups.")})))
@session_options
@runs
async def ls(session: CommandSession, prefix: str) -> None:
    """List the topics whose names begin with PREFIX."""
    async with session.client(moves_data=False) as client:
        topics = Topics(client)
        found = []
        after = None
        while page := await topics.names(prefix, after=after):
            for name in page:
                known = await topics.get(name)
                groups = len(await topics.groups(name))
                found.append({"topic": name, "partitions": known.partition_count, "groups": groups})
            after = page[-1]
        begins = f" begins with {prefix}" if prefix else ""
        nothing = f"no topic in namespace {client.namespace().name}{begins}"
        print_rows(found, session.output, empty=nothing)


_PARTITION_ROWS = listing(
    record(
        {
            "partition": integer("Number of the partition."),
            "stream": text("Its stream."),
            "segments": integer("Log segments, truncated ones included."),
            "records": integer("Records in completed segments."),
            "start": text("DLSN of the first readable record."),
        }
    ),
    "A row for each partition.",
)


@topic.command()
@click.argument("name")
@prints(
    record(
        {
            "topic": _NAME,
            "partitions": _PARTITION_ROWS,
            "first_partitions": integer("Number of partitions with which it was created."),
            "groups": listing(record({"group": text("Name of the group.")}), "Its groups."),
        }
    )
)
@session_options
@runs
async def describe(session: CommandSession, name: str) -> None:
    """Show the partitions and the groups of a topic."""
    async with session.client(moves_data=False) as client:
        topics = Topics(client)
        known = await topics.get(name)
        partitions = [
            {
                "partition": partition,
                "stream": stream.name,
                "segments": len(stream.segments),
                "records": sum(segment.record_count for segment in stream.segments),
                "start": str(stream.start),
            }
            for partition, stream in enumerate(await topics.describe(name))
        ]
        groups = [{"group": group} for group in await topics.groups(name)]
    if session.output == TABLE:
        print_rows(partitions, session.output, empty="no partition")
        print_rows(groups, session.output, empty=f"no group has read {name}")
        return
    print_document(
        {
            "topic": name,
            "partitions": partitions,
            "first_partitions": known.first_count,
            "groups": groups,
        },
        session.output,
    )


@topic.command()
@click.argument("name")
@click.option("--partitions", type=int, required=True, help="Number of partitions afterwards.")
@prints(_CHANGED)
@session_options
@runs
async def grow(session: CommandSession, name: str, partitions: int) -> None:
    """Add partitions to a topic. A key keeps its partition or moves to a new one.

    Producers use the new partitions when they open the topic again; members of groups notice them.
    """
    async with session.client(moves_data=False) as client:
        grown = await Topics(client).grow(name, partitions)
        print_done(
            {
                "topic": name,
                "namespace": client.namespace().name,
                "partitions": grown.partition_count,
            },
            session.output,
            f"topic {name} has {show_count(grown.partition_count, 'partition')}",
        )


@topic.command()
@click.argument("name")
@click.option(
    "--file",
    type=click.Path(path_type=Path),
    help="Read records from this file instead of standard input.",
)
@click.option(
    "--key-separator",
    metavar="TEXT",
    help="Each line is a key, this text, and a payload. [default: the line is the payload]",
)
@prints(done({"topic": _NAME, "records": integer("Records that were appended.")}))
@session_options
@runs
async def append(
    session: CommandSession, name: str, file: Path | None, key_separator: str | None
) -> None:
    """Append the lines of standard input as records, and wait for their acknowledgement.

    The command takes over all partitions from their writers. Lines with the same key go to the same
    partition; without keys, partitions take turns.
    """
    if key_separator == "":
        raise click.UsageError("--key-separator is empty")
    separator = None if key_separator is None else key_separator.encode()
    count = 0
    source = sys.stdin.buffer if file is None else file.open("rb")
    async with session.client() as client, Topics(client).writer(name) as writer:
        with source:
            for line in source:
                key, payload = None, line.rstrip(b"\r\n")
                if separator is not None:
                    key, found, payload = payload.partition(separator)
                    if not found:
                        raise click.ClickException(
                            f"line {count + 1} has no {key_separator!r}; {count} records were "
                            "appended before it"
                        )
                await writer.room()
                writer.append(payload, key=key)
                count += 1
        await writer.flush()
        print_done(
            {"topic": name, "records": count},
            session.output,
            f"{show_count(count, 'record')} were appended to {name}",
        )


@topic.command()
@click.argument("name")
@click.option("--yes", is_flag=True, help="Do not ask for confirmation.")
@prints(done({"topic": _NAME, "partitions": maybe(integer("Partitions that were deleted."))}))
@session_options
@runs
async def delete(session: CommandSession, name: str, yes: bool) -> None:
    """Delete a topic with all records and the positions of its groups.

    It is refused while a group has members.
    """
    async with session.client(moves_data=False) as client:
        known = await Topics(client).get(name)
        if not yes:
            what = show_count(known.partition_count, "partition")
            if not sys.stdin.isatty():
                raise click.UsageError(f"this permanently deletes {what} of {name}; give --yes")
            click.confirm(f"Permanently delete {name} with {what}?", abort=True, err=True)
        await Topics(client).delete(name)
        print_done(
            {"topic": name, "partitions": known.partition_count},
            session.output,
            f"topic {name} was deleted",
        )
