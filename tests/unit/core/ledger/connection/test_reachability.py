"""Bookies that may be unreachable are tried last, and few of them are asked."""

from collections.abc import Mapping

from rhumbline.core.ledger.connection.reachability import (
    PROBES_PER_REGION,
    KnownPaths,
    bookies_to_probe,
    reachable_first,
    suspect_regions,
)
from rhumbline.core.protocol.bookie_id import BookieId, check_region
from rhumbline.core.protocol.placement import BookieInfo

NAMES = ("a1", "a2", "b1", "b2", "c1", "c2")
CANDIDATES = [BookieInfo(BookieId(name), check_region(name[0])) for name in NAMES]


def paths(
    failed: Mapping[str, float] | None = None,
    lost: Mapping[str, float] | None = None,
    proved: Mapping[str, float] | None = None,
) -> KnownPaths:
    return KnownPaths(
        *(
            {BookieId(name): at for name, at in (found or {}).items()}
            for found in (failed, lost, proved)
        )
    )


def tiers(known: KnownPaths) -> list[str]:
    return [" ".join(info.bookie for info in tier) for tier in reachable_first(CANDIDATES, known)]


def test_without_failures_there_is_one_choice_and_nobody_is_asked() -> None:
    known = paths(proved={"a1": 5.0})
    assert tiers(known) == ["a1 a2 b1 b2 c1 c2"]
    assert bookies_to_probe(CANDIDATES, known) == []


def test_a_failure_makes_the_other_bookies_of_its_region_suspect() -> None:
    for known in (paths(failed={"a1": 7.0}), paths(lost={"a1": 7.0})):
        assert suspect_regions(CANDIDATES, known) == ["a"]
        assert tiers(known) == ["b1 b2 c1 c2", "a2 b1 b2 c1 c2", "a1 a2 b1 b2 c1 c2"]
        assert bookies_to_probe(CANDIDATES, known) == ["a1", "a2"]


def test_a_response_after_the_failure_clears_the_region_and_not_the_failed_bookie() -> None:
    known = paths(failed={"a1": 7.0}, proved={"a2": 8.0})
    assert suspect_regions(CANDIDATES, known) == []
    assert tiers(known) == ["a2 b1 b2 c1 c2", "a1 a2 b1 b2 c1 c2"]
    assert bookies_to_probe(CANDIDATES, known) == []
    before = paths(failed={"a1": 7.0}, proved={"a2": 6.0})
    assert suspect_regions(CANDIDATES, before) == ["a"]


def test_bookies_that_have_returned_are_used_before_those_of_a_suspect_region() -> None:
    known = paths(failed={"a1": 7.0, "b1": 3.0, "b2": 5.0}, proved={"b1": 4.0})
    assert suspect_regions(CANDIDATES, known) == ["a", "b"], "the last failure of b is unexplained"
    known = paths(failed={"a1": 7.0, "b1": 3.0, "b2": 5.0}, proved={"b1": 6.0})
    assert tiers(known) == ["c1 c2", "b1 c1 c2", "a2 b1 c1 c2", "a1 a2 b1 b2 c1 c2"]
    lost = paths(failed={"a1": 7.0, "b1": 3.0}, lost={"b1": 7.0}, proved={"b1": 6.0, "b2": 8.0})
    assert tiers(lost) == ["b2 c1 c2", "a2 b2 c1 c2", "a1 a2 b1 b2 c1 c2"]


def test_a_lost_connection_is_asked_for_though_its_region_responds() -> None:
    known = paths(lost={"a1": 7.0}, proved={"a2": 8.0})
    assert bookies_to_probe(CANDIDATES, known) == ["a1"]


def test_a_bookie_that_was_avoided_until_now_is_asked_for_and_may_be_used() -> None:
    known = KnownPaths(proved_at={BookieId("a1"): 8.0}, lapsed={BookieId("a1")})
    assert bookies_to_probe(CANDIDATES, known) == ["a1"]
    assert tiers(known) == ["a1 a2 b1 b2 c1 c2"]


def test_a_failed_bookie_outside_the_candidates_does_not_count() -> None:
    assert tiers(paths(failed={"x9": 7.0})) == ["a1 a2 b1 b2 c1 c2"]


def test_bookies_without_a_region_are_never_suspect() -> None:
    apache = [BookieInfo(BookieId(f"host{n}:3181")) for n in range(3)]
    known = KnownPaths({apache[0].bookie: 1.0})
    assert [len(tier) for tier in reachable_first(apache, known)] == [2, 3]
    assert bookies_to_probe(apache, known) == []


def test_a_few_bookies_of_each_region_are_asked() -> None:
    many = [BookieInfo(BookieId(f"{r}{n}"), check_region(r)) for r in "ab" for n in range(50)]
    known = KnownPaths({BookieId("a0"): 1.0, BookieId("b49"): 1.0})
    asked = bookies_to_probe(many, known)
    assert len(asked) == 2 * PROBES_PER_REGION
