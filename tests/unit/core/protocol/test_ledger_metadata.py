"""Ledger metadata: invariants are checked, and every change keeps them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rhumbline.core.protocol.bookie_id import BookieId
from rhumbline.core.protocol.errors import CorruptionError
from rhumbline.core.protocol.ledger_metadata import (
    R_KEY,
    REGIONS_KEY,
    SPREAD_KEY,
    DigestType,
    Fragment,
    LedgerMetadata,
    LedgerState,
    allowed_regions,
)

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


def test_stored_numbers_and_keys_do_not_change() -> None:
    assert [(state.name, state.value) for state in LedgerState] == [
        ("OPEN", 1), ("IN_RECOVERY", 2), ("CLOSED", 3),
    ]  # fmt: skip
    assert [(digest.name, digest.value) for digest in DigestType] == [
        ("CRC32", 1), ("HMAC", 2), ("CRC32C", 3), ("DUMMY", 4),
    ]  # fmt: skip
    assert (R_KEY, REGIONS_KEY) == ("rhumbline.r", "rhumbline.regions")


def test_a_new_ledger_is_open_and_empty() -> None:
    fresh = LedgerMetadata(7, 3, 3, 2, (Fragment(0, (A, B, C)),))
    assert fresh.state is LedgerState.OPEN
    assert (fresh.last_entry_id, fresh.length, fresh.password) == (-1, 0, b"")
    assert fresh.digest_type is DigestType.CRC32C
    assert (fresh.custom, fresh.created_ms, fresh.creation_token) == ({}, None, 0)
    assert fresh.r_ranges() == ((0, 1),)
    assert str(fresh.quorum_at(-1)) == "3/3/2/R1"


def test_a_ledger_without_fragments_is_corruption() -> None:
    with pytest.raises(CorruptionError, match="ledger 7"):
        LedgerMetadata(7, 3, 3, 2, ())


def test_a_closed_ledger_ends_at_or_right_before_its_last_fragment() -> None:
    two = (Fragment(0, (A, B, C)), Fragment(10, (A, B, D)))
    for last in (9, 10, 99):
        assert ledger(*two, state=LedgerState.CLOSED, last_entry_id=last).fragments == two
    with pytest.raises(CorruptionError, match="closed at 8, last fragment at 10"):
        ledger(*two, state=LedgerState.CLOSED, last_entry_id=8)


def test_the_fragment_of_an_entry_is_the_last_one_that_starts_at_or_below_it() -> None:
    three = ledger(Fragment(0, (A, B, C)), Fragment(10, (A, B, D)), Fragment(20, (B, C, D)))
    firsts = [three.fragment_of(entry).first_entry_id for entry in (0, 9, 10, 19, 20, 10**9)]
    assert firsts == [0, 0, 10, 10, 20, 20]
    assert three.last_fragment == Fragment(20, (B, C, D))
    assert three.bookies() == [A, B, C, D]


def test_other_bookies_replace_those_of_one_fragment() -> None:
    two = ledger(Fragment(0, (A, B, C)), Fragment(10, (A, B, D)))
    assert two.with_bookies_of(0, (B, C, D)).fragments == (
        Fragment(0, (B, C, D)),
        Fragment(10, (A, B, D)),
    )
    with pytest.raises(AssertionError):
        two.with_bookies_of(5, (B, C, D))


def test_changes_keep_every_other_field() -> None:
    before = ledger(password=b"secret", created_ms=5, creation_token=9, digest_type=DigestType.HMAC)
    after = before.with_fragment(4, (A, B, D)).with_r(4, 1).in_recovery().closed(6, 60)
    assert (after.ledger_id, after.password, after.created_ms, after.creation_token) == (
        7, b"secret", 5, 9,
    )  # fmt: skip
    assert after.digest_type is DigestType.HMAC
    assert (after.state, after.last_entry_id, after.length) == (LedgerState.CLOSED, 6, 60)
    assert after.custom == {R_KEY: b"0:2,4:1"}
    assert before.in_recovery().state is LedgerState.IN_RECOVERY


def test_a_ledger_changes_its_state_forwards_only() -> None:
    closed = ledger().closed(3, 30)
    with pytest.raises(AssertionError):
        closed.closed(3, 30)
    with pytest.raises(AssertionError):
        closed.in_recovery()
    with pytest.raises(AssertionError):
        ledger().in_recovery().in_recovery()


def test_closing_keeps_a_fragment_that_starts_with_the_last_entry() -> None:
    two = ledger(Fragment(0, (A, B, C)), Fragment(10, (A, B, D)))
    assert two.closed(10, 1).fragments == two.fragments
    assert two.closed(9, 1).fragments == two.fragments[:1]
    assert two.closed(0, 1).fragments == two.fragments[:1]
    assert two.closed(-1, 0).fragments == two.fragments[:1]


def test_setting_the_r_that_applies_already_adds_no_range() -> None:
    assert ledger().with_r(5, 2).r_ranges() == ((0, 2),)
    assert ledger(r=None).with_r(0, 2).r_ranges() == ((0, 2),)
    assert ledger().with_r(5, 1).with_r(3, 1).r_ranges() == ((0, 2), (3, 1))


def test_allowed_regions_are_listed_home_first() -> None:
    assert allowed_regions({}) == ()
    assert allowed_regions({REGIONS_KEY: b"eu,us-2"}) == ("eu", "us-2")
    listed = LedgerMetadata(7, 3, 3, 2, (Fragment(0, (A, B, C)),), custom={REGIONS_KEY: b"us,eu"})
    assert listed.allowed_regions() == ("us", "eu")


@pytest.mark.parametrize("text", [b"", b"eu,", b"EU", b"eu us", b"\xff"])
def test_malformed_lists_of_regions_are_corruption(text: bytes) -> None:
    with pytest.raises(CorruptionError, match=REGIONS_KEY.replace(".", r"\.")):
        allowed_regions({REGIONS_KEY: text})
    with pytest.raises(CorruptionError, match="ledger 7"):
        LedgerMetadata(7, 3, 3, 2, (Fragment(0, (A, B, C)),), custom={REGIONS_KEY: text})


def test_the_spread_rule_is_part_of_the_record() -> None:
    ensemble = (Fragment(0, (A, B, C)),)
    assert LedgerMetadata(7, 3, 3, 2, ensemble).spread_rule() == {}
    ruled = LedgerMetadata(7, 3, 3, 2, ensemble, custom={SPREAD_KEY: b"region:2,rack:3"})
    assert ruled.spread_rule() == {"region": 2, "rack": 3}
    with pytest.raises(CorruptionError, match=r"rhumbline\.spread"):
        LedgerMetadata(7, 3, 3, 2, ensemble, custom={SPREAD_KEY: b"shelf:2"})
