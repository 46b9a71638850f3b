"""Snapshots hold the whole state; damaged state records raise CorruptionError only."""

from random import Random

from rhumbline.core.bookie.ledger_records import LedgerRecords
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
