"""v3 answers read as what they mean to a ledger client."""

from ...protocol.errors import CorruptionError, NoSuchEntryError, NoSuchLedgerError, RhumblineError
from ...protocol.ledger_metadata import NO_ENTRY
from ...protocol.recovery import AnswerKind
from ...wire import bookkeeper_pb2 as pb
from ...wire import v3
from ...wire.entry import Entry, EntryDigest, decode_entry, decode_lac
from ...wire.error_codes import error_of_status


def error_in(error: RhumblineError | None, response: pb.Response | None) -> RhumblineError | None:
    """What went wrong: on the way, or according to the answer's status; None: nothing."""
    if error is not None:
        return error
    assert response is not None, "an answer or an error"
    status = v3.status_of(response)
    cls = error_of_status(status)
    return cls(f"answered status {status}") if cls is not None else None


def said_of(error: RhumblineError | None) -> AnswerKind:
    """The three-valued reading: only two answers are a "never", whatever else is unknown (B17)."""
    if error is None:
        return AnswerKind.HAVE
    if isinstance(error, NoSuchEntryError | NoSuchLedgerError):
        return AnswerKind.NEVER
    return AnswerKind.UNKNOWN


def entry_in(
    response: pb.Response, digest: EntryDigest, ledger_id: int, entry_id: int
) -> tuple[Entry, bytes]:
    """The entry that a read brought, checked, and its bytes. Raises CorruptionError."""
    body = bytes(response.read_response.body)
    return decode_entry(digest, ledger_id, entry_id, body), body


def lac_in_last_entry(response: pb.Response, digest: EntryDigest, ledger_id: int) -> int:
    """The LAC that the answer to a read of -1 knows; none if its digest is wrong.

    A LAC only says where a recovery begins to look, so a damaged one costs time and nothing else.
    """
    try:
        entry, _ = entry_in(response, digest, ledger_id, NO_ENTRY)
    except CorruptionError:
        return NO_ENTRY
    return entry.lac


def lac_in(response: pb.Response, digest: EntryDigest, ledger_id: int) -> int:
    """The LAC that the answer to a LAC read knows. Raises CorruptionError."""
    answer = response.read_lac_response
    lac = NO_ENTRY
    if answer.HasField("lac_body"):
        lac = decode_lac(digest, ledger_id, bytes(answer.lac_body))
    if answer.HasField("last_entry_body"):
        last = decode_entry(digest, ledger_id, NO_ENTRY, bytes(answer.last_entry_body))
        lac = max(lac, last.lac)
    return lac
