"""Snapshots hold the whole state; damaged state records raise CorruptionError only."""

import struct
from random import Random

import pytest

from rhumbline.core.bookie.ledger_records import (
    LedgerRecord,
    LedgerRecords,
    LogManifest,
    boot_record,
    clean_end_record,
    limbo_cleared_record,
    limbo_records,
    seal_record,
    sorted_ledgers_record,
)
from rhumbline.core.bookie.limbo import Limbo
from rhumbline.core.protocol.errors import CorruptionError
from rhumbline.tests.unit.core.bookie.bookie_world import KEY, lac_body


def test_damaged_state_records_raise_only_corruption_error() -> None:
    random = Random(9)
    states = LedgerRecords()
    ledger = states.create(5, KEY)
    ledger.is_fenced = True
    records = list(states.snapshot())
    for record in records:
        LedgerRecords().apply(record)
        for _ in range(100):
            corrupt = bytearray(record)
            del corrupt[random.randrange(1, len(corrupt) + 1) :]
            if corrupt:
                corrupt[random.randrange(len(corrupt))] ^= 1 << random.randrange(8)
            try:
                LedgerRecords().apply(bytes(corrupt))
            except CorruptionError:
                continue


def test_snapshot_holds_fence_proof_key_and_lac() -> None:
    states = LedgerRecords()
    for ledger_id in (1, 2, 3):
        ledger = states.create(ledger_id, KEY)
        ledger.is_fenced, ledger.is_proven = ledger_id == 2, ledger_id != 3
        ledger.lac, ledger.lac_body = ledger_id + 4, lac_body(ledger_id, ledger_id + 4)
    restored = LedgerRecords()
    for record in states.snapshot():
        restored.apply(record)
    assert restored.has_complete_snapshot
    for ledger_id, ledger in states.ledgers.items():
        copy = restored.ledgers[ledger_id]
        assert (copy.master_key, copy.lac, copy.lac_body) == (KEY, ledger.lac, ledger.lac_body)
        assert (copy.is_fenced, copy.is_proven) == (ledger.is_fenced, ledger.is_proven)


def test_records_in_any_order_keep_the_fence_and_the_highest_lac() -> None:
    states = LedgerRecords()
    ledger = states.create(1, KEY)
    older = ledger.encode()
    ledger.is_fenced = True
    ledger.take_lac_body(lac_body(1, 7))
    newer = ledger.encode()
    for order in ((older, newer), (newer, older)):
        restored = LedgerRecords()
        for record in order:
            restored.apply(record)
        assert restored.ledgers[1].is_fenced
        assert restored.ledgers[1].lac_body == lac_body(1, 7)
        assert restored.ledgers[1].lac == 7


def test_records_have_the_bytes_of_the_specification() -> None:
    states = LedgerRecords()
    ledger = states.create(5, KEY)
    head = struct.pack(">Bq", 1, 5)
    assert ledger.encode() == head + struct.pack(">Bqq", 0, -1, 0) + b"\0\0" + KEY
    ledger.is_fenced, ledger.lac, ledger.lac_changed_ms = True, 7, 99
    assert ledger.encode() == head + struct.pack(">Bqq", 1, 7, 99) + b"\0\0" + KEY
    ledger.is_fenced, ledger.is_proven = False, True
    ledger.take_lac_body(lac_body(5, 3))
    body = ledger.lac_body
    size = struct.pack(">H", len(body))
    assert ledger.encode() == head + struct.pack(">Bqq", 2, 7, 99) + size + KEY + body
    assert states.delete(5, 1_000) == struct.pack(">Bqq", 2, 5, 1_000)
    manifest = LogManifest(3, {9: 100, 4: 50})
    assert manifest.encode() == struct.pack(">B5Q", 4, 3, 9, 100, 4, 50)
    assert boot_record("b") == b"\x07b"
    assert clean_end_record() == b"\x08"
    assert sorted_ledgers_record({3: 4, 5: 6}) == struct.pack(">B4Q", 9, 3, 4, 5, 6)
    assert seal_record(12) == struct.pack(">BQ", 10, 12)
    assert limbo_cleared_record(12) == struct.pack(">BQ", 6, 12)
    limbo = Limbo()
    assert list(limbo_records(limbo)) == [struct.pack(">BQ", 5, 0)]
    limbo.begin()
    assert list(limbo_records(limbo)) == [struct.pack(">BQ", 5, 2**64 - 1)]
    limbo.limit(9)
    limbo.clear(4)
    limbo.clear(2)
    cleared = [struct.pack(">BQ", 6, ledger_id) for ledger_id in (4, 2)]
    assert list(limbo_records(limbo)) == [struct.pack(">BQ", 5, 9), *cleared]
    limbo.limit(3 << 48)
    bounds = [struct.pack(">BQ", 5, 9), struct.pack(">BQ", 11, 3 << 48)]
    assert list(limbo_records(limbo)) == [*bounds, *cleared]


def test_snapshot_restores_everything() -> None:
    states = LedgerRecords()
    states.boot_id = "boot-7"
    states.manifest = LogManifest(3, {9: 100, 4: 50})
    states.limbo.begin()
    states.limbo.limit(30)
    states.limbo.limit((2 << 48) + 5)
    states.limbo.clear(4)
    states.create(1, KEY)
    states.create(2, KEY)
    states.delete(2, 1_234)
    assert (states.tombstones, states.deletion_count) == ({2: 1_234}, 1)
    records = list(states.snapshot())
    assert records[-1] == struct.pack(">BQ", 3, 1), "the number of ledgers"
    copy = LedgerRecords()
    for record in records[:-1]:
        copy.apply(record)
    assert not copy.has_complete_snapshot
    copy.apply(records[-1])
    assert copy.has_complete_snapshot
    assert (copy.boot_id, copy.manifest) == ("boot-7", states.manifest)
    assert list(copy.manifest.sorted_files) == [9, 4]
    assert (copy.limbo.is_active, copy.limbo.cleared) == (True, {4: None})
    assert copy.limbo.bounds == {0: 30, 2: (2 << 48) + 5}
    assert (list(copy.ledgers), copy.tombstones) == ([1], {2: 1_234})
    states.limbo.begin()
    for record in states.snapshot():
        copy.apply(record)
    assert (copy.limbo.bounds, copy.limbo.cleared) == ({}, {})
    incomplete = LedgerRecords()
    incomplete.apply(records[-1])
    assert not incomplete.has_complete_snapshot, "a ledger is missing"
    incomplete.create(7, KEY)
    incomplete.apply(records[-1])
    assert incomplete.has_complete_snapshot


def test_clean_end_counts_only_as_the_last_record() -> None:
    states = LedgerRecords()
    assert not states.is_clean
    states.apply(clean_end_record())
    assert states.is_clean
    states.apply(seal_record(5))
    assert (states.is_clean, states.sealed_for) == (False, 5)
    states.apply(clean_end_record())
    with pytest.raises(CorruptionError):
        states.apply(b"\x63")
    assert states.is_clean


@pytest.mark.parametrize(
    "record",
    [
        b"",
        b"\x00",
        b"\x0b",
        b"\x01" + bytes(5),
        b"\x02" + bytes(15),
        b"\x02" + bytes(17),
        b"\x04",
        b"\x04" + bytes(16),
        b"\x04" + bytes(9),
        b"\x05" + bytes(7),
        b"\x06" + bytes(7),
        b"\x07\xff",
        b"\x09" + bytes(8),
        b"\x09" + bytes(17),
        b"\x0a" + bytes(9),
    ],
)
def test_malformed_record_is_corruption(record: bytes) -> None:
    with pytest.raises(CorruptionError):
        LedgerRecords().apply(record)


def test_ledger_record_of_another_length_is_corruption() -> None:
    ledger = LedgerRecords().create(1, KEY)
    ledger.take_lac_body(lac_body(1, 7))
    record = ledger.encode()
    for other in (record[:-1], record + b"x"):
        with pytest.raises(CorruptionError, match="ledger 1 is truncated"):
            LedgerRecords().apply(other)


def test_tombstone_removes_a_ledger_and_a_later_ledger_removes_the_tombstone() -> None:
    states = LedgerRecords()
    ledger = states.create(1, KEY).encode()
    tombstone = states.delete(1, 50)
    assert states.ledgers == {}
    copy = LedgerRecords()
    copy.apply(tombstone)
    assert copy.tombstones == {1: 50}
    copy.apply(ledger)
    assert (list(copy.ledgers), copy.tombstones) == ([1], {})
    copy.apply(tombstone)
    assert (copy.ledgers, copy.tombstones) == ({}, {1: 50})
    assert copy.deletion_count == 0
    assert states.delete(1, 60) != tombstone
    assert states.deletion_count == 2


def test_records_are_merged_and_never_take_anything_back() -> None:
    states = LedgerRecords()
    ledger = states.create(1, KEY)
    ledger.is_fenced, ledger.lac, ledger.lac_changed_ms = True, 7, 70
    other = LedgerRecords().create(1, b"k" * 20)
    other.is_proven, other.lac, other.lac_changed_ms = True, 6, 60
    states.apply(other.encode())
    assert (ledger.is_fenced, ledger.is_proven, ledger.master_key) == (True, True, KEY)
    assert (ledger.lac, ledger.lac_changed_ms) == (7, 70)
    other.lac, other.lac_changed_ms = 8, 80
    states.apply(other.encode())
    assert (ledger.lac, ledger.lac_changed_ms) == (8, 80)
    other.take_lac_body(lac_body(1, 9))
    other.lac_changed_ms = 90
    states.apply(other.encode())
    assert (ledger.lac, ledger.lac_changed_ms, ledger.lac_body) == (9, 90, lac_body(1, 9))
    plain = LedgerRecords().create(1, KEY)
    states.apply(plain.encode())
    assert (ledger.lac, ledger.lac_body, ledger.is_fenced) == (9, lac_body(1, 9), True)


def test_body_of_the_highest_lac_is_kept() -> None:
    ledger = LedgerRecords().create(1, KEY)
    ledger.take_lac_body(lac_body(1, 5))
    ledger.take_lac_body(lac_body(1, 4))
    assert ledger.lac_body == lac_body(1, 5)
    same = lac_body(1, 5) + b"another digest"
    ledger.take_lac_body(same)
    assert ledger.lac_body == same, "the last one of equal bodies"
    ledger.take_lac_body(lac_body(1, 6))
    assert ledger.lac_body == lac_body(1, 6)


def test_adds_are_accepted_for_proven_ledgers_that_are_neither_fenced_nor_in_limbo() -> None:
    states = LedgerRecords()
    for ledger_id in range(4):
        ledger = states.create(ledger_id, KEY)
        assert not ledger.accepts_adds
        ledger.is_proven, ledger.is_fenced = ledger_id != 1, ledger_id == 2

    def accepting() -> list[int]:
        return [number for number, ledger in states.ledgers.items() if ledger.accepts_adds]

    states.finish_replay()
    assert accepting() == [0, 3]
    fences = [ledger.is_fence_durable for ledger in states.ledgers.values()]
    assert fences == [False, False, True, False], "a replayed fence is durable"
    states.limbo.begin()
    states.limbo.limit(2)
    states.refresh_accepts_adds()
    assert accepting() == [3]
    states.limbo.end()
    states.refresh_accepts_adds_of(states.ledgers[0])
    assert accepting() == [0, 3]


def test_new_ledger_is_neither_proven_nor_fenced_and_has_no_lac() -> None:
    ledger = LedgerRecord(4, KEY)
    expected = {
        "ledger_id": 4,
        "master_key": KEY,
        "is_proven": False,
        "is_fenced": False,
        "is_fence_durable": False,
        "accepts_adds": False,
        "lac": -1,
        "lac_changed_ms": 0,
        "lac_body": b"",
        "polls": None,
    }
    assert {name: getattr(ledger, name) for name in expected} == expected


def test_records_of_a_new_bookie_are_empty() -> None:
    states = LedgerRecords()
    assert (states.ledgers, states.tombstones, states.boot_id) == ({}, {}, "")
    assert (states.is_clean, states.has_complete_snapshot) == (False, False)
    assert (states.deletion_count, states.sealed_for) == (0, 0)
    assert (states.manifest, states.limbo.is_active) == (LogManifest(0, {}), False)
    assert list(map(list, states.sorted_ledgers)) == [[], []]


def test_copies_of_metadata_are_in_snapshots_until_their_ledger_is_deleted() -> None:
    states = LedgerRecords()
    for ledger_id in (1, 2):
        states.create(ledger_id, KEY)
        states.keep_copy(ledger_id, b"metadata %d" % ledger_id)
    states.keep_copy(1, b"newer")
    restored = LedgerRecords()
    for record in states.snapshot():
        restored.apply(record)
    assert restored.copies == states.copies == {1: b"newer", 2: b"metadata 2"}
    assert not restored.is_clean
    restored.apply(states.delete(2, 50))
    assert restored.copies == {1: b"newer"}
    restored.apply(clean_end_record())
    assert restored.is_clean
    restored.apply(states.keep_copy(1, b"late"))
    assert not restored.is_clean, "a copy is not the end of the log"
