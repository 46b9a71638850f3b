"""Interprets v3 responses for the ledger client."""

from ...protocol.errors import CorruptionError, NoSuchEntryError, NoSuchLedgerError, RhumblineError
from ...protocol.ledger_metadata import NO_ENTRY
from ...protocol.recovery import AnswerKind
from ...wire import bookkeeper_pb2 as pb
from ...wire import v3
from ...wire.entry import Entry, EntryDigest, decode_entry, decode_lac
from ...wire.error_codes import error_of_status


def error_in(error: RhumblineError | None, response: pb.Response | None) -> RhumblineError | None:
    """Returns the transport's error, else the error of the response's status, else None."""
    if error is not None:
        return error
    assert response is not None, "a response or an error"
    status = v3.status_of(response)
    cls = error_of_status(status)
    return cls(f"the bookie responded with status {status}") if cls is not None else None


def answer_kind_of(error: RhumblineError | None) -> AnswerKind:
    """Returns the three-valued answer: NEVER for two errors, UNKNOWN for all others (bug B17)."""
    if error is None:
        return AnswerKind.HAVE
    if isinstance(error, NoSuchEntryError | NoSuchLedgerError):
        return AnswerKind.NEVER
    return AnswerKind.UNKNOWN


def entry_in(
    response: pb.Response, digest: EntryDigest, ledger_id: int, entry_id: int
) -> tuple[Entry, bytes]:
    """Returns the entry of a read response, verified, and its bytes. Raises CorruptionError."""
    body = bytes(response.read_response.body)
    return decode_entry(digest, ledger_id, entry_id, body), body


def lac_in_last_entry(response: pb.Response, digest: EntryDigest, ledger_id: int) -> int:
    """Returns the LAC in the response to a read of entry -1; NO_ENTRY if its digest is wrong.

    A recovery only starts to read at this LAC, so a damaged one costs time but not correctness.
    """
    try:
        entry, _ = entry_in(response, digest, ledger_id, NO_ENTRY)
    except CorruptionError:
        return NO_ENTRY
    return entry.lac


def lac_in(response: pb.Response, digest: EntryDigest, ledger_id: int) -> int:
    """Returns the LAC in the response to a LAC read.

    Raises CorruptionError, also if the response holds neither an explicit LAC nor an entry.
    """
    body = response.read_lac_response
    if not (body.HasField("lac_body") or body.HasField("last_entry_body")):
        raise CorruptionError(f"ledger {ledger_id}: a LAC response without a LAC")
    lac = NO_ENTRY
    if body.HasField("lac_body"):
        lac = decode_lac(digest, ledger_id, bytes(body.lac_body))
    if body.HasField("last_entry_body"):
        last = decode_entry(digest, ledger_id, NO_ENTRY, bytes(body.last_entry_body))
        lac = max(lac, last.lac)
    return lac
