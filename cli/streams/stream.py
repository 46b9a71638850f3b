"""``rhumbline stream``: create, ls, describe, append, read, tail, truncate, untruncate,
set-policy, home, roll, seal, unseal, recover, delete."""

import asyncio
import sys
from pathlib import Path

import click

from ...client.units import show_count, show_ms
from ...core.log.metadata.stream_description import StreamDescription
from ...core.protocol.dlsn import Dlsn
from ...core.protocol.errors import DeadlineExceededError
from ...core.protocol.start import AtTime
from ..options import CommandSession, runs, session_options
from ..output import TABLE, ProgressBar, print_done, print_record, print_rows
from ..output_schema import done, integer, prints, record, rows, text
from ..servers.proxy import namespace_via, via_option
from ..servers.stream_home import home
from ..topics.start_options import START_HELP, parse_start, parse_time
from ..waiting import timeout_option
from .appending import APPENDED, append_records
from .describing import DESCRIPTION, describe_stream, for_people
from .policy_documents import POLICY, policy_document
from .policy_options import PolicyOptions, describe_policy, policy_options
from .reading import read_stream
from .records.record_documents import RECORD, common_attributes
from .records.record_formats import FORMATS
from .recovering import RECOVERED, recover_stream
from .rolling import roll, seal, unseal


@click.group()
def stream() -> None:
    """Create, write and read streams: named, strictly ordered sequences of records."""


for _command in (home, roll, seal, unseal):
    stream.add_command(_command)


_NAME = text("Name of the stream.")
_NAMESPACE = text("Namespace of the stream.")
_STARTS = done({"stream": _NAME, "start": text("DLSN of the first readable record.")})


@stream.command()
@click.argument("name")
@policy_options
@prints(done({"stream": _NAME, "namespace": _NAMESPACE}))
@session_options
@runs
async def create(session: CommandSession, name: str, policy: PolicyOptions) -> None:
    """Create a stream. Without policy options it follows the policy of its namespace."""
    async with session.namespace(moves_data=False) as namespace:
        chosen = None
        if policy.is_any_given:
            chosen = policy.apply_to(await namespace.policy())
        await namespace.create_stream(name, chosen)
        print_done(
            {"stream": name, "namespace": namespace.name},
            session.output,
            f"stream {name} was created in namespace {namespace.name}",
        )


@stream.command()
@click.argument("prefix", default="")
@prints(
    rows(
        record(
            {
                "stream": _NAME,
                "segments": integer("Log segments, truncated ones included."),
                "records": integer("Records in completed segments."),
                "start": text("DLSN of the first readable record."),
                "quorum": text("E/WQ/AQ/R of the policy."),
            }
        )
    )
)
@session_options
@runs
async def ls(session: CommandSession, prefix: str) -> None:
    """List the streams whose names begin with PREFIX."""
    async with session.namespace(moves_data=False) as namespace:
        await namespace.policy()  # fails if the namespace does not exist
        rows = []
        after = None
        while page := await namespace.streams(prefix, after=after):
            for name in page:
                known = await namespace.describe(name)
                segments = known.segments
                rows.append(
                    {
                        "stream": name,
                        "segments": len(segments),
                        "records": sum(segment.record_count for segment in segments),
                        "start": str(known.start),
                        "quorum": str(known.policy.quorum),
                    }
                )
            after = page[-1]
        begins = f" begins with {prefix}" if prefix else ""
        print_rows(rows, session.output, empty=f"no stream in namespace {namespace.name}{begins}")


@stream.command()
@click.argument("name")
@prints(DESCRIPTION)
@session_options
@runs
async def describe(session: CommandSession, name: str) -> None:
    """Show the policy, the segments, the owner, the size and the lag of a stream.

    The bookies of an open segment are asked how many of its records are readable now.
    """
    async with session.client(moves_data=False) as client:
        with ProgressBar() as progress:
            progress.show(f"asking the bookies of {name}")
            shown, policy = await describe_stream(client, name)
    if session.output == TABLE:
        print_record(for_people(shown) | describe_policy(policy), session.output)
    else:
        print_record({**shown, "policy": policy_document(policy)}, session.output)


@stream.command()
@click.argument("name")
@click.option(
    "--file",
    type=click.Path(path_type=Path),
    help="Read records from this file instead of standard input.",
)
@click.option(
    "--length-prefixed", is_flag=True, help="Each record follows its length in 4 bytes, big-endian."
)
@click.option(
    "--json",
    "is_json",
    is_flag=True,
    help="Each line is a JSON object, as `stream read --format json` prints it.",
)
@click.option("--txid", type=int, help="Txid of the first record; the others follow in steps of 1.")
@click.option("--key", help="Key of all records.")
@click.option(
    "--header", "headers", multiple=True, help="Header NAME=VALUE of all records; repeatable."
)
@click.option(
    "--event-time", help="Event time of all records: ISO 8601, or milliseconds since 1970."
)
@click.option("-v", "--verbose", is_flag=True, help="Print the DLSN of each record.")
@via_option
@prints(APPENDED)
@session_options
@runs
async def append(
    session: CommandSession, name: str, file: Path | None, length_prefixed: bool, is_json: bool,
    txid: int | None, key: str | None, headers: tuple[str, ...], event_time: str | None,
    verbose: bool, via: str | None
) -> None:  # fmt: skip
    """Append the lines of standard input as records, and wait for their acknowledgement."""
    if is_json and length_prefixed:
        raise click.UsageError("--json and --length-prefixed are mutually exclusive")
    common = common_attributes(key, headers, event_time)
    async with namespace_via(session, via) as namespace:
        await append_records(
            namespace,
            name,
            output=session.output,
            file=file,
            length_prefixed=length_prefixed,
            txid=txid,
            verbose=verbose,
            is_json=is_json,
            common=common,
        )


@stream.command()
@click.argument("name")
@click.option(
    "--from",
    "start",
    help=f"Start at {START_HELP}. [default: earliest]",
)
@click.option("--from-time", metavar="TIME", help="The same as --from time:TIME.")
@click.option("--to", "end", help="Stop before this DLSN.")
@click.option("--limit", type=click.IntRange(min=1), help="Print at most this many records.")
@click.option("--format", "form", type=click.Choice(FORMATS), default="lines", show_default=True,
              help="Format of the records.")  # fmt: skip
@click.option(
    "-v",
    "--verbose",
    is_flag=True,
    help="Print the DLSN and txid before each record, attributes after it.",
)
@click.option("--wait", "waits", is_flag=True,
              help="Wait until --limit records were printed.")  # fmt: skip
@timeout_option
@via_option
@prints(rows(RECORD))
@session_options
@runs
async def read(
    session: CommandSession, name: str, start: str | None, from_time: str | None, end: str | None,
    limit: int | None, form: str, verbose: bool, waits: bool, timeout_ms: int, via: str | None
) -> None:  # fmt: skip
    """Print the records that are in the stream now."""
    if start is not None and from_time is not None:
        raise click.UsageError("--from and --from-time are mutually exclusive")
    chosen = (
        parse_start(start or "earliest") if from_time is None else AtTime(parse_time(from_time))
    )
    if waits and limit is None:
        raise click.UsageError("--wait needs --limit")
    timeout_s = timeout_ms / 1000 if waits else None
    async with namespace_via(session, via) as namespace:
        reading = read_stream(
            namespace,
            name,
            start=chosen,
            end=Dlsn.parse(end) if end else None,
            limit=limit,
            form="verbose" if verbose else form,
            output=session.output,
            follow=False,
            waits=waits,
        )
        try:
            async with asyncio.timeout(timeout_s):
                await reading
        except TimeoutError as error:
            raise DeadlineExceededError(
                f"after {show_ms(timeout_ms)}: fewer than {limit} records were read from {name}"
            ) from error


@stream.command()
@click.argument("name")
@click.option("-f", "--follow", is_flag=True, help="Print new records until Ctrl-C.")
@click.option("--lines", type=click.IntRange(min=0), default=10, show_default=True,
              help="Number of records to print.")  # fmt: skip
@click.option("--format", "form", type=click.Choice(FORMATS), default="lines", show_default=True,
              help="Format of the records.")  # fmt: skip
@click.option(
    "-v",
    "--verbose",
    is_flag=True,
    help="Print the DLSN and txid before each record, attributes after it.",
)
@via_option
@prints(rows(RECORD))
@session_options
@runs
async def tail(
    session: CommandSession,
    name: str,
    follow: bool,
    lines: int,
    form: str,
    verbose: bool,
    via: str | None,
) -> None:
    """Print the last records, and with -f new ones as they arrive."""
    async with namespace_via(session, via) as namespace:
        await read_stream(
            namespace,
            name,
            last=lines,
            form="verbose" if verbose else form,
            output=session.output,
            follow=follow,
        )


@stream.command()
@click.argument("name")
@click.argument("dlsn")
@prints(_STARTS)
@session_options
@runs
async def truncate(session: CommandSession, name: str, dlsn: str) -> None:
    """Hide all records below DLSN from readers.

    `stream untruncate` can undo this until the grace period of the policy (purge grace) has passed.
    """
    position = Dlsn.parse(dlsn)
    async with session.namespace(moves_data=False) as namespace:
        start = await namespace.truncate(name, position)
        _print_start(session, name, start)


@stream.command()
@click.argument("name")
@click.argument("dlsn", required=False)
@prints(_STARTS)
@session_options
@runs
async def untruncate(session: CommandSession, name: str, dlsn: str | None) -> None:
    """Make the truncated records from DLSN on readable again. [default: all that are left]

    Records come back until their purge begins, when the grace period after the truncation is over.
    What was purged may still be in an archive, see `archive restore --as`.
    """
    position = Dlsn.parse(dlsn) if dlsn else None
    async with session.namespace(moves_data=False) as namespace:
        start = await namespace.untruncate(name, position)
        _print_start(session, name, start)


@stream.command("set-policy")
@click.argument("name")
@click.option("--inherit", is_flag=True, help="Follow the policy of the namespace again.")
@policy_options
@prints(record({"stream": _NAME, "policy": POLICY}))
@session_options
@runs
async def set_policy(
    session: CommandSession, name: str, inherit: bool, policy: PolicyOptions
) -> None:
    """Change the policy, from the next segment on.

    The number of regions that must acknowledge (R, min_regions_for_durability, the last number of
    --quorum) also applies to open segments, to recoveries and to repair, within seconds.
    """
    if inherit == policy.is_any_given:
        raise click.UsageError("give either --inherit or at least one policy option")
    async with session.namespace(moves_data=False) as namespace:
        known = await namespace.describe(name)
        chosen = None if inherit else policy.apply_to(known.policy)
        await namespace.set_stream_policy(name, chosen)
        shown = chosen or await namespace.policy()
        if session.output == TABLE:
            print_record({"stream": name, **describe_policy(shown)}, session.output)
        else:
            print_record({"stream": name, "policy": policy_document(shown)}, session.output)


@stream.command()
@click.argument("name")
@click.option(
    "--at-provable-end",
    is_flag=True,
    help="If bookies are lost for good and the end of the stream cannot be proven without them: "
    "show what is provable, and close the stream there once that is confirmed.",
)
@click.option("--reason", default="", help="Reason, for the audit record.")
@click.option("--yes", is_flag=True, help="Do not ask for confirmation.")
@prints(RECOVERED)
@session_options
@runs
async def recover(
    session: CommandSession, name: str, at_provable_end: bool, reason: str, yes: bool
) -> None:
    """Take a stream over from its writer and close its open segments, without writing to it.

    Without --at-provable-end this is what every new writer does first, and it decides nothing
    without proof. With it, acknowledged records may be lost for good, so use it only if the bookies
    that are shown will never return. The decision is recorded in the metadata.
    """
    async with session.client() as client:
        await recover_stream(
            client.namespace(),
            client.runtime.clock,
            name,
            at_provable_end=at_provable_end,
            reason=reason,
            yes=yes,
            output=session.output,
        )


@stream.command()
@click.argument("name")
@click.option("--yes", is_flag=True, help="Do not ask for confirmation.")
@prints(done({"stream": _NAME, "segments": integer("Segments that were deleted.")}))
@session_options
@runs
async def delete(session: CommandSession, name: str, yes: bool) -> None:
    """Delete a stream and all of its records."""
    async with session.namespace(moves_data=False) as namespace:
        known = await namespace.describe(name)
        _confirm(known, yes)
        await namespace.delete_stream(name, identity=known.identity)
        print_done(
            {"stream": name, "segments": len(known.segments)},
            session.output,
            f"stream {name} was deleted",
        )


def _print_start(session: CommandSession, name: str, start: Dlsn) -> None:
    print_done(
        {"stream": name, "start": str(start)},
        session.output,
        f"stream {name} now starts at {start}",
    )


def _confirm(known: StreamDescription, yes: bool) -> None:
    """Ask for confirmation at a terminal; otherwise require --yes."""
    if yes:
        return
    name, segments = known.name, show_count(len(known.segments), "segment")
    if not sys.stdin.isatty():
        raise click.UsageError(f"this permanently deletes {segments} of {name}; give --yes")
    click.confirm(f"Permanently delete {name} with {segments}?", abort=True, err=True)
