"""``rhumbline namespace``: create, ls, describe, set-policy, delete, move."""

from typing import Any

import click

from ...client.connect import Client
from ...client.moving.move_survey import MoveSurvey
from ...client.units import parse_ms, show_bytes, show_count, show_ms
from ...core.log.policy import StreamPolicy
from ...core.metadata.declared_regions import check_declared
from ...core.protocol.bookie_id import Region, check_region
from ...core.protocol.errors import (
    ConfigurationError,
    InvalidArgumentError,
    NoSuchNamespaceError,
    UnavailableError,
)
from ...regions.steered_directory import SteeredDirectory
from ..options import CommandSession, runs, session_options
from ..output import TABLE, ProgressBar, print_done, print_message, print_record, print_rows
from ..output_schema import done, flag, integer, listing, maybe, prints, record, rows, text
from .policy_documents import POLICY, policy_document
from .policy_options import (
    PolicyOptions,
    default_quorum,
    describe_policy,
    policy_options,
)


@click.group()
def namespace() -> None:
    """Create, show and delete namespaces: groups of streams with a common policy."""


_NAME = text("Name of the namespace.")
_STORE = text("global, or the region in whose metadata store it is.")


@namespace.command()
@click.argument("name")
@click.option("--store", metavar="REGION", help="Keep the metadata in the store of this region.")
@click.option(
    "--region-local", is_flag=True, help="Keep the metadata in the store of the region in --region."
)
@policy_options
@prints(done({"namespace": _NAME, "store": _STORE, "quorum": text("E/WQ/AQ/R.")}))
@session_options
@runs
async def create(
    session: CommandSession,
    name: str,
    store: str | None,
    policy: PolicyOptions,
    *,
    region_local: bool,
) -> None:
    """Create a namespace, in the global metadata store or in that of a region.

    The default quorum fits the regions of the cluster, or those of --regions: one copy in each,
    acknowledged by a majority of them. Regions without a bookie that takes new data now do not
    count. Streams of a namespace in a regional store use the bookies
    of that region.
    """
    region = _region_of_store(session, store, region_local=region_local)
    async with session.client(moves_data=False) as client:
        opened = client.global_store
        if region is not None:
            opened = await client.namespaces.store_of(region)
        directory = opened.directory
        usable = await directory.in_usable_regions()
        allowed = policy.allowed_regions
        chosen = policy.apply_to(StreamPolicy(quorum=default_quorum(usable, allowed)))
        await check_regions(chosen, client, directory)
        await client.namespaces.create(name, chosen, region)
        where = "" if region is None else f" in the metadata store of region {region}"
        print_done(
            {"namespace": name, "store": region or "global", "quorum": str(chosen.quorum)},
            session.output,
            f"namespace {name} was created{where}; quorum E/WQ/AQ/R {chosen.quorum}",
        )


def _region_of_store(
    session: CommandSession, store: str | None, *, region_local: bool
) -> Region | None:
    own = session.settings.cluster.region
    if not region_local:
        return None if store is None else check_region(store)
    if store not in (None, own):
        raise click.UsageError(f"--store {store} and --region-local are mutually exclusive")
    if not own:
        raise ConfigurationError("--region-local needs the region of this process: set --region")
    return check_region(own)


@namespace.command()
@prints(
    rows(
        record(
            {
                "namespace": _NAME,
                "store": _STORE,
                "quorum": maybe(text("E/WQ/AQ/R; null if the store cannot be reached.")),
                "regions": maybe(text("Regions that may store its streams, or all.")),
            }
        )
    )
)
@session_options
@runs
async def ls(session: CommandSession) -> None:
    """List the namespaces with the metadata store of each.

    In a region that is cut off from the global store, those of its own store are listed.
    """
    async with session.client(moves_data=False) as client:
        rows = []
        async for name, region in client.namespaces.all():
            row = {"namespace": name, "store": region or "global", "quorum": None, "regions": None}
            try:
                store = await client.namespaces.store_of(region)
                known = await client.namespace_of(store, name).policy()
            except (ConfigurationError, UnavailableError, NoSuchNamespaceError) as error:
                if region is None:
                    raise
                print_message(f"namespace {name}: {error}")
            else:
                row["quorum"] = str(known.quorum)
                row["regions"] = ", ".join(known.regions) or region or "all"
            rows.append(row)
        print_rows(rows, session.output, empty="no namespace; create one")


@namespace.command()
@click.argument("name")
@prints(record({"namespace": _NAME, "store": _STORE, "policy": POLICY}))
@session_options
@runs
async def describe(session: CommandSession, name: str) -> None:
    """Show the policy of a namespace."""
    async with session.client(moves_data=False) as client:
        known = await client.namespace(name).policy()
        region = (await client.namespaces.find(name)).store_region
        _print_policy(session, {"namespace": name, "store": region or "global"}, known)


@namespace.command("set-policy")
@click.argument("name")
@policy_options
@prints(record({"namespace": _NAME, "policy": POLICY}))
@session_options
@runs
async def set_policy(session: CommandSession, name: str, policy: PolicyOptions) -> None:
    """Change the policy; streams that follow it apply it from their next segment on."""
    async with session.client(moves_data=False) as client:
        opened = client.namespace(name)
        chosen = policy.apply_to(await opened.policy())
        directory = (await client.namespaces.find(name)).directory
        await check_regions(chosen, client, directory)
        await opened.set_policy(chosen)
        _print_policy(session, {"namespace": name}, chosen)


@namespace.command()
@click.argument("name")
@prints(done({"namespace": _NAME}))
@session_options
@runs
async def delete(session: CommandSession, name: str) -> None:
    """Delete an empty namespace."""
    async with session.client(moves_data=False) as client:
        await client.namespaces.delete(name)
        print_done({"namespace": name}, session.output, f"namespace {name} was deleted")


def _print_policy(session: CommandSession, known: dict[str, Any], policy: StreamPolicy) -> None:
    if session.output == TABLE:
        print_record({**known, **describe_policy(policy)}, session.output)
    else:
        print_record({**known, "policy": policy_document(policy)}, session.output)


_MOVE = done(
    {
        "namespace": text("Its name."),
        "to": text("The region to whose store it moves, or global."),
        "is_moved": flag("True if the namespace is there now."),
        "streams": maybe(integer("Its streams; null if they were not counted.")),
        "segments": maybe(integer("Their segments; null if they were not counted.")),
        "data_bytes": maybe(integer("Size of completed segments; null if not counted.")),
        "pause_ms": maybe(integer("How long no stream could be opened for writing.")),
        "obstacles": listing(text("What prevents the move."), "Empty if nothing does."),
    }
)


@namespace.command()
@click.argument("name")
@click.option("--to", "target", metavar="REGION|global", required=True,
              help="The region to whose metadata store it moves, or `global`.")  # fmt: skip
@click.option("--check", is_flag=True, help="Only show what would move, and what prevents it.")
@click.option("--abort", is_flag=True, help="Undo a move that was interrupted.")
@click.option("--longest-pause", "longest_pause", default="60s", show_default=True,
              help="Undo the move if streams cannot be opened for longer than this.")  # fmt: skip
@prints(_MOVE)
@session_options
@runs
async def move(
    session: CommandSession,
    name: str,
    target: str,
    longest_pause: str,
    *,
    check: bool,
    abort: bool,
) -> None:
    """Move a namespace with its streams to another metadata store of the cluster.

    No data moves. The streams are taken from their writers, and cannot be opened for writing until
    the move is over; readers continue. After a failure, repeat the command to continue, or use
    --abort to go back.
    """
    region = None if target == "global" else check_region(target)
    async with session.client(moves_data=False) as client:
        with ProgressBar() as progress:
            mover = await client.namespaces.mover(
                name,
                region,
                pause_ms_max=parse_ms(longest_pause),
                on_progress=lambda step: progress.show(step.step, step.done, step.total or None),
            )
            if abort:
                await mover.abort()
                shown = _move_document(name, target)
                message = f"namespace {name} is in use where it was"
            elif check:
                found = await mover.survey()
                shown = _move_document(name, target, found)
                message = _survey_message(name, target, found)
            else:
                outcome = await mover.run()
                shown = _move_document(name, target) | {
                    "is_moved": True,
                    "streams": outcome.streams,
                    "pause_ms": outcome.pause_ms,
                }
                message = (
                    f"namespace {name} with {show_count(outcome.streams, 'stream')} is in the "
                    f"{_described(region)}; it could not be written for "
                    f"{show_ms(outcome.pause_ms)}"
                )
        print_done(shown, session.output, message)


def _described(region: Region | None) -> str:
    return "global metadata store" if region is None else f"metadata store of region {region}"


def _move_document(name: str, target: str, found: MoveSurvey | None = None) -> dict[str, Any]:
    return {
        "namespace": name,
        "to": target,
        "is_moved": False,
        "streams": None if found is None else found.streams,
        "segments": None if found is None else found.segments,
        "data_bytes": None if found is None else found.bytes,
        "pause_ms": None,
        "obstacles": [] if found is None else list(found.obstacles),
    }


def _survey_message(name: str, target: str, found: MoveSurvey) -> str:
    summary = (
        f"namespace {name} has {show_count(found.streams, 'stream')} with "
        f"{show_count(found.segments, 'segment')} and {show_bytes(found.bytes)}"
    )
    verdict = "cannot" if found.obstacles else "can"
    return "\n".join([f"{summary}; it {verdict} move to {target}", *found.obstacles])


async def check_regions(policy: StreamPolicy, client: Client, directory: SteeredDirectory) -> None:
    """Raise an error if the policy names a region that is not declared, or without bookies."""
    if not policy.regions:
        return
    declared = await client.directory.declared_regions()
    for name in policy.regions:
        check_declared(name, declared, "--regions")
    known = await directory.configured()
    regions = sorted({str(info.region) for info in known if info.region is not None})
    for name in policy.regions:
        if name not in regions:
            known_regions = ", ".join(regions) or "none"
            raise InvalidArgumentError(
                f"no bookie is in region {name}; the regions are: {known_regions}"
            )
