"""v3 responses: errors, three-valued answers, entries and LACs."""

import pytest

from rhumbline.core.ledger.connection.v3_responses import (
    answer_kind_of,
    entry_in,
    error_in,
    lac_in,
    lac_in_last_entry,
)
from rhumbline.core.protocol.errors import (
    BookieUnavailableError,
    CorruptionError,
    LedgerFencedError,
    NoSuchEntryError,
    NoSuchLedgerError,
    RhumblineError,
    UnknownStateError,
)
from rhumbline.core.protocol.ledger_metadata import NO_ENTRY, DigestType
from rhumbline.core.protocol.recovery import AnswerKind
from rhumbline.core.wire import bookkeeper_pb2 as pb
from rhumbline.core.wire import v3
from rhumbline.core.wire.entry import EntryDigest, encode_entry, encode_lac

DIGEST = EntryDigest(DigestType.CRC32C)
READ = v3.read_request(1, 7, 5)
READ_LAC = v3.read_lac_request(1, 7)


def entry(entry_id: int, lac: int, ledger_id: int = 7) -> bytes:
    return encode_entry(DIGEST, ledger_id, entry_id, lac, 100, b"payload")


def damaged(data: bytes) -> bytes:
    return data[:-1] + bytes([data[-1] ^ 1])


def read_response(body: bytes) -> pb.Response:
    return v3.read_response(READ, v3.Status.OK, body)


def lac_response(lac_body: bytes | None, last_entry: bytes | None) -> pb.Response:
    return v3.read_lac_response(READ_LAC, v3.Status.OK, lac_body=lac_body, last_entry=last_entry)


def test_error_of_the_transport_comes_before_the_status() -> None:
    lost = BookieUnavailableError("lost")
    assert error_in(lost, None) is lost
    assert error_in(None, v3.read_response(READ, v3.Status.OK, b"")) is None
    fenced = error_in(None, v3.read_response(READ, v3.Status.FENCED, None))
    assert type(fenced) is LedgerFencedError
    assert str(fenced) == "the bookie responded with status 504"


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (None, AnswerKind.HAVE),
        (NoSuchEntryError("no"), AnswerKind.NEVER),
        (NoSuchLedgerError("no"), AnswerKind.NEVER),
        (UnknownStateError("?"), AnswerKind.UNKNOWN),
        (CorruptionError("?"), AnswerKind.UNKNOWN),
        (BookieUnavailableError("?"), AnswerKind.UNKNOWN),
    ],
)
def test_only_two_errors_deny_an_entry(error: RhumblineError | None, kind: AnswerKind) -> None:
    assert answer_kind_of(error) is kind


def test_entry_is_verified_and_returned_with_its_bytes() -> None:
    data = entry(5, 3)
    found, body = entry_in(read_response(data), DIGEST, 7, 5)
    assert (found.entry_id, found.lac, found.length, found.payload) == (5, 3, 100, b"payload")
    assert body == data
    for wrong in (entry(6, 3), entry(5, 3, ledger_id=8), damaged(data)):
        with pytest.raises(CorruptionError):
            entry_in(read_response(wrong), DIGEST, 7, 5)


def test_lac_of_the_last_entry_is_unknown_if_the_entry_is_damaged() -> None:
    assert lac_in_last_entry(read_response(entry(9, 4)), DIGEST, 7) == 4
    assert lac_in_last_entry(read_response(damaged(entry(9, 4))), DIGEST, 7) == NO_ENTRY
    assert lac_in_last_entry(read_response(entry(9, 4, ledger_id=8)), DIGEST, 7) == NO_ENTRY


def test_larger_of_explicit_lac_and_last_entry_counts() -> None:
    explicit = encode_lac(DIGEST, 7, 6)
    assert lac_in(lac_response(explicit, None), DIGEST, 7) == 6
    assert lac_in(lac_response(None, entry(9, 4)), DIGEST, 7) == 4
    assert lac_in(lac_response(explicit, entry(9, 4)), DIGEST, 7) == 6
    assert lac_in(lac_response(explicit, entry(9, 8)), DIGEST, 7) == 8
    assert lac_in(lac_response(None, entry(0, NO_ENTRY)), DIGEST, 7) == NO_ENTRY


@pytest.mark.parametrize(
    ("lac_body", "last_entry"),
    [
        (None, None),
        (damaged(encode_lac(DIGEST, 7, 6)), entry(9, 4)),
        (encode_lac(DIGEST, 8, 6), None),
        (encode_lac(DIGEST, 7, 6), damaged(entry(9, 4))),
        (None, entry(9, 4, ledger_id=8)),
    ],
)
def test_lac_response_without_a_valid_lac_is_corrupt(
    lac_body: bytes | None, last_entry: bytes | None
) -> None:
    with pytest.raises(CorruptionError):
        lac_in(lac_response(lac_body, last_entry), DIGEST, 7)
