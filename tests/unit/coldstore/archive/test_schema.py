"""Part files describe themselves: types, field ids, order, statistics, Bloom filters, metadata."""

import json
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from rhumbline.coldstore.archive.part import PartWriter
from rhumbline.coldstore.archive.schema import BOUNDED, COLUMNS, SORT_ORDER, PartOrigin
from rhumbline.core.protocol.attributes.attribute_columns import attribute_builder
from rhumbline.core.protocol.attributes.attribute_values import Attributes
from rhumbline.core.protocol.errors import CorruptionError
from rhumbline.core.protocol.record_set import decode_entry, encode_record_set

ORIGIN = PartOrigin("ns", "s", "9f86d081884c7d65", 3)
NO_ATTRIBUTES = Attributes(None, None, None)
CREATED_MS = 1_700_000_000_123


def written(attributes: list[Attributes] | None = None) -> Any:  # noqa: ANN401 - pyarrow has no types
    """Return a reader of a part with three records."""
    writer = PartWriter(ORIGIN, 1000)
    entry = encode_record_set(
        [b"a", b"b", b"c"],
        first_txid=7,
        last_txid=7,
        created_ms=CREATED_MS,
        attributes=None if attributes is None else attribute_builder(attributes),
    )
    writer.add(0, decode_entry(entry))
    return pq.ParquetFile(pa.BufferReader(writer.finish()))


def test_every_part_has_the_same_columns_with_their_field_ids() -> None:
    all_of_them = Attributes(b"k", {"h": b"v"}, 5)
    plain, keyed = written(), written([all_of_them, NO_ATTRIBUTES, NO_ATTRIBUTES])
    assert plain.schema_arrow.equals(keyed.schema_arrow, check_metadata=True)
    found = {one.name: int(one.metadata[b"PARQUET:field_id"]) for one in plain.schema_arrow}
    assert found == {column.name: column.field_id for column in COLUMNS}
    entries = plain.schema_arrow.field("headers").type
    assert [int(one.metadata[b"PARQUET:field_id"]) for one in entries.field(0).type] == [13, 14]


def test_times_are_timestamps() -> None:
    rows = written([Attributes(None, None, -1), NO_ATTRIBUTES, NO_ATTRIBUTES]).read().to_pylist()
    assert rows[0]["created"] == datetime.fromtimestamp(CREATED_MS // 1000, UTC).replace(
        microsecond=123_000
    )
    assert rows[0]["event_time"] == datetime(1969, 12, 31, 23, 59, 59, 999_000, UTC)
    assert rows[1]["event_time"] is None


def test_row_groups_declare_their_order_and_what_prunes() -> None:
    keyed = [Attributes(key, None, None) for key in (b"k", b"b", None)]
    footer = written(keyed).metadata
    group = footer.row_group(0)
    order = [footer.schema.column(one.column_index).name for one in group.sorting_columns]
    assert tuple(order) == SORT_ORDER
    chunks = {
        chunk.path_in_schema: chunk
        for chunk in (group.column(number) for number in range(group.num_columns))
    }
    assert {name for name, chunk in chunks.items() if chunk.is_stats_set} == {*BOUNDED}
    assert (chunks["key"].statistics.min, chunks["key"].statistics.max) == (b"b", b"k")
    assert {name for name, chunk in chunks.items() if chunk.bloom_filter_offset} == {"key"}


def test_the_file_names_its_segment_and_explains_its_columns() -> None:
    found = written().metadata.metadata
    metadata = {key.decode(): value.decode() for key, value in found.items()}
    assert json.loads(metadata.pop("rhumbline.columns")).keys() == {one.name for one in COLUMNS}
    assert metadata == {
        "rhumbline.format": "1",
        "rhumbline.namespace": "ns",
        "rhumbline.stream": "s",
        "rhumbline.stream_identity": "9f86d081884c7d65",
        "rhumbline.lssn": "3",
    }


def test_a_creation_time_that_no_reader_can_show_is_corruption() -> None:
    entry = encode_record_set([b"a"], first_txid=1, last_txid=1, created_ms=2**60)
    with pytest.raises(CorruptionError, match="years 1 and 9999"):
        PartWriter(ORIGIN, 1000).add(0, decode_entry(entry))
