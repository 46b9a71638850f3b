"""The entries that a loss endangers are counted exactly, compared with one entry at a time."""

import itertools
from time import process_time

from rhumbline.core.protocol.bookie_id import BookieId, Region, check_bookie_id
from rhumbline.core.protocol.ledger_metadata import Fragment, LedgerMetadata, LedgerState
from rhumbline.core.protocol.placement import BookieInfo
from rhumbline.core.protocol.quorum import Quorum, QuorumView
from rhumbline.regions.durability import (
    CrowdedEntries,
    ExposureTally,
    count_in_stripes,
    entry_counts,
)

BOOKIES = tuple(check_bookie_id(f"b{n}@00000001") for n in range(7))


def closed(quorum: Quorum, firsts: list[int], end: int) -> LedgerMetadata:
    e = quorum.ensemble_size
    return LedgerMetadata(
        1, e, quorum.write_quorum, quorum.ack_quorum,
        tuple(Fragment(first, (*BOOKIES[n:], *BOOKIES[:n])[:e]) for n, first in enumerate(firsts)),
        state=LedgerState.CLOSED, last_entry_id=end - 1, length=end,
    ).with_r(0, quorum.min_regions)  # fmt: skip


def by_entry(
    quorum: Quorum, metadata: LedgerMetadata, views: list[QuorumView], gone: set[str]
) -> tuple[int, int]:
    """Return (lost, at risk): an entry is lost if all its bookies are, at risk if enough are."""
    lost = at_risk = 0
    for fragment, count, view in zip(
        metadata.fragments, entry_counts(metadata), views, strict=True
    ):
        for entry_id in range(fragment.first_entry_id, fragment.first_entry_id + count):
            write_set = quorum.write_set(entry_id)
            down = [i for i in write_set if view.regions[i] in gone]
            acked_by_lost = any(
                len({view.regions[i] for i in some}) >= quorum.min_regions
                for size in range(quorum.ack_quorum, len(down) + 1)
                for some in itertools.combinations(down, size)
            )
            lost += len(down) == len(write_set)
            at_risk += len(down) == len(write_set) or acked_by_lost
    return lost, at_risk


def test_lost_entries_equal_brute_force_for_every_quorum_range_and_loss() -> None:
    """Lost entries used to be 0 for E > WQ unless every write set was lost."""
    compared = striped = 0
    for e, wq in itertools.product(range(1, 7), repeat=2):
        if wq > e:
            continue
        names = [f"r{i}" for i in range(e)]  # each bookie in a region of its own
        for firsts, end in (([0], 0), ([0], 1), ([0], 17), ([0, 5], 9), ([0, 7, 8], 22)):
            for aq in range(1, wq + 1):
                for r in range(1, aq + 1):
                    quorum = Quorum(e, wq, aq, r)
                    metadata = closed(quorum, firsts, end)
                    views = [QuorumView(quorum, names) for _ in firsts]
                    for mask in range(1 << e):
                        gone = [name for i, name in enumerate(names) if mask >> i & 1]
                        tally = ExposureTally(gone)
                        tally.add(metadata, views)
                        found = tally.found.entries_lost, tally.found.entries_at_risk
                        if r in (1, aq):
                            assert found == by_entry(quorum, metadata, views, set(gone))
                        compared += 1
                        striped += 0 < found[0] < end
    assert compared > 10_000
    assert striped > 1_000


def test_regions_with_several_bookies_equal_brute_force() -> None:
    for quorum in (Quorum(2, 1, 1), Quorum(5, 3, 2, 2), Quorum(6, 4, 3, 2), Quorum(6, 2, 2, 2)):
        for layout in itertools.product("abc", repeat=quorum.ensemble_size):
            metadata = closed(quorum, [0, 4], 13)
            views = [QuorumView(quorum, layout), QuorumView(quorum, layout[::-1])]
            tally = ExposureTally(["a", "b"])
            tally.add(metadata, views)
            found = tally.found.entries_lost, tally.found.entries_at_risk
            assert found == by_entry(quorum, metadata, views, {"a", "b"})


def test_half_of_the_entries_are_lost_with_one_of_two_striped_bookies() -> None:
    metadata = closed(Quorum(2, 1, 1), [0], 11)
    tally = ExposureTally(["a"])
    tally.add(metadata, [QuorumView(Quorum(2, 1, 1), ["a", "b"])])
    assert tally.found.entries_lost == tally.found.entries_at_risk == 6
    assert tally.found.bytes_at_risk == 6


def test_an_entry_outside_the_region_rule_is_at_risk_if_it_is_lost() -> None:
    """An illegal write set cannot acknowledge, but its copies can be lost."""
    quorum = Quorum(2, 2, 2, 2)
    tally = ExposureTally(["a"])
    tally.add(closed(quorum, [0], 3), [QuorumView(quorum, ["a", "a"])])
    assert tally.found.entries_lost == tally.found.entries_at_risk == 3


def test_the_cost_does_not_depend_on_the_number_of_entries() -> None:
    chosen = [True, False, True]
    assert count_in_stripes(1, 10**15, chosen) == 666_666_666_666_666
    began = process_time()
    for _ in range(1_000):
        count_in_stripes(7, 10**15, chosen)
    assert process_time() - began < 1


def test_entries_that_share_a_rack_although_there_are_others_are_counted() -> None:
    def at(name: str, rack: str) -> BookieInfo:
        return BookieInfo(BookieId(f"{name}@00000001"), Region("a"), rack, 1, host=name)

    known = [at("b0", "r0"), at("b1", "r1"), at("b2", "r1"), at("b3", "r2")]
    ids = tuple(info.bookie for info in known)
    first, second = ids[:3], (*ids[:2], ids[3])
    fragments = (Fragment(0, first), Fragment(10, second))
    metadata = LedgerMetadata(
        7, 3, 3, 2, fragments, state=LedgerState.CLOSED, last_entry_id=29, length=30
    )
    crowded = CrowdedEntries(known)
    crowded.add(metadata)
    assert crowded.counts == {"zone": 0, "rack": 10, "host": 0}
    without = CrowdedEntries(known[:3])  # the location of b3 is not known, and its rack has gone
    without.add(metadata)
    assert without.counts == {"zone": 0, "rack": 0, "host": 0}
    striped = LedgerMetadata(
        8, 3, 2, 2, (Fragment(0, first),), state=LedgerState.CLOSED, last_entry_id=29, length=30
    )
    without.add(striped)
    assert without.counts == {"zone": 0, "rack": 10, "host": 0}, "every third write set is b1, b2"
    few = [BookieInfo(info.bookie, Region("b"), None, 1) for info in known[:2]]
    unlabelled = CrowdedEntries([*few, BookieInfo(known[2].bookie, Region("a"), None, 1)])
    unlabelled.add(metadata)
    assert unlabelled.counts == {"zone": 0, "rack": 0, "host": 0}, "no level has labels"
