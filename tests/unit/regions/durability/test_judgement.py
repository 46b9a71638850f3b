"""The verdict on copies equals that of every single entry, and includes open ledgers."""

import itertools
from collections.abc import Collection, Mapping, Sequence
from random import Random

import pytest

from rhumbline.core.protocol.bookie_id import BookieId, check_bookie_id
from rhumbline.core.protocol.ledger_metadata import Fragment, LedgerMetadata, LedgerState
from rhumbline.core.protocol.placement import LEVELS
from rhumbline.core.protocol.quorum import Quorum
from rhumbline.regions.durability.copy_states import (
    BOOKIE_LEVEL,
    ClusterCopies,
    CopyState,
    Member,
)
from rhumbline.regions.durability.judgement import CopyVerdict, Judgement, absent_members, judge
from rhumbline.regions.durability.ledger_layout import layout_of

REGIONS = ("bonn", "oslo", "rome")


def member(state: CopyState, region: str | None, rack: str | None = None, host: str = "") -> Member:
    is_up = state is CopyState.UP
    can_add = state.is_live
    return Member(state, (region, None, rack, host or None), can_add, is_up)


def three_regions(**states: CopyState) -> ClusterCopies:
    """Return two bookies in each of three regions; ``states`` by name, others are up."""
    return ClusterCopies(
        {
            BookieId(f"{region}-{n}@00000001"): member(
                states.get(f"{region}_{n}", CopyState.UP), region
            )
            for region in REGIONS
            for n in (1, 2)
        }
    )


def ids(*names: str) -> tuple[BookieId, ...]:
    return tuple(check_bookie_id(f"{name}@00000001") for name in names)


def ledger(
    quorum: Quorum,
    *fragments: tuple[int, Sequence[BookieId]],
    end: int | None = 10,
    state: LedgerState = LedgerState.CLOSED,
    custom: Mapping[str, bytes] | None = None,
) -> LedgerMetadata:
    is_closed = state is LedgerState.CLOSED
    return LedgerMetadata(
        7, quorum.ensemble_size, quorum.write_quorum, quorum.ack_quorum,
        tuple(Fragment(first, tuple(bookies)) for first, bookies in fragments),
        state=state, last_entry_id=(end or 0) - 1 if is_closed else -1,
        length=100 if is_closed else 0, custom=custom or {},
    ).with_r(0, quorum.min_regions)  # fmt: skip


def verdict_on(metadata: LedgerMetadata, cluster: ClusterCopies) -> Judgement:
    return judge(layout_of(metadata)[0], cluster)


STREAM = Quorum(3, 3, 2, 2)
ENSEMBLE = ids("bonn-2", "oslo-2", "rome-1")


@pytest.mark.parametrize("state", LedgerState)
def test_one_disk_that_is_all_that_is_left_is_at_risk_and_one_failure_from_loss(
    state: LedgerState,
) -> None:
    """Two of three bookies were killed, and the report said that nothing was at risk."""
    cluster = three_regions(bonn_2=CopyState.DOWN, oslo_2=CopyState.DOWN)
    metadata = ledger(STREAM, (0, ENSEMBLE), state=state)
    found = verdict_on(metadata, cluster)
    assert found.worst is CopyVerdict.DOUBTFUL
    assert found.worst.is_at_risk and found.worst.may_lose
    assert found.loss_levels == (BOOKIE_LEVEL, "region")
    after = verdict_on(metadata, cluster.without(ids("rome-1", "rome-2")))
    assert after.worst is CopyVerdict.UNAVAILABLE
    assert absent_members(layout_of(metadata)[0], cluster) == dict.fromkeys(
        ids("bonn-2", "oslo-2"), CopyState.DOWN
    )
    if state is LedgerState.OPEN:
        assert not found.is_blocked, "bonn-1 and oslo-1 can take the places"
    assert found.is_end_undecidable == (state is not LedgerState.CLOSED)
    assert found.is_blocked == (state is LedgerState.IN_RECOVERY)


@pytest.mark.parametrize(
    ("state", "worst"),
    [
        (CopyState.UP, CopyVerdict.WHOLE),
        (CopyState.DRAINING, CopyVerdict.WHOLE),
        (CopyState.LIMBO, CopyVerdict.REDUCED),
        (CopyState.INCOMPLETE, CopyVerdict.REDUCED),
        (CopyState.DOWN, CopyVerdict.REDUCED),
        (CopyState.LOST, CopyVerdict.REDUCED),
        (CopyState.DECOMMISSIONED, CopyVerdict.REDUCED),
    ],
)
def test_every_state_of_a_bookie_counts(state: CopyState, worst: CopyVerdict) -> None:
    cluster = three_regions(bonn_2=state)
    assert verdict_on(ledger(STREAM, (0, ENSEMBLE)), cluster).worst is worst
    alone = ledger(Quorum(1, 1, 1), (0, ids("bonn-2")))
    expected = {
        CopyState.LIMBO: CopyVerdict.UNAVAILABLE,
        CopyState.INCOMPLETE: CopyVerdict.UNAVAILABLE,
        CopyState.DOWN: CopyVerdict.UNAVAILABLE,
        CopyState.LOST: CopyVerdict.LOST,
        CopyState.DECOMMISSIONED: CopyVerdict.LOST,
    }
    assert verdict_on(alone, cluster).worst is expected.get(state, CopyVerdict.WHOLE)


def test_a_bookie_that_nobody_knows_is_decommissioned() -> None:
    found = verdict_on(ledger(Quorum(1, 1, 1), (0, ids("ghost"))), three_regions())
    assert found.worst is CopyVerdict.LOST


def test_too_few_regions_are_at_risk_although_all_copies_are_live() -> None:
    quorum = Quorum(2, 2, 2, 2)
    found = verdict_on(ledger(quorum, (0, ids("rome-1", "rome-2"))), three_regions())
    assert found.worst is CopyVerdict.AT_RISK
    assert found.loss_levels == ("region",)


def test_fewer_copies_than_were_acknowledged_are_at_risk_and_a_copy_is_certain() -> None:
    quorum = Quorum(4, 4, 3, 2)
    bookies = ids("bonn-1", "bonn-2", "oslo-1", "oslo-2")
    cluster = three_regions(oslo_1=CopyState.LOST, oslo_2=CopyState.LOST)
    found = verdict_on(ledger(quorum, (0, bookies)), cluster)
    assert found.worst is CopyVerdict.AT_RISK
    assert not found.worst.may_lose


def test_only_write_sets_with_entries_count() -> None:
    striped = Quorum(3, 1, 1)
    bookies = ids("bonn-1", "oslo-1", "rome-1")
    cluster = three_regions(rome_1=CopyState.LOST)
    two = ledger(striped, (0, bookies), end=2)
    assert verdict_on(two, cluster).worst is CopyVerdict.WHOLE
    assert verdict_on(ledger(striped, (0, bookies), end=3), cluster).worst is CopyVerdict.LOST
    empty = ledger(striped, (0, bookies), end=0)
    assert verdict_on(empty, cluster).verdicts == ()
    opened = ledger(striped, (0, bookies), state=LedgerState.OPEN)
    assert verdict_on(opened, cluster).worst is CopyVerdict.LOST, "only its writer knows the end"


def test_the_last_copies_in_one_rack_are_one_failure_from_loss_at_that_level() -> None:
    bookies = ids("a", "b", "c")
    places = (("r0", "h0"), ("r0", "h1"), ("r1", "h2"))
    states = [CopyState.UP, CopyState.UP, CopyState.UP]

    def found() -> tuple[str, ...]:
        cluster = ClusterCopies(
            {
                bookie: member(state, "rome", rack, host)
                for bookie, state, (rack, host) in zip(bookies, states, places, strict=True)
            }
        )
        return verdict_on(ledger(Quorum(3, 3, 2), (0, bookies)), cluster).loss_levels

    assert found() == ("region",)
    states[2] = CopyState.DOWN
    assert found() == ("rack", "region")
    states[1] = CopyState.LIMBO
    assert found() == (BOOKIE_LEVEL, "host", "rack", "region")
    states[0] = CopyState.LOST
    assert found() == (), "nothing is left to lose"


# --- writes ---------------------------------------------------------------------------------------


def opened(
    quorum: Quorum, *bookies: str, custom: Mapping[str, bytes] | None = None
) -> LedgerMetadata:
    return ledger(quorum, (0, ids(*bookies)), state=LedgerState.OPEN, custom=custom)


def test_writes_that_no_replacement_makes_possible_are_blocked() -> None:
    all_three = Quorum(3, 3, 3, 3)
    metadata = opened(all_three, "bonn-1", "oslo-1", "rome-1")
    healthy = verdict_on(metadata, three_regions())
    assert not healthy.is_blocked
    assert healthy.block_levels == ("region",), "another bookie of the region can take a place"
    one = three_regions(rome_2=CopyState.DOWN)
    assert verdict_on(metadata, one).block_levels == (BOOKIE_LEVEL, "region")
    none = three_regions(rome_1=CopyState.DOWN, rome_2=CopyState.DOWN)
    assert verdict_on(metadata, none).is_blocked
    assert verdict_on(metadata, none).block_levels == ()
    rome_2 = three_regions(rome_1=CopyState.DOWN)
    assert not verdict_on(metadata, rome_2).is_blocked
    assert verdict_on(metadata, rome_2).block_levels == (BOOKIE_LEVEL, "region"), (
        "the bookie that would take the place may fail too"
    )


def test_a_bookie_that_refuses_adds_is_live_but_cannot_acknowledge() -> None:
    cluster = three_regions()
    full = [Member(CopyState.UP, cluster.of(b).path) for b in ids("rome-1", "rome-2")]
    read_only = ClusterCopies(
        {**cluster.members, **dict(zip(ids("rome-1", "rome-2"), full, strict=True))}
    )
    found = verdict_on(opened(Quorum(3, 3, 3, 3), "bonn-1", "oslo-1", "rome-1"), read_only)
    assert found.worst is CopyVerdict.WHOLE
    assert found.is_blocked


def test_replacements_come_from_the_allowed_regions_and_obey_the_spread_rule() -> None:
    cluster = three_regions(bonn_1=CopyState.DOWN)
    quorum = Quorum(2, 2, 2)
    names = ("bonn-1", "oslo-1")
    assert not verdict_on(opened(quorum, *names), cluster).is_blocked
    pinned = {"rhumbline.regions": b"oslo,bonn", "rhumbline.spread": b"region:2"}
    found = verdict_on(opened(quorum, *names, custom=pinned), cluster)
    assert not found.is_blocked
    assert found.block_levels == (BOOKIE_LEVEL, "region"), "only bonn-2 is left"
    without = three_regions(bonn_1=CopyState.DOWN, bonn_2=CopyState.DOWN)
    assert verdict_on(opened(quorum, *names, custom=pinned), without).is_blocked
    del pinned["rhumbline.spread"]
    assert not verdict_on(opened(quorum, *names, custom=pinned), without).is_blocked


def test_closed_ledgers_block_nothing() -> None:
    cluster = three_regions(**{f"{r}_{n}": CopyState.DOWN for r in REGIONS for n in (1, 2)})
    found = verdict_on(ledger(STREAM, (0, ENSEMBLE)), cluster)
    assert found.worst is CopyVerdict.UNAVAILABLE
    assert not found.is_blocked and not found.block_levels


# --- brute force ----------------------------------------------------------------------------------


def brute_force_of_write_set(
    quorum: Quorum, copies: Sequence[tuple[CopyState, str | None]]
) -> CopyVerdict:
    """Judge one write set from the definitions, over all its subsets."""

    def may_acknowledge(some: Sequence[tuple[CopyState, str | None]], is_certain: bool) -> bool:
        known = {region for _, region in some if region is not None}
        unknown = 0 if is_certain else sum(1 for _, region in some if region is None)
        enough = quorum.min_regions == 1 or len(known) + unknown >= quorum.min_regions
        return len(some) >= quorum.ack_quorum and enough

    live = [copy for copy in copies if copy[0] in (CopyState.UP, CopyState.DRAINING)]
    others = [copy for copy in copies if copy[0] not in (CopyState.UP, CopyState.DRAINING)]
    if not live:
        back = any(state.may_return for state, _ in others)
        return CopyVerdict.UNAVAILABLE if back else CopyVerdict.LOST
    if any(
        may_acknowledge(some, is_certain=False)
        for size in range(len(others) + 1)
        for some in itertools.combinations(others, size)
    ):
        return CopyVerdict.DOUBTFUL
    if not may_acknowledge(live, is_certain=True):
        return CopyVerdict.AT_RISK
    return CopyVerdict.REDUCED if others else CopyVerdict.WHOLE


def brute_force(
    metadata: LedgerMetadata, cluster: ClusterCopies, levels: Sequence[str]
) -> tuple[CopyVerdict, tuple[str, ...], dict[CopyVerdict, int]]:
    """Judge a ledger entry by entry, and every failure by carrying it out."""
    entries = range(metadata.last_entry_id + 1)
    worst, counts, loss = CopyVerdict.WHOLE, dict.fromkeys(CopyVerdict, 0), dict[str, None]()
    for entry in entries:
        fragment, quorum = metadata.fragment_of(entry), metadata.quorum_at(entry)
        names = [fragment.bookies[index] for index in quorum.write_set(entry)]
        found = brute_force_of_write_set(quorum, pairs_of(cluster, names))
        worst = max(worst, found)
        counts[found] += 1
        if found >= CopyVerdict.UNAVAILABLE:
            continue
        for level in levels:
            for failed in failures(cluster, level):
                after = pairs_of(cluster.without(failed), names)
                if brute_force_of_write_set(quorum, after) >= CopyVerdict.UNAVAILABLE:
                    loss[level] = None
    return worst, tuple(level for level in levels if level in loss), counts


def pairs_of(
    cluster: ClusterCopies, names: Sequence[BookieId]
) -> list[tuple[CopyState, str | None]]:
    return [(cluster.of(name).state, cluster.of(name).path[0]) for name in names]


def failures(cluster: ClusterCopies, level: str) -> Collection[frozenset[BookieId]]:
    domains: dict[object, list[BookieId]] = {}
    for bookie, its in cluster.members.items():
        key = bookie if level == BOOKIE_LEVEL else its.path[: LEVELS.index(level) + 1]
        domains.setdefault(key, []).append(bookie)
    return [frozenset(bookies) for bookies in domains.values()]


def random_case(random: Random) -> tuple[LedgerMetadata, ClusterCopies]:
    e = random.randint(1, 6)
    wq = random.randint(1, e)
    aq = random.randint(1, wq)
    quorum = Quorum(e, wq, aq, random.randint(1, aq))
    bookies = ids(*(f"b{n}" for n in range(8)))
    weights = [8, 1, 0.5, 0.5, 2, 1, 1] if random.random() < 0.5 else [3, 1, 0.5, 0.5, 2, 1, 1]
    cluster = ClusterCopies(
        {
            bookie: member(
                random.choices(list(CopyState), weights)[0],
                random.choice(["a", "b", "c", None]),
                random.choice(["r0", "r1", None]),
                f"h{random.randrange(4)}",
            )
            for bookie in bookies
        }
    )
    firsts = sorted({0, *(random.randrange(12) for _ in range(random.randrange(3)))})
    fragments = [(first, random.sample(bookies, e)) for first in firsts]
    metadata = ledger(quorum, *fragments, end=firsts[-1] + random.randrange(8))
    if aq > 1 and metadata.last_entry_id >= 2:
        metadata = metadata.with_r(random.randint(1, metadata.last_entry_id), 1)
    return metadata, cluster


def test_verdicts_losses_and_counts_equal_those_of_every_entry() -> None:
    seen: dict[CopyVerdict, int] = dict.fromkeys(CopyVerdict, 0)
    for seed in range(200):
        metadata, cluster = random_case(Random(seed))
        layout, counts = layout_of(metadata)
        found = judge(layout, cluster)
        by_verdict = dict.fromkeys(CopyVerdict, 0)
        for verdict, count in zip(found.verdicts, counts, strict=True):
            by_verdict[verdict] += count
        worst, loss, expected = brute_force(metadata, cluster, cluster.levels)
        assert (found.worst, found.loss_levels, by_verdict) == (worst, loss, expected), seed
        seen[worst] += 1
    assert min(seen.values()) > 3, seen


def can_write_by_brute_force(
    metadata: LedgerMetadata, cluster: ClusterCopies, failed: Collection[BookieId]
) -> bool:
    """Try every choice of replacements for the members that accept no adds."""
    quorum, members = metadata.quorum_at(0), metadata.last_fragment.bookies

    def accepts(bookie: BookieId) -> bool:
        return cluster.of(bookie).accepts_adds and bookie not in failed

    able = [accepts(bookie) for bookie in members]
    spares = [
        bookie
        for bookie, its in cluster.members.items()
        if its.accepts_ledgers and bookie not in failed and bookie not in members
    ]
    vacant = [index for index, is_able in enumerate(able) if not is_able]
    for size in range(len(vacant) + 1):
        for indices in itertools.combinations(vacant, size):
            for chosen in itertools.permutations(spares, size):
                ensemble: list[BookieId | None] = [
                    bookie if is_able else None
                    for bookie, is_able in zip(members, able, strict=True)
                ]
                for index, bookie in zip(indices, chosen, strict=True):
                    ensemble[index] = bookie
                if all(
                    satisfies(quorum, [ensemble[i] for i in quorum.write_set(entry)], cluster)
                    for entry in range(quorum.ensemble_size)
                ):
                    return True
    return False


def satisfies(quorum: Quorum, some: Sequence[BookieId | None], cluster: ClusterCopies) -> bool:
    there = [bookie for bookie in some if bookie is not None]
    regions = {cluster.of(bookie).path[0] for bookie in there} - {None}
    return len(there) >= quorum.ack_quorum and (
        quorum.min_regions == 1 or len(regions) >= quorum.min_regions
    )


def test_blocked_writes_equal_those_of_every_choice_of_replacements() -> None:
    seen = {"blocked": 0, "free": 0, "one failure": 0}
    for seed in range(300):
        random = Random(seed)
        metadata, cluster = random_case(random)
        metadata = ledger(
            metadata.quorum_at(0), (0, metadata.fragments[0].bookies), state=LedgerState.OPEN
        )
        found = judge(layout_of(metadata)[0], cluster)
        is_blocked = not can_write_by_brute_force(metadata, cluster, ())
        assert found.is_blocked == is_blocked, seed
        if is_blocked:
            seen["blocked"] += 1
            continue
        expected = tuple(
            level
            for level in cluster.levels
            if not all(
                can_write_by_brute_force(metadata, cluster, failed)
                for failed in failures(cluster, level)
            )
        )
        assert found.block_levels == expected, seed
        seen["one failure" if expected else "free"] += 1
    assert min(seen.values()) > 20, seen
