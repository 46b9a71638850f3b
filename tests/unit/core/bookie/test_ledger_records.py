"""Damaged state records raise CorruptionError and nothing else."""

from random import Random

from rhumbline.core.bookie.ledger_records import LedgerRecords
from rhumbline.core.protocol.errors import CorruptionError
from rhumbline.tests.unit.core.bookie.bookie_world import KEY


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
