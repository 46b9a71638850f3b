"""``rhumbline archive erasures``: the proofs of what was erased from archives."""

import click

from ....core.protocol.errors import CorruptionError
from ....core.protocol.installation import needs_extra
from ...options import CommandSession, runs, session_options
from ...output import iso_time, print_rows
from ...output_schema import integer, listing, maybe, prints, record, rows, text, time_at
from ..cold_options import cold_option, opened_cold

with needs_extra("an archive", "arrow"):
    from ....coldstore.archive.archive_folder import ArchiveFolder
    from ....coldstore.erase.proofs import ErasureProof, stored_proofs

_ERASURE = {
    "stream": text("NAMESPACE/STREAM."),
    "stream_id": text("First digits of the stream's identity."),
    "erasure": integer("Number of the relocation that is the proof."),
    "erased_at": time_at("When the records were erased."),
    "erased_by": text("Who erased them."),
    "reason": text("Why."),
    "records": integer("Records that this erasure removed."),
    "segments": listing(integer("Number of the segment."), "Segments that held them."),
    "on_bookies": maybe(
        listing(
            integer("Number of the segment."),
            "Segments that bookies held when the erasure began, and from which nothing was erased "
            "there; null: the cluster was not asked.",
        )
    ),
}
_RANGES = listing(
    record({"first": text("DLSN of the first record."), "last": text("DLSN of the last record.")}),
    "With --positions: erased records, as ranges within entries.",
)


@click.command()
@click.argument("prefix", required=False, default="")
@click.option("--positions", is_flag=True, help="Also show the positions of the erased records.")
@cold_option
@prints(rows(record(_ERASURE | {"positions": _RANGES}, optional=["positions"])))
@session_options
@runs
async def erasures(session: CommandSession, prefix: str, positions: bool, cold: str | None) -> None:
    """List the erasures from the archives below PREFIX (NAMESPACE or NAMESPACE/STREAM).

    Reads the proofs in the cold store, and contacts no server of the cluster. If a proof is missing
    or damaged, the command fails after the list. `archive verify` compares proofs with records.
    """
    store = opened_cold(session, cold)
    try:
        found, faults = await stored_proofs(store, prefix)
    finally:
        await store.close()
    rows = [
        _row(folder, proof) | ({"positions": _positions(proof)} if positions else {})
        for folder, proofs in found.items()
        for proof in proofs
    ]
    print_rows(rows, session.output, empty=f"nothing was erased from {store.uri}")
    if faults:
        raise CorruptionError("; ".join(map(str, faults.values())))


def _row(folder: ArchiveFolder, proof: ErasureProof) -> dict[str, object]:
    held = proof.erasure.on_bookies
    return {
        "stream": f"{folder.namespace}/{folder.stream}",
        "stream_id": folder.stream_id,
        "erasure": proof.relocation.number,
        "erased_at": iso_time(proof.relocation.created_ms),
        "erased_by": proof.erasure.erased_by,
        "reason": proof.erasure.reason,
        "records": sum(proof.records.values()),
        "segments": sorted(proof.records),
        "on_bookies": None if held is None else list(held),
    }


def _positions(proof: ErasureProof) -> list[dict[str, str]]:
    return [
        {"first": f"{lssn}:{entry}:{first}", "last": f"{lssn}:{entry}:{last}"}
        for lssn, entry, first, last in proof.ranges
    ]
