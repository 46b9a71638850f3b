"""Drains bookies and regions: the parts that the ``node`` and ``region`` commands share.

A command stores the wanted state; repair processes move the data, and the command only shows their
progress. It can be interrupted and repeated at any time.
"""

from collections.abc import Callable, Sequence
from typing import Any

import click

from ....core.protocol.bookie_id import BookieId
from ....regions.states import PlacementState
from ...errors import UnsafeError
from ...options import CommandSession, runs, session_options
from ...output import print_done, print_message
from ...output_schema import Schema, done, flag, maybe, prints, text
from ..opened_cluster import Cluster, opened_stores, unread_regions
from .orders import (
    describe_reopened,
    drain_bookie,
    knowing_bookie,
    leaves_bookie,
    undrain_bookie,
)
from .progress import watch


def drain_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add --no-wait and --force."""
    command = click.option(
        "--no-wait", is_flag=True, help="Return immediately, without waiting for the data to move."
    )(command)
    return click.option(
        "--force", is_flag=True, help="Proceed even if the data has no legal place elsewhere."
    )(command)


def placement_schema(subject: str) -> Schema:
    """Return the schema of a command that changes the state of a bookie or region."""
    return done(
        {
            subject: text("What the command changed."),
            "state": maybe(text("The state that is wanted now; null: open to new data.")),
            "is_empty": flag("True if it is known that no data is left on it."),
        }
    )


async def check_all_are_read(session: CommandSession, cluster: Cluster, *, force: bool) -> bool:
    """Return whether the command reads all metadata stores. Raises UnsafeError unless ``force``.

    A bookie or a region is not empty because the stores that were read list nothing there.
    """
    unread = await unread_regions(session, cluster)
    if unread and not force:
        raise UnsafeError(
            f"the settings do not name the metadata store of {', '.join(unread)}, which may list "
            "data there: set cluster.regional_metadata; --force overrides this check"
        )
    return not unread


# --- commands of ``node`` -----------------------------------------------------------------------


@click.command()
@click.argument("bookie")
@drain_options
@prints(placement_schema("bookie"))
@session_options
@runs
async def drain(session: CommandSession, bookie: str, force: bool, no_wait: bool) -> None:
    """Move all data off a bookie, which gets no new data. Safe to repeat."""
    async with opened_stores(session) as clusters:
        bookie_id = await clusters[0].find(bookie)
        are_read = await check_all_are_read(session, clusters[0], force=force)
        state = await _drain(session, clusters, bookie_id, force=force, no_wait=no_wait)
        outcome = "draining" if no_wait else "empty" if are_read else "empty in the stores read"
        print_done(
            {"bookie": bookie_id, "state": state.value, "is_empty": not no_wait and are_read},
            session.output,
            f"{bookie_id} is {outcome}",
        )


@click.command()
@click.argument("bookie")
@prints(placement_schema("bookie"))
@session_options
@runs
async def undrain(session: CommandSession, bookie: str) -> None:
    """Let a bookie accept new data again."""
    async with opened_stores(session) as clusters:
        bookie_id = await clusters[0].find(bookie)
        await undrain_bookie(clusters, bookie_id)
        print_done(
            {"bookie": bookie_id, "state": None, "is_empty": False},
            session.output,
            await describe_reopened(clusters, bookie_id, leaves_bookie(bookie_id)),
        )


@click.command()
@click.argument("bookie")
@drain_options
@prints(placement_schema("bookie"))
@session_options
@runs
async def decommission(session: CommandSession, bookie: str, force: bool, no_wait: bool) -> None:
    """Move all data off a bookie, up or down, and remove it from the cluster permanently."""
    async with opened_stores(session) as clusters:
        cluster = clusters[0]
        bookie_id = await cluster.find(bookie)
        are_read = await check_all_are_read(session, cluster, force=force)
        knowing = await knowing_bookie(clusters, bookie_id)
        state = await _drain(session, clusters, bookie_id, force=force, no_wait=no_wait)
        is_empty = not no_wait and are_read
        outcome = {"bookie": bookie_id, "state": state.value, "is_empty": is_empty}
        if no_wait:
            print_done(outcome, session.output, f"{bookie_id} is draining")
            return
        for known_by in reversed(knowing):  # the cookie in the global store is the one that counts
            await known_by.directory.delete_cookie(bookie_id)
        if bookie_id in await cluster.directory.up():
            print_done(
                outcome | {"state": "decommissioned"},
                session.output,
                f"{bookie_id} is decommissioned; stop its process now, it cannot be restarted",
            )
        else:
            for known_by in knowing:
                await known_by.set(lambda states: states.with_bookie(bookie_id, None))
            print_done(
                outcome | {"state": "decommissioned"},
                session.output,
                f"{bookie_id} is decommissioned",
            )


async def _drain(
    session: CommandSession,
    clusters: Sequence[Cluster],
    bookie: BookieId,
    *,
    force: bool,
    no_wait: bool,
) -> PlacementState:
    state = await drain_bookie(clusters, bookie, force=force)
    print_message(f"{bookie} is {state.value}: it gets no new data")
    if not no_wait:
        for cluster in await knowing_bookie(clusters, bookie):
            await watch(session, cluster, bookie, leaves_bookie(bookie))
    return state
