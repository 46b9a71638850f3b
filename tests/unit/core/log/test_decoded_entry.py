"""An entry of decoded record sets is the same as the one that was encoded from them."""

from rhumbline.core.log.decoded_entry import DecodedEntry, record_sets_of, size_of
from rhumbline.core.protocol.record_set import HEADER, Kind, encode_control, encode_record_set
from rhumbline.core.wire.entry import Entry

PAYLOAD = encode_record_set([b"a", b"bc"], first_txid=1, last_txid=2, txids=[1, 2]) + (
    encode_control(Kind.FLUSH, txid=2, position=2, created_ms=5)
)


def test_both_kinds_of_entries_have_the_same_record_sets() -> None:
    stored = Entry(7, 6, len(PAYLOAD), PAYLOAD)
    decoded = DecodedEntry(7, record_sets_of(stored))
    assert decoded.payload == PAYLOAD
    assert record_sets_of(decoded) is decoded.record_sets
    described = [(one.slot, one.kind, one.payloads()) for one in record_sets_of(stored)]
    assert described == [(0, Kind.DATA, [b"a", b"bc"]), (2, Kind.FLUSH, [b""])]


def test_sizes_differ_by_the_headers() -> None:
    stored = Entry(7, 6, len(PAYLOAD), PAYLOAD)
    assert size_of(stored) == len(PAYLOAD)
    assert size_of(DecodedEntry(7, record_sets_of(stored))) == len(PAYLOAD) - 2 * HEADER.size
