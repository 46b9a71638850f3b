"""Copies move within their region while that lets write sets share fewer zones, racks or hosts."""

from random import Random

import pytest

from rhumbline.core.protocol.bookie_id import BookieId, Region
from rhumbline.core.protocol.placement import BookieInfo, fewest_domains, shared_copies
from rhumbline.core.protocol.quorum import Quorum
from rhumbline.placement.spread.spread_improvement import move_to_spread


def bookie(
    name: str, rack: str, *, region: str = "a", zone: str = "z", host: str | None = ""
) -> BookieInfo:
    """Return a bookie; unless ``host`` is given it has a host of its own."""
    found = name if host == "" else host
    return BookieInfo(BookieId(f"{name}@00000001"), Region(region), rack, 1, zone=zone, host=found)


def random_bookie(number: int, random: Random) -> BookieInfo:
    """Return a bookie at one of few locations."""
    return bookie(
        f"b{number}",
        f"r{random.randrange(3)}",
        region=random.choice("ab"),
        zone=f"z{random.randrange(2)}",
        host=f"h{random.randrange(3)}",
    )


@pytest.mark.parametrize("number", range(300))
def test_moves_are_as_good_as_every_single_move_and_end(number: int) -> None:
    random = Random(number)
    e = random.randint(2, 6)
    quorum = Quorum(e, random.randint(2, e), 1, 1)
    known = [random_bookie(number, random) for number in range(e + random.randint(1, 6))]
    ensemble, spare = known[:e], known[e:]
    for _ in range(100):
        before = shared_copies(quorum, [info.path for info in ensemble])
        every = [
            shared_copies(quorum, [*paths[:index], other.path, *paths[index + 1 :]])
            for paths in [[info.path for info in ensemble]]
            for index, member in enumerate(ensemble)
            for other in spare
            if other.region == member.region
        ]
        found = move_to_spread(quorum, ensemble, spare, {})
        if found is None:
            assert min([before, *every]) == before
            return
        index, target = found
        chosen = next(info for info in spare if info.path == target)
        assert chosen.region == ensemble[index].region
        spare = [ensemble[index], *(info for info in spare if info is not chosen)]
        ensemble = [*ensemble[:index], chosen, *ensemble[index + 1 :]]
        assert shared_copies(quorum, [info.path for info in ensemble]) == min(every) < before
    pytest.fail("the moves do not end")


def test_a_rule_that_holds_is_not_violated() -> None:
    quorum = Quorum(4, 3, 2)
    # Write sets of three: index 0 shares its zone with 1, and its move would end a rack of its own.
    ensemble = [
        bookie("m0", "r0", zone="z0"),
        bookie("m1", "r1", zone="z0"),
        bookie("m2", "r2", zone="z1"),
        bookie("m3", "r3", zone="z2"),
    ]
    spare = [bookie("s0", "r2", zone="z1"), bookie("s1", "r3", zone="z2")]
    for rule in ({}, {"zone": 2, "rack": 3}):
        found = move_to_spread(quorum, ensemble, spare, rule)
        paths = [info.path for info in ensemble]
        if found is not None:
            paths[found[0]] = found[1]
        fewest = fewest_domains(quorum, paths)
        assert (fewest[1], fewest[2]) >= (rule.get("zone", 0), rule.get("rack", 0))


def test_unknown_hosts_and_single_domains_cause_no_moves() -> None:
    quorum = Quorum(2, 2, 1)
    together = [bookie("m0", "r0"), bookie("m1", "r0")]
    assert move_to_spread(quorum, together, [bookie("s0", "r1")], {}) is not None
    assert move_to_spread(quorum, together, [bookie("s0", "r0")], {}) is None
    assert move_to_spread(quorum, together, [bookie("s0", "r1", region="b")], {}) is None
    unknown = [bookie("m0", "r0"), bookie("m1", "r0", host=None)]
    assert move_to_spread(quorum, unknown, [bookie("s0", "r1")], {}) is None
    apart = [bookie("m0", "r0", zone="z0"), bookie("m1", "r1", zone="z1")]
    assert move_to_spread(quorum, apart, [bookie("s0", "r2", zone="z2")], {}) is None
