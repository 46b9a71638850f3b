"""Parts hold every record exactly, and rows give the same content digest as the log."""

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rhumbline.coldstore.archive.content_digest import ContentDigest, raw_crc_of
from rhumbline.coldstore.archive.part import PartWriter, read_part
from rhumbline.coldstore.archive.schema import PartOrigin
from rhumbline.core.protocol.attributes.attribute_columns import attribute_builder
from rhumbline.core.protocol.attributes.attribute_values import Attributes
from rhumbline.core.protocol.compression import Codec
from rhumbline.core.protocol.errors import CorruptionError
from rhumbline.core.protocol.record_set import (
    NO_PRODUCER,
    NO_SEQUENCE,
    Kind,
    Producer,
    decode_entry,
    encode_control,
    encode_record_set,
)

ORIGIN = PartOrigin("ns", "s", "9f86d081884c7d65", 3)

rows = st.lists(
    st.builds(
        Attributes,
        st.none() | st.binary(max_size=5),
        st.none() | st.dictionaries(st.sampled_from(["a", "b"]), st.binary(max_size=3)),
        st.none() | st.integers(0, 99),
    ),
    max_size=3,
)


@st.composite
def record_sets(draw: st.DrawFn) -> bytes:
    payloads = draw(st.lists(st.binary(max_size=40), min_size=1, max_size=6))
    if draw(st.booleans()):
        txids = sorted(
            draw(st.lists(st.integers(1, 99), min_size=len(payloads), max_size=len(payloads)))
        )
    else:
        txids = [draw(st.integers(1, 99))] * len(payloads)
    producer = draw(st.sampled_from([Producer(NO_PRODUCER, NO_SEQUENCE), Producer(b"p" * 16, 7)]))
    return encode_record_set(
        payloads,
        first_txid=txids[0],
        last_txid=txids[-1],
        txids=txids,
        created_ms=draw(st.integers(0, 10**12)),
        codec=draw(st.sampled_from(list(Codec))),
        producer=producer,
        attributes=draw(st.none() | rows.map(attribute_builder)) if len(payloads) > 2 else None,
    )


control = st.just(encode_control(Kind.FLUSH, txid=1, position=0, created_ms=1))
entries = st.lists(
    st.lists(st.one_of(record_sets(), control), min_size=1, max_size=3).map(b"".join), max_size=8
)


@settings(max_examples=60, deadline=None)
@given(entries, st.integers(1, 60))
def test_parts_return_the_written_records_with_the_same_digest(
    payloads: list[bytes], group_bytes: int
) -> None:
    writer = PartWriter(ORIGIN, group_bytes)
    from_log = ContentDigest()
    expected = []
    for entry_id, payload in enumerate(payloads):
        sets = decode_entry(payload)
        writer.add(entry_id, sets)
        for one in sets:
            if not one.is_control:
                from_log.add(entry_id, one.slot, one.raw_crc)
                expected.append((entry_id, one.slot, list(one.txids()), one.payloads()))
    data = writer.finish()
    from_rows = ContentDigest()
    found = []
    for one_set in read_part(data, 3):
        raw_crc = raw_crc_of(one_set.txids, one_set.payloads, one_set.attributes)
        from_rows.add(one_set.entry_id, one_set.slot, raw_crc)
        found.append((one_set.entry_id, one_set.slot, one_set.txids, one_set.payloads))
    assert found == expected
    assert from_rows.hex() == from_log.hex()
    assert writer.record_count == sum(len(one[3]) for one in expected)


def test_rows_of_another_segment_and_damaged_files_are_corruption() -> None:
    writer = PartWriter(ORIGIN, 1000)
    writer.add(0, decode_entry(encode_record_set([b"x"], first_txid=1, last_txid=1)))
    data = writer.finish()
    for broken, lssn in ((data, 4), (data[:-9], 3), (b"", 3), (b"PAR1" * 5, 3)):
        with pytest.raises(CorruptionError):
            list(read_part(broken, lssn))


@pytest.mark.parametrize(
    "attributes", [Attributes(b"k" * 900, None, None), Attributes(None, {"h": b"v" * 900}, None)]
)
def test_keys_and_headers_end_a_row_group_as_payloads_do(attributes: Attributes) -> None:
    """Otherwise a part of records with large headers exceeds what a cold store accepts (ARC-71)."""
    writer = PartWriter(ORIGIN, 2000)
    for entry_id in range(9):
        entry = encode_record_set(
            [b""], first_txid=1, last_txid=1, attributes=attribute_builder([attributes])
        )
        writer.add(entry_id, decode_entry(entry))
    file = pq.ParquetFile(pa.BufferReader(writer.finish()))
    assert [file.metadata.row_group(n).num_rows for n in range(file.num_row_groups)] == [3, 3, 3]
