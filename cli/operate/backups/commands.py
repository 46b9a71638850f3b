"""``rhumbline metadata``: backup, restore, rebuild, release."""

import os
from collections.abc import Sequence
from contextlib import AsyncExitStack
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click

from ....backends.migration_fence import MovableStore
from ....backends.open_store import open_store, open_without_following
from ....client.system_runtime import system_runtime
from ....core.metadata.cluster_layout import Paths
from ....core.metadata.holds.garbage_hold import GarbageHold, read_hold, release_hold
from ....core.protocol.bookie_id import Region, check_bookie_id, check_region
from ....rebuild.backup import Backup
from ....rebuild.collect_backup import collect_backup
from ....rebuild.fill_store import fill_store
from ....rebuild.rebuilt_tree import ID_MARGIN, UNKNOWN, RebuiltTree, rebuild_tree
from ...errors import UnsafeError
from ...options import CommandSession, runs, session_options
from ...output import TABLE, ProgressBar, print_done, print_message, print_rows
from ...output_schema import done, flag, integer, listing, maybe, prints, record, text, time_at
from .backup_files import load_backup, load_inventories, store_backup

_FINDING = record(
    {
        "kind": text("What was found.", "ambiguous", "deleted", "empty-namespace", "gap", "lost",
                     "moving", "open-end", "other-store", "other-stream", "purged",
                     "unchecked-store", "uncounted"),
        "stream": text("The stream, with its namespace."),
        "detail": text("The finding in words."),
    }
)  # fmt: skip
_FILLED = done(
    {
        "store": text("URI of the store that was filled."),
        "nodes": integer("Nodes in the store."),
        "ledgers": integer("Ledgers with metadata."),
        "decided_ends": integer("Ledgers whose end was decided from the bookies' entries."),
        "streams": maybe(integer("Streams; unknown if the backup was taken as it is.")),
        "records": maybe(integer("Records in the segments of all streams.")),
        "unknown_ledgers": listing(
            integer("Id."), "Ledgers on bookies without metadata; their entries are kept."
        ),
        "findings": listing(_FINDING, "What was lost, or could not be decided."),
        "not_restored": listing(text("Kind of data."), "What nobody knows any more."),
    }
)
_INVENTORIES = click.option(
    "--inventory", "inventories", multiple=True, type=click.Path(path_type=Path),
    help="Inventory of a bookie, by `rhumbline bookie inventory`; one for each bookie.",
)  # fmt: skip
_OTHERS = click.option(
    "--other-store", "other_stores", multiple=True, metavar="URI",
    help="Another metadata store of the cluster that still exists; give each of them.",
)  # fmt: skip
_LOST = click.option("--lost", multiple=True, metavar="BOOKIE",
                     help="Id of a bookie whose disk is lost for good.")  # fmt: skip
_REPLACE = click.option("--replace", "may_replace", is_flag=True,
                        help="Delete what the store holds.")  # fmt: skip


@click.command()
@click.argument("uri", required=False)
@click.option("--to", "place", required=True,
              help="File, or URI of a cold store, for example file:///backups.")  # fmt: skip
@prints(
    done(
        {
            "store": text("URI of the store."),
            "place": text("File, or key of the object."),
            "nodes": integer("Nodes in the backup."),
            "size_bytes": integer("Size of the backup."),
            "began": time_at("Start of the backup. Later changes may be missing."),
            "ended": time_at("End of the backup."),
        }
    )
)
@session_options
@runs
async def backup(session: CommandSession, uri: str | None, place: str) -> None:
    """Back up the store at URI (default: the cluster's), while the cluster runs.

    The backup contains passwords of ledgers: keep it as secret as the store.
    """
    found = await _scanned(session, uri or session.metadata_uri())
    where, size = await store_backup(found, place)
    shown = {
        "store": found.store,
        "place": where,
        "nodes": len(found.nodes),
        "size_bytes": size,
        "began": _time_of(found.began_ms),
        "ended": _time_of(found.ended_ms),
    }
    print_done(shown, session.output, f"{len(found.nodes)} nodes are in {where}, {size} bytes")


@click.command()
@click.argument("source", metavar="BACKUP")
@click.argument("target", metavar="TO")
@_INVENTORIES
@_OTHERS
@_LOST
@_REPLACE
@click.option("--key", help="Key of the backup in a cold store; the newest if not given.")
@click.option("--as-is", is_flag=True,
              help="Without inventories: no process has run since the backup.")  # fmt: skip
@prints(_FILLED)
@session_options
@runs
async def restore(
    session: CommandSession, source: str, target: str, inventories: tuple[Path, ...],
    other_stores: tuple[str, ...], lost: tuple[str, ...], key: str | None,
    *, may_replace: bool, as_is: bool,
) -> None:  # fmt: skip
    """Fill the empty store TO from a BACKUP, a file or the URI of a cold store.

    Stop all processes first. Bookies know more than the backup: give the inventories of all of
    them. Namespaces may have moved since the backup: give every other store of the cluster that
    still exists with --other-store. After an interruption, repeat the command; nobody can use the
    store before it is complete.
    """
    if bool(inventories) == as_is:
        raise UnsafeError(
            "give the inventories of all bookies with --inventory; or --as-is, only if no process "
            "of the cluster has run since the backup"
        )
    if as_is and other_stores:
        raise UnsafeError("--as-is and --other-store are mutually exclusive")
    found = await load_backup(source, key)
    await _fill(
        session, target, found, inventories, lost, may_replace=may_replace,
        others=[await _scanned(session, uri) for uri in other_stores],
    )  # fmt: skip


@click.command()
@click.argument("target", metavar="TO")
@_INVENTORIES
@click.option("--store", "region", metavar="REGION",
              help="TO is the store of this region, not the global one.")  # fmt: skip
@_OTHERS
@_LOST
@_REPLACE
@prints(_FILLED)
@session_options
@runs
async def rebuild(
    session: CommandSession, target: str, inventories: tuple[Path, ...], region: str | None,
    other_stores: tuple[str, ...], lost: tuple[str, ...], *, may_replace: bool,
) -> None:  # fmt: skip
    """Fill the empty store TO from the inventories of all bookies, without a backup.

    Stop all processes first. After an interruption, repeat the command; nobody can use the store
    before it is complete. Name every other store of the cluster that still exists with
    --other-store; a regional store cannot be rebuilt without the global one.
    """
    await _fill(
        session, target, None, inventories, lost, may_replace=may_replace,
        others=[await _scanned(session, uri) for uri in other_stores],
        region=None if region is None else check_region(region),
    )  # fmt: skip


@click.command()
@click.option("--yes", is_flag=True, help="Bookies may delete what the store does not know.")
@prints(
    done(
        {
            "was_held": flag("True if there was a hold."),
            "reason": maybe(text("Its reason.", "restore", "rebuild")),
            "since": maybe(time_at("Its time.")),
        }
    )
)
@session_options
@runs
async def release(session: CommandSession, *, yes: bool) -> None:
    """End the garbage hold that a restore or rebuild has set.

    From then on bookies delete ledgers that the metadata store does not know.
    """
    store = await open_store(session.metadata_uri())
    try:
        hold = await read_hold(store)
        if hold is not None and not yes:
            raise UnsafeError(
                "bookies will delete ledgers that the metadata store does not know, such as those "
                "of a backup that is newer: give --yes if there is none"
            )
        await release_hold(store)
    finally:
        await store.close()
    shown = {
        "was_held": hold is not None,
        "reason": None if hold is None else hold.reason,
        "since": None if hold is None else _time_of(hold.since_ms),
    }
    print_done(shown, session.output, "bookies collect garbage again")


COMMANDS = (backup, restore, rebuild, release)


async def _fill(
    session: CommandSession,
    target: str,
    found: Backup | None,
    inventories: tuple[Path, ...],
    lost: tuple[str, ...],
    *,
    may_replace: bool,
    others: Sequence[Backup] = (),
    region: Region | None = None,
) -> None:
    now_ms = system_runtime().clock.wall_ms()
    if found is not None and not inventories:
        tree = _as_it_is(found, now_ms)
    else:
        tree = rebuild_tree(
            await load_inventories(inventories),
            found,
            others=others,
            region=region,
            lost=[check_bookie_id(name) for name in lost],
            now_ms=now_ms,
            new_token=_new_token,
        )
    async with AsyncExitStack() as closing:
        store = await _opened(closing, session, target)
        progress = closing.enter_context(ProgressBar())
        nodes = await fill_store(
            store,
            tree.nodes,
            tree.sequences,
            may_replace=may_replace,
            new_token=_new_token,
            on_progress=lambda step: progress.show(step.step, step.done, step.nodes),
        )
    _report(session, target, tree, nodes, found, is_as_it_is=not inventories)


def _as_it_is(found: Backup, now_ms: int) -> RebuiltTree:
    """Return the nodes of a backup, with a hold, and with ledger ids that were never issued."""
    paths = Paths()
    nodes = {**found.nodes, paths.garbage_hold: GarbageHold("restore", now_ms).encode()}
    sequences = dict(found.sequences)
    for path in sequences:
        if path == paths.ids or path.startswith(f"{paths.long_ids}/"):
            sequences[path] += ID_MARGIN
    return RebuiltTree(nodes, sequences)


def _report(
    session: CommandSession, target: str, tree: RebuiltTree, nodes: int, found: Backup | None,
    *, is_as_it_is: bool,
) -> None:  # fmt: skip
    findings: list[dict[str, Any]] = [
        {"kind": one.kind, "stream": one.subject, "detail": one.detail} for one in tree.findings
    ]
    missing = list(UNKNOWN) if found is None else []
    shown = {
        "store": target,
        "nodes": nodes,
        "ledgers": tree.ledgers,
        "decided_ends": len(tree.decided_ledgers),
        "streams": None if is_as_it_is else tree.streams,
        "records": None if is_as_it_is else tree.records,
        "unknown_ledgers": tree.unknown_ledgers,
        "findings": findings,
        "not_restored": missing,
    }
    if session.output == TABLE:
        nothing = _without_findings(missing, is_as_it_is=is_as_it_is)
        print_rows(findings, session.output, empty=nothing)
        for name in missing:
            print_message(f"not known without a backup: {name}")
    text_shown = (
        f"{target} holds {nodes} nodes: {tree.streams} streams, {tree.records} records, "
        f"{tree.ledgers} ledgers; {len(tree.unknown_ledgers)} ledgers are unknown and kept"
    )
    if is_as_it_is:
        text_shown = f"{target} holds the {nodes} nodes of the backup"
    print_done(shown, session.output, text_shown)


def _without_findings(missing: Sequence[str], *, is_as_it_is: bool) -> str:
    """Return what an empty list of findings means."""
    if is_as_it_is:
        return "not examined: the backup was taken as it is"
    return "no data of segments was found lost" if missing else "nothing was found lost"


async def _scanned(session: CommandSession, uri: str) -> Backup:
    """Return what a store holds."""
    async with AsyncExitStack() as closing:
        store = await _opened(closing, session, uri)
        progress = closing.enter_context(ProgressBar())
        return await collect_backup(
            store,
            system_runtime().clock,
            lambda step: progress.show(
                f"scan {step.scans}: {step.nodes} nodes, {step.unsettled} still change"
            ),
        )


async def _opened(closing: AsyncExitStack, session: CommandSession, uri: str) -> MovableStore:
    timeout_ms = session.settings.cluster.metadata_timeout_ms
    store = await open_without_following(uri, timeout_ms=timeout_ms)
    closing.push_async_callback(store.close)
    return store


def _new_token() -> str:
    return os.urandom(16).hex()


def _time_of(wall_ms: int) -> str:
    return datetime.fromtimestamp(wall_ms / 1000, UTC).isoformat(timespec="milliseconds")
