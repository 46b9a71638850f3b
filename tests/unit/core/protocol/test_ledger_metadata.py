"""Ledger metadata: invariants are checked, and every change keeps them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rhumbline.core.protocol.bookie_id import BookieId
from rhumbline.core.protocol.errors import CorruptionError
from rhumbline.core.protocol.ledger_metadata import R_KEY, Fragment, LedgerMetadata, LedgerState

A, B, C, D = (BookieId(f"{name}@0000000{i}") for i, name in enumerate("abcd"))


def ledger(*fragments: Fragment, r: bytes | None = b"0:2", **other: object) -> LedgerMetadata:
    custom = {} if r is None else {R_KEY: r}
    return LedgerMetadata(
        7,
        3,
        3,
        2,
        fragments or (Fragment(0, (A, B, C)),),
        custom=custom,
        **other,  # type: ignore[arg-type]
    )


@pytest.mark.parametrize(
    "fragments",
    [
        (Fragment(1, (A, B, C)),),
        (Fragment(0, (A, B, C)), Fragment(0, (A, B, D))),
        (Fragment(0, (A, B, C)), Fragment(9, (A, B, C)), Fragment(5, (A, B, D))),
        (Fragment(0, (A, B)),),
        (Fragment(0, (A, B, B)),),
    ],
)
def test_impossible_fragments_are_corruption(fragments: tuple[Fragment, ...]) -> None:
    with pytest.raises(CorruptionError):
        ledger(*fragments)


@pytest.mark.parametrize("text", [b"", b"0", b"0:x", b"1:2", b"0:2,0:1", b"0:2,5:1,4:1", b"\xff"])
def test_impossible_region_ranges_are_corruption(text: bytes) -> None:
    with pytest.raises(CorruptionError):
        ledger(r=text)


def test_without_region_key_bookkeepers_rule_applies() -> None:
    assert ledger(r=None).quorum_at(10).min_regions == 1


def test_r_is_evaluated_by_entry_id() -> None:
    changed = ledger().with_r(100, 1).with_r(200, 2)
    assert [changed.quorum_at(e).min_regions for e in (0, 99, 100, 199, 200, 10**9)] == [
        2,
        2,
        1,
        1,
        2,
        2,
    ]


def test_setting_r_again_at_the_same_entry_replaces_it() -> None:
    changed = ledger().with_r(100, 1).with_r(100, 2)
    assert changed.r_ranges() == ((0, 2),)


def test_setting_r_keeps_r_1_for_earlier_entries() -> None:
    assert ledger(r=None).with_r(5, 2).r_ranges() == ((0, 1), (5, 2))


def test_a_fragment_that_starts_with_the_last_one_replaces_it() -> None:
    first = ledger().with_fragment(0, (A, B, D))
    assert first.fragments == (Fragment(0, (A, B, D)),)
    second = first.with_fragment(8, (A, C, D))
    assert [f.first_entry_id for f in second.fragments] == [0, 8]
    assert second.fragment_of(7).bookies == (A, B, D)
    assert second.fragment_of(8).bookies == (A, C, D)
    assert second.bookies() == [A, B, D, C]


def test_closing_drops_fragments_beyond_the_end() -> None:
    closed = ledger(Fragment(0, (A, B, C)), Fragment(10, (A, B, D))).closed(8, 80)
    assert closed.state is LedgerState.CLOSED
    assert closed.fragments == (Fragment(0, (A, B, C)),)


def test_an_empty_ledger_closes_at_none() -> None:
    closed = ledger().closed(-1, 0)
    assert closed.last_entry_id == -1
    assert len(closed.fragments) == 1


@given(st.lists(st.tuples(st.integers(0, 50), st.sampled_from([1, 2])), max_size=8))
def test_the_last_r_that_was_set_applies(changes: list[tuple[int, int]]) -> None:
    metadata = ledger()
    expected = dict.fromkeys(range(60), 2)
    for first, r in changes:
        metadata = metadata.with_r(first, r)
        expected.update(dict.fromkeys(range(first, 60), r))
    assert {e: metadata.quorum_at(e).min_regions for e in range(60)} == expected
