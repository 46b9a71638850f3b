"""``rhumbline cluster``: init, join-store, describe, features."""

from contextlib import AsyncExitStack

import click

from ...backends.open_store import open_store
from ...client.system_runtime import system_runtime
from ...core.metadata.bookie_directory import BookieDirectory
from ...core.metadata.cluster_layout import initialise_cluster
from ...core.metadata.declared_regions import declare_regions, read_declared_regions
from ...core.metadata.feature_level_store import raise_feature_level, read_feature_level
from ...core.metadata.feature_levels import KNOWN_LEVELS
from ...core.metadata.join_regional_store import join_regional_store
from ...core.metadata.ledger_ids import id_range_of
from ...core.metadata.regional_store_records import read_regional_stores
from ...core.protocol.errors import RefusedError
from ...server.upgrade.process_versions import list_process_versions, older_than
from ..command_audit import record_act
from ..errors import UnsafeError
from ..options import CommandSession, runs, session_options
from ..output import (
    TABLE,
    print_document,
    print_done,
    print_message,
    print_record,
    print_rows,
)
from ..output_schema import done, flag, integer, listing, maybe, prints, record, text


@click.group()
def cluster() -> None:
    """Initialise and describe a cluster: a metadata store and the bookies registered in it."""


@cluster.command()
@click.option("--regions", help="All regions of the cluster, e.g. eu,us; others are then refused.")
@prints(
    done(
        {
            "metadata": text("URI of the store."),
            "instance": text("Id of the cluster."),
            "declared_regions": maybe(listing(text("Region."), "The regions that were declared.")),
        }
    )
)
@session_options
@runs
async def init(session: CommandSession, regions: str | None) -> None:
    """Initialise a metadata store for a cluster. Safe to repeat.

    --regions also declares the regions of an existing cluster. See `region add`.
    """
    settings = session.settings.cluster
    async with AsyncExitStack() as closing:
        store = await open_store(session.metadata_uri(), timeout_ms=settings.metadata_timeout_ms)
        closing.push_async_callback(store.close)
        instance = await initialise_cluster(store, system_runtime().random)
        declared = None
        if regions is not None:
            directory = BookieDirectory(store)
            closing.callback(directory.close)
            names = [name.strip() for name in regions.split(",")]
            declared = list(await declare_regions(store, directory, names))
            print_message(f"the regions of the cluster are {', '.join(declared)}")
    print_done(
        {"metadata": store.uri, "instance": instance, "declared_regions": declared},
        session.output,
        f"the cluster at {store.uri} is initialised; its instance id is {instance}",
    )


@cluster.command("join-store")
@click.argument("region")
@prints(
    done(
        {
            "metadata": text("URI of the region's store."),
            "region": text("The region."),
            "first_ledger": integer("Its ledger ids begin here."),
        }
    )
)
@session_options
@runs
async def join_store(session: CommandSession, region: str) -> None:
    """Make a store the metadata store of REGION, for namespaces of that region. Safe to repeat.

    Its URI is that of REGION in cluster.regional_metadata. Start the bookies of the region with
    this setting afterwards: they register there too.
    """
    timeout_ms = session.settings.cluster.metadata_timeout_ms
    uri = session.regional_uri(region)
    async with AsyncExitStack() as closing:
        store = await open_store(session.metadata_uri(), timeout_ms=timeout_ms)
        closing.push_async_callback(store.close)
        regional = await open_store(uri, timeout_ms=timeout_ms)
        closing.push_async_callback(regional.close)
        joined = await join_regional_store(store, regional, region, system_runtime())
    first = id_range_of(joined.number).start
    print_done(
        {"metadata": uri, "region": region, "first_ledger": first},
        session.output,
        f"{uri} is the metadata store of region {region}; its ledger ids begin at {first}",
    )


@cluster.command()
@prints(
    record(
        {
            "metadata": text("URI of the store."),
            "instance": text("Id of the cluster."),
            "regions": listing(text("Region."), "Those that are declared or writable."),
            "are_regions_declared": flag("True if other regions are refused."),
            "regional_stores": listing(text("Region."), "Regions with a store of their own."),
            "writable_bookies": integer("Bookies that accept new data."),
        }
    )
)
@session_options
@runs
async def describe(session: CommandSession) -> None:
    """Show the identity and the regions of the cluster."""
    async with session.client(moves_data=False) as client:
        stores = await read_regional_stores(client.store)
        bookies = await client.directory.snapshot()
        declared = await read_declared_regions(client.store)
        regions = sorted({*(declared or ()), *(info.region or "unknown" for info in bookies)})
        shown = {
            "metadata": client.store.uri,
            "instance": client.instance_id,
            "regions": regions,
            "are_regions_declared": declared is not None,
            "regional_stores": sorted(stores),
            "writable_bookies": len(bookies),
        }
        print_record(shown, session.output)


_PROCESS = record(
    {
        "kind": text("bookie, write-proxy, read-proxy, repair or archive."),
        "process": text("Id of a bookie; host:port of another server."),
        "version": maybe(text("Version of its program; null: it knows no feature levels.")),
        "oldest_level": integer("Oldest feature level that it knows."),
        "newest_level": integer("Newest feature level that it knows."),
    }
)


@cluster.command()
@click.option("--raise", "target", type=click.IntRange(min=1), metavar="N",
              help="Raise the level to N. Refused while a server does not know it.")  # fmt: skip
@prints(
    record(
        {
            "level": integer("The feature level of the cluster."),
            "raising_to": maybe(integer("The level that an unfinished command was raising it to.")),
            "newest_level": integer("Newest feature level that this program knows."),
            "processes": listing(_PROCESS, "The servers that are up."),
        }
    )
)
@session_options
@runs
async def features(session: CommandSession, target: int | None) -> None:
    """Show the feature level of the cluster and the servers with the levels that they know.

    A higher level permits what servers of earlier versions cannot read; programs that do not know
    it are refused from then on. Raise it once all servers and applications have the new version,
    and will not return to an older one.
    """
    async with session.client(moves_data=False) as client:

        async def find_older(level: int) -> list[str]:
            return older_than(await list_process_versions(client.store), level)

        if target is not None:
            what = f"feature-level:{target}"
            try:
                await raise_feature_level(client.store, target, find_older)
            except RefusedError as error:
                record_act(session.protection, what, error)
                if type(error) is RefusedError:
                    raise UnsafeError(str(error)) from error
                raise
            record_act(session.protection, what)
        found = await read_feature_level(client.store)
        shown = [
            {
                "kind": one.kind,
                "process": one.name,
                "version": one.version or None,
                "oldest_level": one.levels.oldest,
                "newest_level": one.levels.newest,
            }
            for one in await list_process_versions(client.store)
        ]
    if session.output == TABLE:
        print_message(f"the feature level of the cluster is {found.level}")
        if found.raising:
            print_message(f"a command is raising it to {found.raising}, or ended early: repeat it")
        if found.level < KNOWN_LEVELS.newest:
            print_message(f"it can be raised to {KNOWN_LEVELS.newest} once every server knows that")
        print_rows(shown, session.output, empty="no server is up")
        return
    print_document(
        {
            "level": found.level,
            "raising_to": found.raising or None,
            "newest_level": KNOWN_LEVELS.newest,
            "processes": shown,
        },
        session.output,
    )
