"""``rhumbline stream``: create, ls, describe, append, read, tail, truncate, set-policy, delete."""

import sys
from pathlib import Path

import click

from ...core.log.metadata.stream_description import StreamDescription
from ...core.protocol.dlsn import Dlsn
from ..options import CommandSession, runs, session_options
from ..output import print_record, print_rows, say
from ..servers.proxy import namespace_via, via_option
from ..units import show_bytes
from .appending import append_records
from .policy_options import PolicyOptions, describe_policy, policy_options
from .reading import parse_start, read_stream
from .record_files import FORMATS


@click.group()
def stream() -> None:
    """A stream is a named, strictly ordered sequence of records."""


@stream.command()
@click.argument("name")
@policy_options
@session_options
@runs
async def create(session: CommandSession, name: str, policy: PolicyOptions) -> None:
    """Makes a stream; without policy options it follows its namespace."""
    async with session.namespace(moves_data=False) as namespace:
        chosen = None
        if policy.is_any_given:
            chosen = policy.apply_to(await namespace.policy())
        await namespace.create_stream(name, chosen)
        say(f"stream {name} was created in namespace {namespace.name}")


@stream.command()
@click.argument("prefix", default="")
@session_options
@runs
async def ls(session: CommandSession, prefix: str) -> None:
    """Lists the streams whose names begin with PREFIX."""
    async with session.namespace(moves_data=False) as namespace:
        await namespace.policy()  # says so when the namespace is not there
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
        print_rows(rows, session.output, empty=f"no stream in namespace {namespace.name}")


@stream.command()
@click.argument("name")
@session_options
@runs
async def describe(session: CommandSession, name: str) -> None:
    """Shows policy, segments and sizes of a stream."""
    async with session.namespace(moves_data=False) as namespace:
        known = await namespace.describe(name)
        done = [segment for segment in known.segments if segment.is_completed]
        size = sum(segment.length_bytes for segment in done)
        shown = {
            "stream": name,
            "namespace": namespace.name,
            "start": str(known.start),
            "segments": len(known.segments),
            "in progress": len(known.segments) - len(done),
            "records": sum(segment.record_count for segment in done),
            "size": show_bytes(size),
            "writer sessions": known.epoch,
            "policy": "the namespace's" if known.follows_namespace else "its own",
            **describe_policy(known.policy),
        }
        print_record(shown, session.output)


@stream.command()
@click.argument("name")
@click.option("--file", type=click.Path(path_type=Path), help="Instead of standard input.")
@click.option("--length-prefixed", is_flag=True, help="Records behind a 4-byte big-endian length.")
@click.option("--txid", type=int, help="Txid of the first record; the next ones count up.")
@click.option("-v", "--verbose", is_flag=True, help="Print the DLSN of each record.")
@via_option
@session_options
@runs
async def append(
    session: CommandSession, name: str, file: Path | None, length_prefixed: bool, txid: int | None,
    verbose: bool, via: str | None
) -> None:  # fmt: skip
    """Appends the lines of standard input as records, and waits for their acknowledgement."""
    async with namespace_via(session, via) as namespace:
        await append_records(
            namespace,
            name,
            output=session.output,
            file=file,
            length_prefixed=length_prefixed,
            txid=txid,
            verbose=verbose,
        )


@stream.command()
@click.argument("name")
@click.option("--from", "start", default="earliest", help="earliest, a DLSN, or txid:N.")
@click.option("--to", "end", help="Stop before this DLSN.")
@click.option("--limit", type=click.IntRange(min=1), help="At most so many records.")
@click.option("--format", "form", type=click.Choice(FORMATS), default="lines", show_default=True)
@click.option("-v", "--verbose", is_flag=True, help="Position and txid before each record.")
@via_option
@session_options
@runs
async def read(
    session: CommandSession, name: str, start: str, end: str | None, limit: int | None, form: str,
    verbose: bool, via: str | None
) -> None:  # fmt: skip
    """Prints what is in the stream now."""
    async with namespace_via(session, via) as namespace:
        await read_stream(
            namespace,
            name,
            start=parse_start(start),
            end=Dlsn.parse(end) if end else None,
            limit=limit,
            form="verbose" if verbose else form,
            follow=False,
        )


@stream.command()
@click.argument("name")
@click.option("-f", "--follow", is_flag=True, help="Go on until Ctrl-C.")
@click.option("--lines", type=click.IntRange(min=0), default=10, show_default=True)
@click.option("--format", "form", type=click.Choice(FORMATS), default="lines", show_default=True)
@click.option("-v", "--verbose", is_flag=True, help="Position and txid before each record.")
@via_option
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
    """Prints the last records, and with -f the new ones as they come."""
    async with namespace_via(session, via) as namespace:
        await read_stream(
            namespace,
            name,
            last=lines,
            form="verbose" if verbose else form,
            follow=follow,
        )


@stream.command()
@click.argument("name")
@click.argument("dlsn")
@session_options
@runs
async def truncate(session: CommandSession, name: str, dlsn: str) -> None:
    """Hides all records below DLSN from readers. It cannot be undone after the grace time."""
    position = Dlsn.parse(dlsn)
    async with session.namespace(moves_data=False) as namespace:
        start = await namespace.truncate(name, position)
        say(f"stream {name} now starts at {start}")


@stream.command("set-policy")
@click.argument("name")
@click.option("--inherit", is_flag=True, help="Follow the namespace again.")
@policy_options
@session_options
@runs
async def set_policy(
    session: CommandSession, name: str, inherit: bool, policy: PolicyOptions
) -> None:
    """Changes the policy, from the next segment on."""
    if inherit == policy.is_any_given:
        raise click.UsageError("give either --inherit or at least one policy option")
    async with session.namespace(moves_data=False) as namespace:
        known = await namespace.describe(name)
        chosen = None if inherit else policy.apply_to(known.policy)
        await namespace.set_stream_policy(name, chosen)
        shown = chosen or await namespace.policy()
        print_record({"stream": name, **describe_policy(shown)}, session.output)


@stream.command()
@click.argument("name")
@click.option("--yes", is_flag=True, help="Do not ask.")
@session_options
@runs
async def delete(session: CommandSession, name: str, yes: bool) -> None:
    """Deletes a stream and all of its records."""
    async with session.namespace(moves_data=False) as namespace:
        known = await namespace.describe(name)
        _confirm(known, yes)
        await namespace.delete_stream(name, identity=known.identity)
        say(f"stream {name} was deleted")


def _confirm(known: StreamDescription, yes: bool) -> None:
    """Asks at a terminal; elsewhere --yes is needed."""
    if yes:
        return
    name, count = known.name, len(known.segments)
    if not sys.stdin.isatty():
        raise click.UsageError(f"this deletes {count} segments of {name} for good; say --yes")
    click.confirm(f"Delete {name} with {count} segments for good?", abort=True, err=True)
