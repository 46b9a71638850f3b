"""``rhumbline metadata``: status, ls, get, migrate, and the commands of ``backups``."""

import sys
from contextlib import AsyncExitStack

import click

from ...backends.migration import (
    Migration,
    MigrationEnd,
    MigrationOutcome,
    highest_ledger_id,
    next_ledger_id,
    scan,
)
from ...backends.migration import MigrationProgress as Step
from ...backends.migration_fence import FenceState, MovableStore
from ...backends.migration_record import MigrationPublisher, remove_migration
from ...backends.open_store import open_store, open_without_following
from ...client.system_runtime import SystemClock
from ...client.units import parse_ms
from ..options import CommandSession, runs, session_options
from ..output import TABLE, ProgressBar, print_done, print_message, print_record, print_rows
from ..output_schema import done, flag, integer, maybe, prints, record, rows, text
from .backups.commands import COMMANDS


@click.group()
def metadata() -> None:
    """Inspect, migrate, back up and rebuild the metadata store."""


@metadata.command()
@click.argument("uri", required=False)
@prints(
    record(
        {
            "store": text("URI of the store."),
            "state": text("in use; replaced by, or being filled from, another store."),
            "epoch": text("Epoch of the store, which its versions begin with."),
            "tree": text("Root of the nodes in the store."),
            "nodes": integer("Nodes."),
            "ephemeral": integer("Nodes that end with a session."),
            "highest_ledger": maybe(integer("Highest ledger id in use.")),
            "next_ledger": integer("The next ledger id."),
        }
    )
)
@session_options
@runs
async def status(session: CommandSession, uri: str | None) -> None:
    """Show the state of the store at URI (default: the cluster's), even if it was replaced."""
    async with AsyncExitStack() as closing:
        store = await _opened(closing, session, uri or session.metadata_uri())
        fence = await store.fence_state()
        nodes = await scan(store)
    shown = {
        "store": store.uri,
        "state": _state(fence),
        "epoch": fence.epoch,
        "tree": fence.tree,
        "nodes": len(nodes),
        "ephemeral": sum(copy.data is None for copy in nodes.values()),
        "highest_ledger": highest_ledger_id(nodes) if highest_ledger_id(nodes) >= 0 else None,
        "next_ledger": next_ledger_id(nodes),
    }
    print_record(shown, session.output)


@metadata.command("ls")
@click.argument("path", default="/")
@prints(rows(record({"name": text("Name of the child.")})))
@session_options
@runs
async def list_children(session: CommandSession, path: str) -> None:
    """List the nodes below PATH."""
    store = await open_store(session.metadata_uri())
    try:
        names = await store.children(path)
    finally:
        await store.close()
    if session.output != TABLE:
        print_rows([{"name": name} for name in names], session.output, empty="")
    else:
        for name in names:
            click.echo(name)


@metadata.command()
@click.argument("path")
@prints(
    record(
        {
            "path": text("Path of the node."),
            "version": text("Version of the node."),
            "data": text("Its value; bytes that are not UTF-8 as \\xNN."),
        }
    )
)
@session_options
@runs
async def get(session: CommandSession, path: str) -> None:
    """Print the value of the node at PATH without conversion."""
    store = await open_store(session.metadata_uri())
    try:
        value = await store.get(path)
    finally:
        await store.close()
    if session.output != TABLE:
        data = value.data.decode(errors="backslashreplace")
        print_record({"path": path, "version": value.version, "data": data}, session.output)
    else:
        sys.stdout.buffer.write(value.data)
        sys.stdout.flush()


@metadata.command()
@click.argument("source", metavar="FROM")
@click.argument("target", metavar="TO")
@click.option("--longest-pause", "longest_pause", default="10s", show_default=True,
              help="Abandon the switch to TO if it takes longer than this.")  # fmt: skip
@click.option("--abort", is_flag=True, help="Abort a migration that was started earlier.")
@prints(
    done(
        {
            "source": text("URI of the store FROM."),
            "target": text("URI of the store TO."),
            "was_aborted": flag("True if the migration was aborted."),
            "nodes": maybe(integer("Nodes that were copied.")),
            "passes": maybe(integer("Passes over all nodes.")),
            "pause_ms": maybe(integer("Time during which writes were held.")),
            "next_ledger": maybe(integer("The next ledger id.")),
        }
    )
)
@session_options
@runs
async def migrate(
    session: CommandSession, source: str, target: str, longest_pause: str, *, abort: bool
) -> None:
    """Move the cluster's metadata FROM one store TO another while the cluster runs.

    Both are URIs that every process of the cluster can open. Running processes switch without a
    restart. After a failure, repeat the command to continue, or use --abort to go back. After a
    success, migrate in the other direction to go back.
    """
    async with AsyncExitStack() as closing:
        ends = [MigrationEnd(await _opened(closing, session, uri), uri) for uri in (source, target)]
        progress = closing.enter_context(ProgressBar())
        publisher = MigrationPublisher(ends[0].store, ends[1].store, SystemClock().wall_ms)

        def show(step: Step) -> None:
            progress.show(_line(step))
            publisher.note(step)

        migration = Migration(
            ends[0], ends[1], pause_ms_max=parse_ms(longest_pause), on_progress=show
        )
        if abort:
            await migration.abort()
            await remove_migration(ends[0].store)
            numbers = dict.fromkeys(("nodes", "passes", "pause_ms", "next_ledger"))
            print_done(
                {"source": source, "target": target, "was_aborted": True, **numbers},
                session.output,
                f"{source} is in use; ignore the copies in {target}",
            )
            return
        async with publisher:
            outcome = await migration.run()
    _report(outcome, source, target, session.output)


for _command in COMMANDS:
    metadata.add_command(_command)


async def _opened(closing: AsyncExitStack, session: CommandSession, uri: str) -> MovableStore:
    timeout_ms = session.settings.cluster.metadata_timeout_ms
    store = await open_without_following(uri, timeout_ms=timeout_ms)
    closing.push_async_callback(store.close)
    return store


def _state(fence: FenceState) -> str:
    if fence.successor is None:
        return "in use"
    return f"{'being filled from' if fence.is_partial else 'replaced by'} {fence.successor}"


def _line(step: Step) -> str:
    changes = f", {step.changes} changed" if step.changes else ""
    return f"{step.step}: {step.nodes} nodes{changes}" if step.nodes else step.step


def _report(outcome: MigrationOutcome, source: str, target: str, output: str) -> None:
    message = f"{target} is in use; running processes switch to it, redirected by {source}"
    if outcome.was_already_done:
        message = f"{source} was already migrated to {target}"
    numbers = {
        "nodes": outcome.nodes,
        "passes": outcome.passes,
        "pause_ms": outcome.pause_ms,
        "next_ledger": outcome.next_ledger_id,
    }
    if output == TABLE:
        print_message(message)
        print_record(numbers, output)
    else:
        ends = {"source": source, "target": target, "was_aborted": False}
        print_done({**ends, **numbers}, output, message)
