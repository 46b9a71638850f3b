"""``rhumbline archive tables``: the Iceberg tables of archives."""

from collections.abc import Iterable
from typing import TYPE_CHECKING

import click

from ...client.units import show_count
from ...core.protocol.errors import ConfigurationError, CorruptionError
from ...core.protocol.installation import needs_extra
from ...core.runtime.clock import Clock
from ...core.runtime.cold_store import ColdStore
from ..options import CommandSession, runs, session_options
from ..output import print_message, print_rows
from ..output_schema import integer, prints, record, rows, text
from .cold_options import cold_option, opened_cold

if TYPE_CHECKING:
    from ...coldstore.archive.archive_folder import ArchiveFolder
    from ...coldstore.iceberg.iceberg_tables import IcebergTables
    from ...coldstore.iceberg.registrar import TablePass, TableRegistrar

_TABLE = {
    "table": text("Name of the table in the catalogue."),
    "stream": text("NAMESPACE/STREAM."),
    "stream_id": text("Identity of the stream, whose archive the table is."),
    "first_segment": integer("Oldest segment in the table."),
    "last_segment": integer("Newest segment in the table."),
    "segments_behind": integer("Archived segments that the table does not have."),
    "records": integer("Records in the table."),
    "files": integer("Files in the table."),
    "snapshots": integer("Snapshots that can be read."),
    "metadata": text("URI of the table's metadata, for readers without a catalogue."),
}


def open_tables(session: CommandSession, cold: str | None) -> "IcebergTables | None":
    """Open the tables in the catalogue of ``archive.tables``; return None if it is not set.

    Raises ConfigurationError for a bad URI, or if pyiceberg is not installed.
    """
    uri = session.settings.archive.tables
    if not uri:
        return None
    with needs_extra("Iceberg tables", "iceberg"):
        from ...coldstore.iceberg.iceberg_tables import IcebergTables
    return IcebergTables(uri, cold or session.settings.cluster.cold)


def table_registrar(
    session: CommandSession, store: ColdStore, namespace: str, tables: "IcebergTables", clock: Clock
) -> "TableRegistrar":
    """Return the registrar of a namespace, which reports each pass that changed something."""
    from ...coldstore.iceberg.registrar import TableRegistrar

    settings = session.settings.archive
    return TableRegistrar(
        store,
        namespace,
        tables,
        clock,
        pause_ms=settings.tables_interval_ms,
        snapshots_kept_ms=settings.tables_snapshots_kept_ms,
        on_pass=report_tables,
    )


async def table_faults(
    session: CommandSession, store: ColdStore, cold: str | None, folders: "Iterable[ArchiveFolder]"
) -> dict[str, CorruptionError]:
    """Compare the tables of archives with them, if there is a catalogue; see ``check_tables``."""
    catalog = open_tables(session, cold)
    if catalog is None:
        return {}
    from ...coldstore.iceberg.check_tables import check_tables

    try:
        return await check_tables(store, catalog, folders)
    finally:
        await catalog.close()


def report_tables(done: "TablePass") -> None:
    """Print what a pass changed, and its faults."""
    if done.registered:
        print_message(f"registered {show_count(done.registered, 'segment')} in tables")
    for folder, fault in done.faults.items():
        print_message(f"table of {folder.stream}: {fault}")


@click.command()
@cold_option
@click.option("--update", is_flag=True, help="First register what is archived, and remove what "
              "is not archived any more.")  # fmt: skip
@prints(rows(record(_TABLE)))
@session_options
@runs
async def tables(session: CommandSession, cold: str | None, update: bool) -> None:
    """List the Iceberg tables of the namespace's archives, and how far they are behind.

    Needs the catalogue (archive.tables) and the cold store, but no server of the cluster. archive
    serve and archive run keep tables up to date; --update does it here.
    """
    from ...client.system_runtime import system_runtime
    from ...coldstore.iceberg.registration import waiting_segments

    store = opened_cold(session, cold)
    catalog = open_tables(session, cold)
    namespace = session.settings.cluster.namespace
    try:
        if catalog is None:
            raise ConfigurationError("no catalogue of tables: set archive.tables")
        clock = system_runtime().clock
        registrar = table_registrar(session, store, namespace, catalog, clock)
        faults: list[str] = []
        if update:
            done = await registrar.run_until_even()
            faults = list(done.faults.values())
        archived = await registrar.archived()
        rows = [
            {
                "table": one.table,
                "stream": f"{one.namespace}/{one.stream}",
                "stream_id": one.stream_id,
                "first_segment": one.state.first_lssn,
                "last_segment": one.state.last_lssn,
                "segments_behind": waiting_segments(one.state, archived.get(one.folder) or ()),
                "records": one.records,
                "files": one.files,
                "snapshots": one.snapshots,
                "metadata": one.metadata_location,
            }
            for one in await catalog.summaries(namespace)
        ]
    finally:
        if catalog is not None:
            await catalog.close()
        await store.close()
    print_rows(rows, session.output, empty=f"no tables of {namespace}")
    if faults:
        raise CorruptionError("; ".join(faults))
