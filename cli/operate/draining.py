"""Drains bookies and regions: the parts that the ``node`` and ``region`` commands share.

A command stores the wanted state; repair processes move the data, and the command only shows their
progress. It can be interrupted and repeated at any time.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import Any

import click

from ...backends.open_store import open_store
from ...client.units import show_bytes, show_count, show_ms
from ...core.metadata.ledger_store import LedgerStore
from ...core.metadata.regional_store_records import open_regional_store
from ...core.protocol.bookie_id import BookieId, bookie_name
from ...core.protocol.errors import InvalidArgumentError
from ...core.runtime.metadata_store import MetadataStore
from ...regions.repair.progress import (
    IsLeaving,
    RemainingCopies,
    count_remaining,
    unplaceable_quorums,
)
from ...regions.repair.task_store import TaskStore
from ...regions.states import PlacementState, PlacementStates
from ...regions.steered_directory import SteeredDirectory
from ..cluster_store import cluster_store
from ..errors import UnsafeError
from ..options import CommandSession, runs, session_options
from ..output import ProgressBar, print_message

_POLL_S = 1.0
_REASONS_SHOWN = 3


@dataclass(frozen=True, slots=True)
class Cluster:
    """The parts of the metadata store that these commands use."""

    directory: SteeredDirectory
    ledgers: LedgerStore
    tasks: TaskStore

    async def find(self, name: str) -> BookieId:
        """Return the bookie with this id, or with this name if it is unique."""
        known = await self.directory.all_known()
        found = [bookie for bookie in known if name in (bookie, bookie_name(bookie))]
        if len(found) != 1:
            candidates = ", ".join(found or known) or "none"
            reason = "several bookies have the name" if found else "unknown bookie"
            raise InvalidArgumentError(f"{reason} {name}; the bookies are: {candidates}")
        return found[0]

    async def set(self, change: Callable[[PlacementStates], PlacementStates]) -> None:
        """Change the stored states of bookies and regions."""
        await self.directory.states.change(change)


@asynccontextmanager
async def opened(session: CommandSession) -> AsyncIterator[Cluster]:
    """Open the cluster that the options select."""
    async with cluster_store(session) as store:
        cluster = _cluster_in(store)
        try:
            yield cluster
        finally:
            cluster.directory.close()


def _cluster_in(store: MetadataStore) -> Cluster:
    return Cluster(SteeredDirectory(store), LedgerStore(store), TaskStore(store))


@asynccontextmanager
async def opened_stores(session: CommandSession) -> AsyncIterator[tuple[Cluster, ...]]:
    """Open the selected store of the cluster, and the regional stores of the settings after it.

    The states of a bookie are in each store that knows the bookie (rule RPR-21). Raises
    MetadataUnavailableError if one of them cannot be reached: the command is repeated later, or
    given for the other stores by --metadata.
    """
    settings = session.settings.cluster
    async with AsyncExitStack() as closing:
        clusters = [await closing.enter_async_context(opened(session))]
        for region, uri in settings.regional_metadata:
            if uri != settings.metadata:
                store = await open_store(uri, timeout_ms=settings.metadata_timeout_ms)
                closing.push_async_callback(store.close)
                await open_regional_store(store, region)
                clusters.append(_cluster_in(store))
                closing.callback(clusters[-1].directory.close)
        yield tuple(clusters)


async def _knowing(clusters: Sequence[Cluster], bookie: BookieId) -> list[Cluster]:
    """Return the stores that know the bookie."""
    return [found for found in clusters if bookie in await found.directory.all_known()]


def drain_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add --no-wait and --force."""
    command = click.option(
        "--no-wait", is_flag=True, help="Return at once, without waiting for the data to move."
    )(command)
    return click.option(
        "--force", is_flag=True, help="Proceed even if the data has no legal place elsewhere."
    )(command)


async def check_there_is_room(cluster: Cluster, is_leaving: IsLeaving, *, force: bool) -> None:
    """Raise UnsafeError if the data has no place elsewhere that satisfies its region rule."""
    found = await count_remaining(cluster.ledgers, cluster.directory, cluster.tasks, is_leaving)
    faults = await unplaceable_quorums(found, cluster.directory, is_leaving)
    if faults and not force:
        raise UnsafeError("; ".join(faults) + "; --force overrides this check")


async def watch(session: CommandSession, cluster: Cluster, is_leaving: IsLeaving) -> None:
    """Show progress until no data is left."""
    if await cluster.tasks.auditor() is None:
        print_message("no repair process is running: start `rhumbline repair run`")
    loop = asyncio.get_running_loop()
    start, first, last = loop.time(), None, ""
    with ProgressBar() as progress:
        while True:
            found = await count_remaining(
                cluster.ledgers, cluster.directory, cluster.tasks, is_leaving
            )
            first = first or found
            line = describe(found, first, loop.time() - start)
            if session.output == "json" and line != last:
                click.echo(json.dumps(as_document(found, first, loop.time() - start)))
            progress.show(line, first.entries - found.entries, first.entries)
            last = line
            if found.is_empty:
                return
            await asyncio.sleep(_POLL_S)


def eta_s(found: RemainingCopies, first: RemainingCopies, elapsed_s: float) -> float | None:
    """Return the remaining seconds at the rate so far; None if nothing has moved yet."""
    done = first.entries - found.entries
    return None if done <= 0 else elapsed_s * found.entries / done


def as_document(found: RemainingCopies, first: RemainingCopies, elapsed_s: float) -> dict[str, Any]:
    """Return the progress as JSON values."""
    eta = eta_s(found, first, elapsed_s)
    return {
        "ledgers": found.ledgers,
        "copies": found.copies,
        "entries": found.entries,
        "bytes": found.bytes,
        "being_written": found.writing,
        "hopeless": found.hopeless,
        "stuck": found.reasons,
        "eta_ms": None if eta is None else int(eta * 1000),
    }


def describe(found: RemainingCopies, first: RemainingCopies, elapsed_s: float) -> str:
    """Return the progress in one line."""
    if found.is_empty:
        return "no data left"
    eta = eta_s(found, first, elapsed_s)
    parts = [
        f"{show_count(found.ledgers, 'ledger')}, {show_count(found.copies, 'copy', 'copies')}, "
        f"{show_bytes(found.bytes)} left",
        "ETA unknown" if eta is None else f"ETA {show_ms(eta * 1000)}",
    ]
    if found.writing:
        parts.append(f"{found.writing} being written")
    parts += [f"{n} x {why}" for why, n in list(found.reasons.items())[:_REASONS_SHOWN]]
    return "; ".join(parts)


# --- commands of ``node`` -----------------------------------------------------------------------


@click.command()
@click.argument("bookie")
@drain_options
@session_options
@runs
async def drain(session: CommandSession, bookie: str, force: bool, no_wait: bool) -> None:
    """Move all data off a bookie, which gets no new data. Safe to repeat."""
    async with opened_stores(session) as clusters:
        bookie_id = await clusters[0].find(bookie)
        await _drain(session, clusters, bookie_id, force=force, no_wait=no_wait)


@click.command()
@click.argument("bookie")
@session_options
@runs
async def undrain(session: CommandSession, bookie: str) -> None:
    """Let a bookie accept new data again."""
    async with opened_stores(session) as clusters:
        bookie_id = await clusters[0].find(bookie)
        for cluster in await _knowing(clusters, bookie_id):
            await cluster.set(lambda states: states.with_bookie(bookie_id, None))
        print_message(f"{bookie_id} accepts new data")


@click.command()
@click.argument("bookie")
@drain_options
@session_options
@runs
async def decommission(session: CommandSession, bookie: str, force: bool, no_wait: bool) -> None:
    """Move all data off a bookie, up or down, and remove it from the cluster permanently."""
    async with opened_stores(session) as clusters:
        cluster = clusters[0]
        bookie_id = await cluster.find(bookie)
        knowing = await _knowing(clusters, bookie_id)
        await _drain(session, clusters, bookie_id, force=force, no_wait=no_wait)
        if no_wait:
            return
        for known_by in reversed(knowing):  # the cookie in the global store is the one that counts
            await known_by.directory.delete_cookie(bookie_id)
        if bookie_id in await cluster.directory.up():
            print_message(
                f"{bookie_id} is decommissioned; stop its process now, it cannot be restarted"
            )
        else:
            for known_by in knowing:
                await known_by.set(lambda states: states.with_bookie(bookie_id, None))
            print_message(f"{bookie_id} is decommissioned")


async def _drain(
    session: CommandSession,
    clusters: Sequence[Cluster],
    bookie: BookieId,
    *,
    force: bool,
    no_wait: bool,
) -> None:
    def is_leaving(candidate: BookieId, _: object) -> bool:
        return candidate == bookie

    knowing = await _knowing(clusters, bookie)
    for cluster in knowing:
        await check_there_is_room(cluster, is_leaving, force=force)
    is_up = bookie in await clusters[0].directory.up()
    state = PlacementState.DRAINED if is_up else PlacementState.OFFLINE
    for cluster in knowing:
        await cluster.set(lambda states: states.with_bookie(bookie, state))
    print_message(f"{bookie} is {state.value}: it gets no new data")
    if not no_wait:
        for cluster in knowing:
            await watch(session, cluster, is_leaving)
        print_message(f"{bookie} is empty")
