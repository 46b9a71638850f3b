"""Which packs are merged."""

from rhumbline.coldstore.index.merge import PACK_BYTES, packs_to_merge


def merged(sizes: list[int], added: int, *, stored: int = 0, live: int = 0) -> int:
    return packs_to_merge(sizes, added, stored=stored, live=live)


def test_a_pack_is_merged_with_newer_ones_that_have_half_of_its_size() -> None:
    assert merged([], 5) == 0
    assert merged([100], 50) == 0
    assert merged([100], 51) == 1
    assert merged([1000, 100, 60], 31) == 2
    assert merged([1000, 600, 100, 60], 31) == 2
    assert merged([400, 200, 100, 60], 31) == 4


def test_full_packs_are_left_alone() -> None:
    assert merged([PACK_BYTES, 10], PACK_BYTES) == 1


def test_everything_is_merged_when_most_of_it_no_longer_counts() -> None:
    assert merged([PACK_BYTES, PACK_BYTES], 1, stored=3001, live=1000) == 2
    assert merged([PACK_BYTES, PACK_BYTES], 1, stored=3000, live=1000) == 0
