"""``rhumbline archive verify`` and ``rhumbline archive reconcile``."""

from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

import click

from ....client.units import show_count
from ....core.protocol.errors import CorruptionError
from ....core.protocol.installation import needs_extra
from ...options import CommandSession, runs, session_options
from ...output import ProgressBar, print_message, print_rows
from ...output_schema import flag, integer, listing, maybe, prints, record, rows, text
from ..archive_tables import table_faults
from ..cold_options import cold_option, opened_cold
from .archive_rows import ARCHIVED, archive_row

with needs_extra("an archive", "arrow"):
    from ....coldstore.archive.catalog import scan_manifests
    from ....coldstore.index.check_index import IndexCheck
    from ....coldstore.proof.reconcile import ReconciledArchive
    from ....coldstore.proof.reconcile import reconcile as compare
    from ....coldstore.proof.verify_run import VerifiedLog, verify_all


@click.command()
@click.argument("prefix", required=False, default="")
@click.option("--tasks", type=click.IntRange(1, 64), default=4, show_default=True,
              help="Number of segments that are read at the same time.")  # fmt: skip
@click.option(
    "--resume",
    type=click.Path(dir_okay=False, path_type=Path),
    help="File that records intact segments. A repeated run with the same file skips them.",
)
@cold_option
@prints(rows(record(ARCHIVED | {"verdict": text("ok, or the faults.")})))
@session_options
@runs
async def verify(
    session: CommandSession, prefix: str, tasks: int, resume: Path | None, cold: str | None
) -> None:
    """Read every byte of the archives below PREFIX, and verify their chains, index and tables.

    Reads the cold store, and the catalogue of tables if archive.tables is set, but no server of the
    cluster. Continues after a damaged or missing object.
    """
    store = opened_cold(session, cold)
    try:
        check = IndexCheck(store, prefix)
        await check.load()
        listing = await scan_manifests(store, prefix)
        found = listing.manifests
        with ProgressBar() as progress, _verified_log(resume, store.uri) as log:
            verdicts = await verify_all(
                store,
                listing,
                tasks=tasks,
                log=log,
                on_done=lambda done: progress.show("verifying", done, len(found)),
            )
        damaged = listing.faults | await check.faults(listing)
        damaged |= await table_faults(session, store, cold, listing.folders)
    finally:
        await store.close()
    faults = len(damaged) + sum(len(verdict.faults) for verdict in verdicts)
    rows = [
        archive_row(one.manifest) | {"verdict": "; ".join(one.faults) or "ok"} for one in verdicts
    ]
    nothing = f"no {'usable manifests' if listing.faults else 'archives'} in {store.uri}"
    print_rows(rows, session.output, empty=nothing)
    for error in damaged.values():
        print_message(str(error))
    if faults:
        segments = len(rows) + len(listing.faults)
        where = show_count(segments, "archived segment")
        raise CorruptionError(f"{show_count(faults, 'fault')} in {where}")
    records = sum(manifest.stored_records for manifest in found)
    segments_read, records_read = show_count(len(rows), "segment"), show_count(records, "record")
    correct = "all bytes are correct"
    if skipped := sum(not one.is_read for one in verdicts):
        were = show_count(skipped, "segment was", "segments were")
        correct = f"all bytes read are correct; {were} skipped, verified by an earlier run"
    print_message(f"{segments_read}, {records_read}: {correct}")
    erased = [manifest for manifest in found if manifest.erased]
    if erased:
        count = show_count(sum(manifest.erased_count for manifest in erased), "record")
        print_message(
            f"{count} of {show_count(len(erased), 'segment')} were erased, and are absent: "
            "'rhumbline archive erasures' shows who erased them, and why"
        )


def _verified_log(path: Path | None, uri: str) -> AbstractContextManager[VerifiedLog | None]:
    return nullcontext() if path is None else VerifiedLog(path, uri)


_RECONCILED = {
    "stream": text("NAMESPACE/STREAM."),
    "stream_id": text("First digits of the stream's identity."),
    "in_cluster": flag("False: the archive is of a deleted stream, or of another cluster."),
    "archived": integer("Archived segments."),
    "waiting": integer("Completed segments that are not archived yet."),
    "behind_ms": maybe(integer("Age of the oldest of them.")),
    "orphans": integer("Files that no manifest names, such as those of an upload in progress."),
    "new_tip": flag("True if the tip of the chain was written again."),
    "faults": listing(text("Fault."), "Damaged objects, and contradictions with the cluster."),
}


@click.command()
@click.argument("streams", nargs=-1)
@click.option("--repair-tips", is_flag=True,
              help="Rewrite lost and damaged tips, where nothing is missing.")  # fmt: skip
@cold_option
@prints(rows(record(_RECONCILED)))
@session_options
@runs
async def reconcile(
    session: CommandSession, streams: tuple[str, ...], repair_tips: bool, cold: str | None
) -> None:
    """Compare the archives of STREAMS (default: all) with the cluster.

    Shows what is not archived yet and its age, archives of deleted streams, and files without a
    manifest. Missing or damaged manifests, and archives that contradict the metadata of the
    cluster, are an error after the list. Reads no records: see verify.
    """
    store = opened_cold(session, cold)
    try:
        async with session.client() as client:
            found = await compare(store, client.namespace(), streams, repairs_tips=repair_tips)
            rows = [_reconciled_row(one, client.runtime.clock.wall_ms()) for one in found]
    finally:
        await store.close()
    print_rows(rows, session.output, empty="no streams and no archives")
    faults = [fault for one in found for fault in one.faults]
    if faults:
        raise CorruptionError(f"{show_count(len(faults), 'fault')}: {'; '.join(faults)}")


def _reconciled_row(one: ReconciledArchive, now_ms: int) -> dict[str, object]:
    oldest_ms = one.oldest_waiting_ms
    return {
        "stream": f"{one.folder.namespace}/{one.folder.stream}",
        "stream_id": one.folder.stream_id,
        "in_cluster": one.is_in_cluster,
        "archived": one.archived,
        "waiting": one.waiting,
        "behind_ms": None if oldest_ms is None else max(0, now_ms - oldest_ms),
        "orphans": one.orphans,
        "new_tip": one.has_new_tip,
        "faults": one.faults,
    }
