"""``rhumbline archive index``: the index by which queries over many streams are planned."""

import click

from ....core.protocol.errors import CorruptionError, ForeignDataError
from ....core.protocol.installation import needs_extra
from ...options import CommandSession, runs, session_options
from ...output import print_rows
from ...output_schema import integer, prints, record, rows, text
from ..cold_options import cold_option, opened_cold

with needs_extra("an archive", "arrow"):
    from ....coldstore.index.indexer import Indexer
    from ....coldstore.index.manifest_index import ManifestIndex
    from ....coldstore.index.merge import lssns_in

_INDEX = {
    "namespace": text("Namespace."),
    "generation": integer("Version of the index."),
    "streams": integer("Streams in the index, deleted ones too if they have archives."),
    "segments": integer("Archived segments in the index."),
    "changes": integer("Streams that have changed since; the next pass adds the changes."),
    "unindexed": integer("Archives without a usable tip, which readers list."),
    "packs": integer("Objects that hold copies of manifests."),
    "bytes": integer("Their size."),
}


@click.command()
@cold_option
@click.option("--update", is_flag=True, help="First add what the index lacks.")
@click.option("--rebuild", is_flag=True, help="First rebuild the index from the manifests.")
@prints(rows(record(_INDEX)))
@session_options
@runs
async def index(session: CommandSession, cold: str | None, update: bool, rebuild: bool) -> None:
    """Show the index of the namespace's archives.

    Needs the cold store, but no server of the cluster. archive serve and archive run keep the index
    up to date. Readers do without an index that is missing or damaged, but need more time.
    """
    namespace = session.settings.cluster.namespace
    store = opened_cold(session, cold)
    try:
        if rebuild:
            await Indexer(store, namespace).rebuild()
        elif update:
            await Indexer(store, namespace).run_once()
        try:
            found = await ManifestIndex(store, namespace).load()
        except (CorruptionError, ForeignDataError) as error:
            raise type(error)(
                f"{error}: 'rhumbline archive index --rebuild' writes it again"
            ) from error
    finally:
        await store.close()
    rows = [] if found is None else [
        {
            "namespace": namespace,
            "generation": found.head.generation,
            "streams": len(found.streams),
            "segments": sum(len(lssns_in(records)) for records in found.chains.values()),
            "changes": len(found.changes),
            "unindexed": len(found.head.unindexed),
            "packs": len(found.packs),
            "bytes": sum(one.size_bytes for one in found.head.packs),
        }
    ]  # fmt: skip
    print_rows(rows, session.output, empty=f"no index of {namespace} in {store.uri}")
