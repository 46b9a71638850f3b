"""The test vectors of record sets are current, and they test what they say."""

import json
from pathlib import Path

import pytest

from rhumbline.cli.reference.record_set_vectors import (
    INDEX,
    Vector,
    file_name,
    index_text,
    vectors,
    write_vectors,
)
from rhumbline.core.protocol.errors import CorruptionError, RhumblineError
from rhumbline.core.protocol.record_set import Kind, decode_entry

FOLDER = Path(__file__).resolve().parents[4] / "docs" / "examples" / "record-sets"
VECTORS = vectors()


def test_files_are_what_the_generator_writes() -> None:
    """If this fails, run `make vectors`."""
    expected = {file_name(vector): vector.entry for vector in VECTORS}
    assert {path.name: path.read_bytes() for path in FOLDER.glob("*.bin")} == expected
    assert (FOLDER / INDEX).read_text() == index_text(VECTORS)


def test_generator_removes_files_of_old_vectors(tmp_path: Path) -> None:
    (tmp_path / "old.bin").write_bytes(b"x")
    write_vectors(tmp_path)
    names = {path.name for path in tmp_path.iterdir()}
    assert names == {INDEX, *map(file_name, VECTORS)}


@pytest.mark.parametrize("vector", VECTORS, ids=lambda vector: vector.name)
def test_vector_is_decoded_or_refused(vector: Vector) -> None:
    def decode() -> list[list[bytes]]:
        sets = decode_entry(vector.entry)
        for one in sets:
            one.txids()
            if one.attributes is not None:
                one.attributes.check()
        return [one.payloads() for one in sets]

    if not vector.refused:
        (described,) = [
            one for one in json.loads(index_text(VECTORS))["vectors"] if one["name"] == vector.name
        ]
        listed = [[row["payload"] for row in one["records"]] for one in described["sets"]]
        assert [[payload.hex() for payload in payloads] for payloads in decode()] == listed
        return
    with pytest.raises(RhumblineError) as refused:
        decode()
    assert refused.value.code == vector.refused


def test_vectors_cover_every_kind_of_content() -> None:
    sets = [one for v in VECTORS if not v.refused for one in decode_entry(v.entry)]
    assert {one.kind for one in sets} >= {Kind.DATA, Kind.FLUSH, Kind.END_OF_STREAM, 200}
    assert any(one.txids_view() is not None for one in sets)
    assert any(one.extension for one in sets)
    assert any(one.attributes is not None for one in sets)
    assert any(0 in map(len, one.payloads()) for one in sets)
    assert len([v for v in VECTORS if v.refused == CorruptionError.code]) > 30
