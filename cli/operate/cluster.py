"""``rhumbline cluster``: init, join-store, describe."""

from contextlib import AsyncExitStack

import click

from ...backends.open_store import open_store
from ...client.system_runtime import system_runtime
from ...core.metadata.bookie_directory import BookieDirectory
from ...core.metadata.cluster_layout import initialise_cluster
from ...core.metadata.declared_regions import declare_regions, read_declared_regions
from ...core.metadata.join_regional_store import join_regional_store
from ...core.metadata.ledger_ids import id_range_of
from ...core.metadata.regional_store_records import read_regional_stores
from ..options import CommandSession, runs, session_options
from ..output import print_done, print_message, print_record
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
