"""No changed byte of a manifest is believed, and manifests form a chain."""

from dataclasses import replace
from typing import Any

import pytest

from rhumbline.coldstore.archive.manifest import CHAIN_START, Manifest, Part
from rhumbline.core.protocol.errors import CorruptionError, ForeignDataError


def manifest(lssn: int = 1, previous: str = CHAIN_START, start: int = 0) -> Manifest:
    part = Part("part-a-0.parquet", 0, 4, 1, 9, 10, 100, 90, "ab", "cd")
    return Manifest(
        "ns",
        "s",
        "id",
        lssn,
        5,
        10,
        100,
        1,
        9,
        start,
        1,
        2,
        False,
        f"digest{lssn}",
        previous,
        (part,),
    )


def test_manifests_are_decoded_and_form_a_chain() -> None:
    first = manifest()
    second = manifest(2, first.link, 10)
    assert Manifest.decode(first.encode()) == first
    assert second.follows(first)
    assert not manifest(2, "other", 10).follows(first)
    assert not manifest(3, first.link, 10).follows(first)
    assert not manifest(2, first.link, 11).follows(first)


@pytest.mark.parametrize("data", [b"", b"{}", b"[]", b"null", b'{"format": 5}', b"\xff"])
def test_malformed_manifests_are_corruption(data: bytes) -> None:
    with pytest.raises(CorruptionError):
        Manifest.decode(data)


def test_other_formats_are_foreign_and_wrong_totals_are_corruption() -> None:
    text = manifest().encode()
    for other in (b"1", b"4", b"6"):
        with pytest.raises(ForeignDataError, match="archive the stream again"):
            Manifest.decode(text.replace(b'"format": 5', b'"format": ' + other))
    with pytest.raises(CorruptionError, match="10 records, not 9"):
        replace(manifest(), record_count=9)


def test_a_changed_byte_of_a_manifest_is_never_believed() -> None:
    """12 of 17 changed fields were not found, and readers returned short results."""
    data = manifest().encode()
    for at in range(len(data)):
        for changed in {data[at] ^ 1, data[at] ^ 4, ord(" "), ord("\n"), ord("7")} - {data[at]}:
            with pytest.raises((CorruptionError, ForeignDataError)):
                Manifest.decode(data[:at] + bytes([changed]) + data[at + 1 :])
    for cut in (1, 10, 90, len(data)):
        with pytest.raises(CorruptionError):
            Manifest.decode(data[:-cut])


CHANGES: dict[str, Any] = {
    "previous_link": "other", "namespace": "other", "stream": "other", "stream_identity": "other",
    "lssn": 3, "last_entry_id": 6, "payload_bytes": 3, "first_txid": 3, "last_txid": 3,
    "start_sequence_id": 3, "created_ms": 3, "completed_ms": 3, "ends_stream": True,
    "content_digest": "other", "doubt": "other",
}  # fmt: skip


@pytest.mark.parametrize("name", CHANGES)
def test_the_link_covers_every_field_but_the_files(name: str) -> None:
    """A field that is changed and sealed again breaks the chain behind the segment."""
    changed = replace(manifest(), **{name: CHANGES[name]})
    assert not manifest(2, manifest().link, 10).follows(changed)
    assert changed.link != manifest().link
