"""``rhumbline metadata``: status, ls, get, migrate."""

import sys
from contextlib import AsyncExitStack

import click

from ...backends.migration import (
    End,
    Migration,
    MigrationOutcome,
    highest_ledger_id,
    next_ledger_id,
    scan,
)
from ...backends.migration import MigrationProgress as Step
from ...backends.migration_fence import FenceState, MovableStore
from ...backends.open_store import open_as_it_is, open_store
from ..options import CommandSession, runs, session_options
from ..output import ProgressBar, print_record, print_rows, say
from ..units import parse_ms


@click.group()
def metadata() -> None:
    """The metadata store: what is in it, and moving to another one."""


@metadata.command()
@click.argument("uri", required=False)
@session_options
@runs
async def status(session: CommandSession, uri: str | None) -> None:
    """Shows the store at URI (default: the cluster's) as it is, also when it was replaced."""
    async with AsyncExitStack() as closing:
        store = await _opened(closing, session, uri or session.metadata_uri())
        gate = await store.gate_state()
        nodes = await scan(store)
    record = {
        "store": store.uri,
        "state": _state(gate),
        "epoch": gate.epoch,
        "tree": gate.tree,
        "nodes": len(nodes),
        "ephemeral": sum(copy.data is None for copy in nodes.values()),
        "highest ledger": highest_ledger_id(nodes) if highest_ledger_id(nodes) >= 0 else None,
        "next ledger": next_ledger_id(nodes),
    }
    print_record(record, session.output)


@metadata.command("ls")
@click.argument("path", default="/")
@session_options
@runs
async def list_children(session: CommandSession, path: str) -> None:
    """Lists the nodes below PATH."""
    store = await open_store(session.metadata_uri())
    try:
        names = await store.children(path)
    finally:
        await store.close()
    if session.output == "json":
        print_rows([{"name": name} for name in names], "json", empty="")
    else:
        for name in names:
            click.echo(name)


@metadata.command()
@click.argument("path")
@session_options
@runs
async def get(session: CommandSession, path: str) -> None:
    """Writes the value of the node at PATH to the output, as it is."""
    store = await open_store(session.metadata_uri())
    try:
        value = await store.get(path)
    finally:
        await store.close()
    if session.output == "json":
        text = value.data.decode(errors="backslashreplace")
        print_record({"path": path, "version": value.version, "data": text}, "json")
    else:
        sys.stdout.buffer.write(value.data)
        sys.stdout.flush()


@metadata.command()
@click.argument("source", metavar="FROM")
@click.argument("target", metavar="TO")
@click.option("--longest-pause", "longest_pause", default="10s", show_default=True,
              help="Give up, and go on with FROM, when the cut takes longer.")  # fmt: skip
@click.option("--abort", is_flag=True, help="Give up a migration that was begun before.")
@session_options
@runs
async def migrate(
    session: CommandSession, source: str, target: str, longest_pause: str, *, abort: bool
) -> None:
    """Moves the cluster's metadata FROM one store TO another while the cluster runs.

    Both are URIs that every process of the cluster can open. Running processes follow by
    themselves. After a failure: the same command again goes on, --abort goes back. After a success
    the way back is to migrate in the other direction.
    """
    async with AsyncExitStack() as closing:
        ends = [End(await _opened(closing, session, uri), uri) for uri in (source, target)]
        progress = ProgressBar()
        migration = Migration(
            ends[0],
            ends[1],
            longest_pause_ms=parse_ms(longest_pause),
            on_progress=lambda step: progress.show(_line(step)),
        )
        try:
            if abort:
                await migration.abort()
                say(f"{source} is in use; what was copied to {target} is of no meaning")
                return
            outcome = await migration.run()
        finally:
            progress.clear()
    _report(outcome, source, target, session.output)


async def _opened(closing: AsyncExitStack, session: CommandSession, uri: str) -> MovableStore:
    timeout_ms = session.settings.cluster.metadata_timeout_ms
    store = await open_as_it_is(uri, timeout_ms=timeout_ms)
    closing.push_async_callback(store.close)
    return store


def _state(gate: FenceState) -> str:
    if gate.successor is None:
        return "in use"
    return f"{'being filled from' if gate.is_partial else 'replaced by'} {gate.successor}"


def _line(step: Step) -> str:
    changes = f", {step.changes} changed" if step.changes else ""
    return f"{step.step}: {step.nodes} nodes{changes}" if step.nodes else step.step


def _report(outcome: MigrationOutcome, source: str, target: str, output: str) -> None:
    if outcome.was_done:
        say(f"{source} was migrated to {target} before")
    else:
        say(f"{target} is in use; processes follow by themselves, {source} sends them there")
    record = {
        "nodes": outcome.nodes,
        "passes": outcome.passes,
        "pause ms": outcome.pause_ms,
        "next ledger": outcome.next_ledger_id,
    }
    print_record(record, output)
