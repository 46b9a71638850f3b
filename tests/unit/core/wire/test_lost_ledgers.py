"""Lists of lost ledgers are short, and what does not parse means all ledgers."""

from random import Random

import pytest

from rhumbline.core.wire.lost_ledgers import (
    ALL_LOST,
    NONE_LOST,
    RANGES_MAX,
    LostLedgers,
    decode,
    encode,
)


def test_ledgers_are_written_as_ranges_and_read_again() -> None:
    assert encode([]) == "" and decode("") == NONE_LOST and not NONE_LOST
    assert encode([9, 3, 8, 7, 3]) == "3,7-9"
    assert decode("3,7-9") == LostLedgers(frozenset({3, 7, 8, 9}))
    random = Random(1)
    for _ in range(200):
        ids = random.sample(range(60), random.randrange(1, 40))
        found = decode(encode(ids))
        assert found.ids == frozenset(ids)
        assert [found.covers(ledger_id) for ledger_id in range(60)] == [
            ledger_id in ids for ledger_id in range(60)
        ]


def test_too_many_ledgers_are_all_ledgers() -> None:
    assert encode(range(0, 2 * RANGES_MAX, 2)).count(",") == RANGES_MAX - 1
    assert encode(range(0, 2 * RANGES_MAX + 2, 2)) == "all"
    assert encode(range(1_000_001)) == "all"
    assert decode("all").covers(7)


@pytest.mark.parametrize("text", ["x", "3,", "9-3", "3 ", "-3", "1-99999999", "3,all", "\u0663"])
def test_text_that_does_not_parse_means_all_ledgers(text: str) -> None:
    assert decode(text) == ALL_LOST
    assert bool(ALL_LOST) and ALL_LOST.covers(5)
