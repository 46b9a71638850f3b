"""The id ranges of metadata stores are disjoint and cover all ledger ids (rule LED-27)."""

from rhumbline.core.metadata.cluster_layout import LEDGER_ID_MAX
from rhumbline.core.metadata.ledger_ids import (
    GLOBAL_STORE,
    STORE_NUMBER_MAX,
    id_range_of,
    store_number_of,
)
from rhumbline.core.metadata.ledger_store import high_bits_of


def test_ranges_are_disjoint_and_cover_all_ids() -> None:
    assert id_range_of(GLOBAL_STORE).start == 0
    assert id_range_of(STORE_NUMBER_MAX).stop == LEDGER_ID_MAX + 1
    for number in (0, 1, 2, 77, STORE_NUMBER_MAX - 1):
        ids = id_range_of(number)
        assert ids.stop == id_range_of(number + 1).start
        assert store_number_of(ids.start) == store_number_of(ids.stop - 1) == number


def test_generated_ids_lie_in_the_range_of_their_store() -> None:
    assert high_bits_of(GLOBAL_STORE) == range(1, 1 << 16), "those below 2^31 - 1 are short"
    for number in (1, 2, STORE_NUMBER_MAX):
        highs, ids = high_bits_of(number), id_range_of(number)
        assert highs.start << 32 == ids.start
        assert highs.stop << 32 == ids.stop
