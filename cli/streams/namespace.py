"""``rhumbline namespace``: create, ls, describe, set-policy, delete, move."""

import click

from ...client.connect import Client
from ...client.moving.move_survey import MoveSurvey
from ...client.units import parse_ms
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
from ..output import ProgressBar, print_message, print_record, print_rows
from .policy_options import (
    PolicyOptions,
    default_quorum,
    describe_policy,
    policy_options,
)


@click.group()
def namespace() -> None:
    """Create, show and delete namespaces: groups of streams with a common policy."""


@namespace.command()
@click.argument("name")
@click.option("--store", metavar="REGION", help="Keep the metadata in the store of this region.")
@click.option("--region-local", is_flag=True, help="The same for the region of --region.")
@policy_options
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
        await _check_regions(chosen, client, directory)
        await client.namespaces.create(name, chosen, region)
        where = "" if region is None else f" in the metadata store of region {region}"
        print_message(f"namespace {name} was created{where}; quorum E/WQ/AQ/R {chosen.quorum}")


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
@session_options
@runs
async def describe(session: CommandSession, name: str) -> None:
    """Show the policy of a namespace."""
    async with session.client(moves_data=False) as client:
        known = await client.namespace(name).policy()
        region = (await client.namespaces.find(name)).store_region
        record = {"namespace": name, "store": region or "global", **describe_policy(known)}
        print_record(record, session.output)


@namespace.command("set-policy")
@click.argument("name")
@policy_options
@session_options
@runs
async def set_policy(session: CommandSession, name: str, policy: PolicyOptions) -> None:
    """Change the policy; streams that follow it apply it from their next segment on."""
    async with session.client(moves_data=False) as client:
        opened = client.namespace(name)
        chosen = policy.apply_to(await opened.policy())
        directory = (await client.namespaces.find(name)).directory
        await _check_regions(chosen, client, directory)
        await opened.set_policy(chosen)
        print_record({"namespace": name, **describe_policy(chosen)}, session.output)


@namespace.command()
@click.argument("name")
@session_options
@runs
async def delete(session: CommandSession, name: str) -> None:
    """Delete an empty namespace."""
    async with session.client(moves_data=False) as client:
        await client.namespaces.delete(name)
        print_message(f"namespace {name} was deleted")


@namespace.command()
@click.argument("name")
@click.option("--to", "target", metavar="REGION|global", required=True,
              help="The region to whose metadata store it moves, or `global`.")  # fmt: skip
@click.option("--check", is_flag=True, help="Only show what would move, and what prevents it.")
@click.option("--abort", is_flag=True, help="Undo a move that was interrupted.")
@click.option("--longest-pause", "longest_pause", default="60s", show_default=True,
              help="Undo the move if streams cannot be opened for longer than this.")  # fmt: skip
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
                print_message(f"namespace {name} is in use where it was")
                return
            if check:
                _print_survey(await mover.survey(), target, session.output)
                return
            outcome = await mover.run()
        print_message(f"namespace {name} is in the {_described(region)}")
        record = {
            "streams": outcome.streams,
            "ledgers": outcome.ledgers,
            "pause ms": outcome.pause_ms,
        }
        print_record(record, session.output)


def _described(region: Region | None) -> str:
    return "global metadata store" if region is None else f"metadata store of region {region}"


def _print_survey(found: MoveSurvey, target: str, output: str) -> None:
    record = {
        "to": target,
        "streams": found.streams,
        "segments": found.segments,
        "bytes": found.bytes,
        "possible": not found.obstacles,
    }
    print_record(record, output)
    for obstacle in found.obstacles:
        print_message(obstacle)


async def _check_regions(policy: StreamPolicy, client: Client, directory: SteeredDirectory) -> None:
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
