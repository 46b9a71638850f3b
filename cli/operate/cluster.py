"""``rhumbline cluster``: init, describe."""

import click

from ...backends.open_store import open_store
from ...client.system_runtime import system_runtime
from ...core.metadata.cluster_layout import initialise_cluster
from ..options import CommandSession, runs, session_options
from ..output import print_message, print_record


@click.group()
def cluster() -> None:
    """Initialise and describe a cluster: a metadata store and the bookies registered in it."""


@cluster.command()
@session_options
@runs
async def init(session: CommandSession) -> None:
    """Initialise a metadata store for a cluster. Safe to repeat."""
    settings = session.settings.cluster
    store = await open_store(session.metadata_uri(), timeout_ms=settings.metadata_timeout_ms)
    try:
        instance = await initialise_cluster(store, system_runtime().random)
    finally:
        await store.close()
    print_message(f"the cluster at {store.uri} is initialised; its instance id is {instance}")


@cluster.command()
@session_options
@runs
async def describe(session: CommandSession) -> None:
    """Show the identity and the regions of the cluster."""
    async with session.client(moves_data=False) as client:
        bookies = await client.directory.snapshot()
        regions = sorted({info.region or "unknown" for info in bookies})
        record = {
            "metadata": client.store.uri,
            "instance": client.instance_id,
            "regions": regions,
            "writable bookies": len(bookies),
        }
        print_record(record, session.output)
