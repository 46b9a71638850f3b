"""An ensemble that violates a rule on zones, racks or hosts is refused, and only then (PLC-29)."""

from itertools import permutations
from random import Random

import pytest

from rhumbline.core.protocol.bookie_id import BookieId, Region
from rhumbline.core.protocol.errors import InvalidArgumentError, NotEnoughBookiesError
from rhumbline.core.protocol.placement import (
    LEVELS,
    BookieInfo,
    Path,
    SpreadRule,
    parse_spread_rule,
    shortage,
)
from rhumbline.core.protocol.quorum import Quorum, QuorumView
from rhumbline.placement.region_aware import RegionAwarePlacement


def at(name: str, region: str, zone: str | None, rack: str | None) -> BookieInfo:
    return BookieInfo(BookieId(f"{name}@00000001"), Region(region), rack, 1000, zone, name)


def is_obeyed(quorum: Quorum, paths: list[Path], rule: SpreadRule) -> bool:
    """Count the domains of each write set, one by one."""
    for entry in range(quorum.ensemble_size):
        members = [paths[index] for index in quorum.write_set(entry)]
        for depth, level in enumerate(LEVELS):
            known = {path[: depth + 1] for path in members if path[depth] is not None}
            if len(known) < rule.get(level, 0):
                return False
    return True


@pytest.mark.parametrize("number", range(60))
def test_a_new_ensemble_is_refused_only_if_brute_force_finds_none(number: int) -> None:
    random = Random(number)
    wq = random.randint(2, 4)
    e = random.choice([wq, random.randint(wq, 5)])
    aq = random.randint(1, wq)
    quorum = Quorum(e, wq, aq, random.randint(1, min(aq, 2)))
    known = [
        at(
            f"b{i}",
            random.choice("ab"),
            random.choice(["z0", "z1"]),
            random.choice(["r0", "r1", None]),
        )
        for i in range(random.randint(e, 7))
    ]
    level = random.choice(LEVELS)
    rule = {level: random.randint(2, min(wq, 3 if level != "region" else 2))}
    paths = {info.bookie: info.path for info in known}
    try:
        chosen = RegionAwarePlacement().new_ensemble(quorum, known, random=random, rule=rule)
    except NotEnoughBookiesError:
        for members in permutations(known, e):
            is_legal = QuorumView(quorum, [info.region for info in members]).is_legal()
            found = is_legal and is_obeyed(quorum, [info.path for info in members], rule)
            assert not found, (quorum, rule, members)
        return
    assert is_obeyed(quorum, [paths[bookie] for bookie in chosen], rule)
    assert QuorumView(quorum, [paths[bookie][0] for bookie in chosen]).is_legal()


def test_a_rule_precedes_robustness_but_not_the_region_rule() -> None:
    """Two regions; the racks that the rule needs are all in one of them."""
    known = [at("a1", "a", "z", "r1"), at("a2", "a", "z", "r1"), at("a3", "a", "z", "r1")]
    known += [at(f"b{i}", "b", "z", f"r{i}") for i in range(3)]
    quorum = Quorum(4, 4, 2)
    racks = {info.bookie: info.path[:3] for info in known}
    free = RegionAwarePlacement().new_ensemble(quorum, known, random=Random(1))
    assert len({racks[bookie] for bookie in free}) == 3, "two copies in each region"
    ruled = RegionAwarePlacement().new_ensemble(quorum, known, random=Random(1), rule={"rack": 4})
    assert len({racks[bookie] for bookie in ruled}) == 4


def test_a_refusal_names_the_rule_and_the_domains() -> None:
    known = [at(f"b{i}", "a", None, f"r{i % 2}") for i in range(6)]
    with pytest.raises(
        NotEnoughBookiesError,
        match=r"3/3/2/R1 has each write set in at least 3 racks; the bookies are in .* 2 racks",
    ):
        RegionAwarePlacement().new_ensemble(
            Quorum(3, 3, 2), known, random=Random(1), rule={"rack": 3}
        )


def test_a_replacement_in_a_used_rack_is_refused_by_the_rule() -> None:
    ensemble = [at(f"b{i}", "a", None, f"r{i}") for i in range(3)]
    spare = [at("s0", "a", None, "r0"), at("s2", "a", None, "r2")]
    policy, quorum, rule = RegionAwarePlacement(), Quorum(3, 3, 2), {"rack": 3}
    chosen = policy.replace(quorum, ensemble, [2], spare, random=Random(1), rule=rule)
    assert chosen[2] == spare[1].bookie
    with pytest.raises(NotEnoughBookiesError, match="at least 3 racks"):
        policy.replace(quorum, ensemble, [2], spare[:1], random=Random(1), rule=rule)
    assert policy.replace(quorum, ensemble, [2], spare[:1], random=Random(1))


def test_an_unknown_rack_counts_for_none() -> None:
    members = [at("x", "a", None, "r1").path, at("y", "a", None, None).path]
    assert shortage({"rack": 2}, members) == "rack"
    assert shortage({"host": 2}, members) is None


@pytest.mark.parametrize("text", ["rack", "rack:0", "rack:x", "shelf:2", "rack:65"])
def test_a_bad_rule_is_refused(text: str) -> None:
    with pytest.raises(InvalidArgumentError, match="bad spread"):
        parse_spread_rule([text])
    with pytest.raises(InvalidArgumentError, match="bad spread"):
        parse_spread_rule(["rack:2", "rack:3"])
