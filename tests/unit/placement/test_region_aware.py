"""Placement finds a best legal ensemble whenever a legal one exists."""

import itertools
from dataclasses import replace
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rhumbline.core.protocol.bookie_id import BookieId, Region
from rhumbline.core.protocol.errors import NotEnoughBookiesError
from rhumbline.core.protocol.placement import BookieInfo
from rhumbline.core.protocol.quorum import Quorum, QuorumView
from rhumbline.placement.layout_rank import rank
from rhumbline.placement.region_aware import RegionAwarePlacement


def bookies(**counts: int) -> list[BookieInfo]:
    return [
        BookieInfo(BookieId(f"{region}{i}@00000001"), Region(region), f"rack-{i % 2}", 1000)
        for region, count in counts.items()
        for i in range(count)
    ]


def regions_of(chosen: tuple[BookieId, ...], known: list[BookieInfo]) -> list[str | None]:
    by_id = {info.bookie: info.region for info in known}
    return [by_id[bookie] for bookie in chosen]


@st.composite
def cases(draw: st.DrawFn) -> tuple[Quorum, list[BookieInfo], int]:
    e = draw(st.integers(1, 5))
    wq = draw(st.integers(1, e))
    aq = draw(st.integers(1, wq))
    r = draw(st.integers(1, aq))
    known = bookies(**{name: draw(st.integers(0, 3)) for name in "abc"})
    return Quorum(e, wq, aq, r), known, draw(st.integers(0, 2**32))


@settings(max_examples=150, deadline=None)
@given(cases())
def test_the_chosen_layout_is_the_best_by_brute_force(
    case: tuple[Quorum, list[BookieInfo], int],
) -> None:
    quorum, known, seed = case
    region = {info.bookie: info.region for info in known}
    best = min(
        (
            found
            for layout in set(
                itertools.permutations([info.region for info in known], quorum.ensemble_size)
            )
            if (found := rank(quorum, layout, "a")) is not None
        ),
        default=None,
    )
    try:
        chosen = RegionAwarePlacement().new_ensemble(
            quorum, known, random=Random(seed), near=Region("a")
        )
    except NotEnoughBookiesError:
        assert best is None
        return
    assert len(set(chosen)) == quorum.ensemble_size
    assert rank(quorum, [region[bookie] for bookie in chosen], "a") == best


@settings(max_examples=150, deadline=None)
@given(cases(), st.sets(st.integers(0, 4), min_size=1, max_size=2))
def test_a_replacement_is_legal_and_moves_no_other_bookie(
    case: tuple[Quorum, list[BookieInfo], int], failed: set[int]
) -> None:
    quorum, known, seed = case
    by_id = {info.bookie: info for info in known}
    policy = RegionAwarePlacement()
    vacant = {index for index in failed if index < quorum.ensemble_size}
    try:
        old = policy.new_ensemble(quorum, known, random=Random(seed))
    except NotEnoughBookiesError:
        return
    try:
        new = policy.replace(quorum, [by_id[b] for b in old], vacant, known, random=Random(seed))
    except NotEnoughBookiesError:
        spare = [info for info in known if info.bookie not in old]
        for pick in itertools.permutations(spare, len(vacant)):
            layout: list[str | None] = [by_id[b].region for b in old]
            for index, info in zip(sorted(vacant), pick, strict=True):
                layout[index] = info.region
            assert not QuorumView(quorum, layout).is_legal()
        return
    assert len(set(new)) == quorum.ensemble_size
    assert all((old[i] == new[i]) == (i not in vacant) for i in range(quorum.ensemble_size))
    assert QuorumView(quorum, [by_id[b].region for b in new]).is_legal()


def test_three_regions_give_one_copy_each() -> None:
    known = bookies(a=2, b=2, c=2)
    seen: set[str] = set()
    for seed in range(40):
        chosen = RegionAwarePlacement().new_ensemble(
            Quorum(3, 3, 2, 2), known, random=Random(seed), near=Region("a")
        )
        assert sorted(str(r) for r in regions_of(chosen, known)) == ["a", "b", "c"]
        seen.update(chosen)
    assert len(seen) == 6, "every bookie gets its share"


def test_a_fragile_layout_is_chosen_only_if_there_is_no_other() -> None:
    known = bookies(a=2, b=1)
    chosen = RegionAwarePlacement().new_ensemble(Quorum(3, 3, 2, 2), known, random=Random(1))
    assert QuorumView(Quorum(3, 3, 2, 2), regions_of(chosen, known)).is_fragile()


def test_striping_keeps_the_rule_for_every_write_set() -> None:
    quorum = Quorum(6, 3, 2, 2)
    known = bookies(a=2, b=2, c=2)
    chosen = RegionAwarePlacement().new_ensemble(quorum, known, random=Random(1))
    assert QuorumView(quorum, regions_of(chosen, known)).is_robust()


def test_racks_are_spread_within_a_region() -> None:
    known = bookies(a=4)
    racks = {info.bookie: info.rack for info in known}
    for seed in range(20):
        chosen = RegionAwarePlacement().new_ensemble(Quorum(2, 2, 2), known, random=Random(seed))
        assert {racks[bookie] for bookie in chosen} == {"rack-0", "rack-1"}


def test_the_error_names_the_missing_bookies_or_regions() -> None:
    policy = RegionAwarePlacement()
    with pytest.raises(NotEnoughBookiesError, match="needs 3 writable bookies, there are: a: 1"):
        policy.new_ensemble(Quorum(3, 3, 2, 2), bookies(a=1), random=Random(1))
    with pytest.raises(NotEnoughBookiesError, match="needs bookies in 2 regions, there are: a: 4"):
        policy.new_ensemble(Quorum(3, 3, 2, 2), bookies(a=4), random=Random(1))


def test_bookies_without_a_region_serve_a_ledger_without_a_region_rule() -> None:
    known = [BookieInfo(BookieId(f"127.0.0.1:{port}")) for port in (1, 2, 3)]
    chosen = RegionAwarePlacement().new_ensemble(Quorum(3, 3, 2), known, random=Random(1))
    assert len(set(chosen)) == 3


def test_the_policy_counts_searches_that_were_not_exhaustive() -> None:
    names = [f"r{index}" for index in range(10)]
    known = bookies(**dict.fromkeys(names, 100))
    policy = RegionAwarePlacement()
    quorum = Quorum(64, 16, 9, 6)
    chosen = policy.new_ensemble(quorum, known, random=Random(1), near=Region("r1"))
    assert (policy.searches, policy.inexact_searches) == (1, 0)
    by_id = {info.bookie: info for info in known}
    after = policy.replace(
        quorum, [by_id[bookie] for bookie in chosen], range(0, 64, 4), known, random=Random(1)
    )
    assert policy.statistics() == {
        "searches": 2,
        "inexact_searches": 1,
        "crowded": {"zone": 0, "rack": 0, "host": 0},
    }
    assert QuorumView(quorum, regions_of(after, known)).is_robust()


def test_ensembles_that_use_a_rack_twice_though_there_are_others_are_counted() -> None:
    policy = RegionAwarePlacement()
    known = bookies(a=4)  # racks 0, 1, 0, 1
    policy.new_ensemble(Quorum(3, 3, 2), known, random=Random(1))
    assert policy.crowded == {"zone": 0, "rack": 0, "host": 0}, "there are only two racks"
    lone = BookieInfo(BookieId("lone@00000001"), Region("a"), "rack-2", 1000)
    ensemble = [known[0], known[1], lone]
    policy.replace(Quorum(3, 3, 2), ensemble, [2], known, random=Random(1))
    assert policy.crowded["rack"] == 0, "the third rack has gone with its bookie"
    full = [replace(info, rack="rack-0") for info in known]
    policy.new_ensemble(Quorum(6, 3, 2), [*full, lone, bookies(b=2)[1]], random=Random(1))
    assert policy.crowded["rack"] == 1
