"""Moving data away from bookies and regions: what ``node`` and ``region`` commands share.

The command says what should be so; repair processes do the work, and the command only watches. It
can be stopped and given again at any time.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import click

from ...core.metadata.ledger_store import LedgerStore
from ...core.protocol.bookie_id import BookieId, bookie_name
from ...core.protocol.errors import InvalidArgumentError
from ...regions.repair.progress import IsLeaving, Remaining, remaining, without_a_place
from ...regions.repair.task_store import TaskStore
from ...regions.states import State, States
from ...regions.steered_directory import SteeredDirectory
from ..cluster_store import cluster_store
from ..errors import UnsafeError
from ..options import CommandSession, runs, session_options
from ..output import ProgressBar, say
from ..units import show_bytes, show_ms

_LOOK_S = 1.0
_REASONS_SHOWN = 3


@dataclass(frozen=True, slots=True)
class Cluster:
    """The parts of the metadata store that these commands use."""

    directory: SteeredDirectory
    ledgers: LedgerStore
    tasks: TaskStore

    async def find(self, name: str) -> BookieId:
        """The bookie with this id, or this name if only one has it."""
        known = await self.directory.all_known()
        found = [one for one in known if name in (one, bookie_name(one))]
        if len(found) != 1:
            among = ", ".join(found or known) or "none"
            many = "several bookies are called" if found else "no bookie"
            raise InvalidArgumentError(f"{many} {name}; there are: {among}")
        return found[0]

    async def set(self, change: Callable[[States], States]) -> None:
        """Changes the states."""
        await self.directory.states.change(change)


@asynccontextmanager
async def opened(session: CommandSession) -> AsyncIterator[Cluster]:
    """The cluster that the options name."""
    async with cluster_store(session) as store:
        directory = SteeredDirectory(store)
        try:
            yield Cluster(directory, LedgerStore(store), TaskStore(store))
        finally:
            directory.close()


def waiting_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Adds --no-wait and --force."""
    command = click.option("--no-wait", is_flag=True, help="Say it, and do not watch.")(command)
    return click.option("--force", is_flag=True, help="Even if the data cannot go elsewhere.")(
        command
    )


async def check_there_is_room(cluster: Cluster, is_leaving: IsLeaving, *, force: bool) -> None:
    """Raises UnsafeError when what is there could go nowhere without breaking its region rule."""
    found = await remaining(cluster.ledgers, cluster.directory, cluster.tasks, is_leaving)
    faults = await without_a_place(found, cluster.directory, is_leaving)
    if faults and not force:
        raise UnsafeError("; ".join(faults) + "; --force says it all the same")


async def watch(session: CommandSession, cluster: Cluster, is_leaving: IsLeaving) -> None:
    """Shows progress until nothing is left there."""
    if await cluster.tasks.auditor() is None:
        say("no repair process is running: start `rhumbline repair run`")
    progress = ProgressBar()
    loop = asyncio.get_running_loop()
    start, first, last = loop.time(), None, ""
    while True:
        found = await remaining(cluster.ledgers, cluster.directory, cluster.tasks, is_leaving)
        first = first or found
        line = describe(found, first, loop.time() - start)
        if session.output == "json" and line != last:
            click.echo(json.dumps(as_document(found, first, loop.time() - start)))
        progress.show(line)
        last = line
        if found.is_empty:
            progress.clear()
            return
        await asyncio.sleep(_LOOK_S)


def eta_s(found: Remaining, first: Remaining, elapsed_s: float) -> float | None:
    """Seconds to go at the rate so far; None: nothing has moved yet."""
    done = first.entries - found.entries
    return None if done <= 0 else elapsed_s * found.entries / done


def as_document(found: Remaining, first: Remaining, elapsed_s: float) -> dict[str, Any]:
    """Progress as JSON."""
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


def describe(found: Remaining, first: Remaining, elapsed_s: float) -> str:
    """Progress in one line."""
    if found.is_empty:
        return "nothing is left there"
    eta = eta_s(found, first, elapsed_s)
    parts = [
        f"{found.ledgers} ledgers, {found.copies} copies, {show_bytes(found.bytes)} left",
        "ETA unknown" if eta is None else f"ETA {show_ms(eta * 1000)}",
    ]
    if found.writing:
        parts.append(f"{found.writing} being written")
    parts += [f"{n} x {why}" for why, n in list(found.reasons.items())[:_REASONS_SHOWN]]
    return "; ".join(parts)


# --- the verbs of ``node`` ----------------------------------------------------------------------


@click.command()
@click.argument("bookie")
@waiting_options
@session_options
@runs
async def drain(session: CommandSession, bookie: str, force: bool, no_wait: bool) -> None:
    """Moves everything off a bookie; it gets no new data. Safe to repeat."""
    async with opened(session) as cluster:
        await _drain(session, cluster, await cluster.find(bookie), force=force, no_wait=no_wait)


@click.command()
@click.argument("bookie")
@session_options
@runs
async def undrain(session: CommandSession, bookie: str) -> None:
    """Lets a bookie take new data again."""
    async with opened(session) as cluster:
        one = await cluster.find(bookie)
        await cluster.set(lambda states: states.with_bookie(one, None))
        say(f"{one} takes new data")


@click.command()
@click.argument("bookie")
@waiting_options
@session_options
@runs
async def decommission(session: CommandSession, bookie: str, force: bool, no_wait: bool) -> None:
    """Moves everything off a bookie, up or down, and forgets it: it will never be started again."""
    async with opened(session) as cluster:
        one = await cluster.find(bookie)
        await _drain(session, cluster, one, force=force, no_wait=no_wait)
        if no_wait:
            return
        await cluster.directory.delete_cookie(one)
        up = [*await cluster.directory.writable(), *await cluster.directory.read_only()]
        if one in up:
            say(f"{one} is decommissioned; stop its process now, it cannot be started again")
        else:
            await cluster.set(lambda states: states.with_bookie(one, None))
            say(f"{one} is decommissioned")


async def _drain(
    session: CommandSession, cluster: Cluster, bookie: BookieId, *, force: bool, no_wait: bool
) -> None:
    def is_leaving(one: BookieId, _: object) -> bool:
        return one == bookie

    await check_there_is_room(cluster, is_leaving, force=force)
    up = [*await cluster.directory.writable(), *await cluster.directory.read_only()]
    state = State.DRAINED if bookie in up else State.OFFLINE
    await cluster.set(lambda states: states.with_bookie(bookie, state))
    say(f"{bookie} is {state.value}: it gets no new data")
    if not no_wait:
        await watch(session, cluster, is_leaving)
        say(f"{bookie} is empty")
