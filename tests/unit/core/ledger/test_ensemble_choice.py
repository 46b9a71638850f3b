"""The choice of members to replace: as many as possible, in a fixed order of preference."""

import asyncio
from collections.abc import Callable, Collection, Sequence
from random import Random

import pytest

from rhumbline.core.ledger.ensemble_choice import choose_live_ensemble, choose_replacements
from rhumbline.core.protocol.bookie_id import BookieId, Region
from rhumbline.core.protocol.errors import NotEnoughBookiesError
from rhumbline.core.protocol.placement import NO_RULE, BookieInfo, SpreadRule
from rhumbline.core.protocol.quorum import Quorum
from rhumbline.tests.unit.core.ledger.world import run_in_world

GEO = Quorum(3, 3, 2, 2)
ANY = Quorum(3, 3, 2, 1)


def infos(layout: str, start: int = 0) -> list[BookieInfo]:
    """Return bookies b<n> in the regions that the letters of ``layout`` name."""
    return [
        BookieInfo(BookieId(f"b{start + i}@00000000"), Region(region))
        for i, region in enumerate(layout)
    ]


def names(bookies: Sequence[BookieId]) -> list[str]:
    return [bookie.partition("@")[0] for bookie in bookies]


class Placement:
    """Takes the first candidates that are not members, unless ``refuses`` says otherwise."""

    def __init__(
        self, refuses: Callable[[Sequence[int], Sequence[BookieInfo]], bool] = lambda *_: False
    ) -> None:
        self.asked: list[tuple[tuple[int, ...], list[str]]] = []
        self.rules: list[SpreadRule] = []
        self._refuses = refuses

    def new_ensemble(
        self,
        quorum: Quorum,
        candidates: Sequence[BookieInfo],
        *,
        random: Random,
        near: Region | None = None,
        rule: SpreadRule = NO_RULE,
    ) -> tuple[BookieId, ...]:
        raise AssertionError("no ledger is created")

    def replace(
        self,
        quorum: Quorum,
        ensemble: Sequence[BookieInfo],
        failed: Collection[int],
        candidates: Sequence[BookieInfo],
        *,
        random: Random,
        rule: SpreadRule = NO_RULE,
    ) -> tuple[BookieId, ...]:
        chosen = tuple(failed)
        self.rules.append(rule)
        self.asked.append((chosen, names([info.bookie for info in candidates])))
        bookies = [info.bookie for info in ensemble]
        others = [info.bookie for info in candidates if info.bookie not in bookies]
        if self._refuses(chosen, candidates) or len(others) < len(chosen):
            raise NotEnoughBookiesError(f"refused {chosen} from {len(candidates)}")
        for index, bookie in zip(chosen, others, strict=False):
            bookies[index] = bookie
        return tuple(bookies)


async def replaced(
    placement: Placement,
    quorum: Quorum,
    ensemble: Sequence[BookieInfo],
    wanted: int,
    *candidates: Sequence[BookieInfo],
) -> list[str]:
    bookies = await choose_replacements(
        placement, quorum, ensemble, wanted, candidates, random=Random(1)
    )
    return names(bookies)


async def test_legal_ensemble_stays_if_nothing_is_to_be_replaced() -> None:
    placement = Placement()
    assert await replaced(placement, GEO, infos("abc"), 0, infos("abc", 3)) == ["b0", "b1", "b2"]
    assert placement.asked == []


async def test_all_wanted_members_are_replaced_at_once_if_possible() -> None:
    placement = Placement()
    everyone = [*infos("abc"), *infos("abc", 3)]
    assert await replaced(placement, GEO, infos("abc"), 0b101, everyone) == ["b3", "b1", "b4"]
    assert [failed for failed, _ in placement.asked] == [(0, 2)]


async def test_candidates_are_tried_in_their_order_for_each_choice() -> None:
    healthy, everyone = infos("ab", 3), infos("abc", 3)
    placement = Placement(lambda failed, eligible: eligible is healthy or len(failed) > 1)
    assert await replaced(placement, ANY, infos("abc"), 0b011, healthy, everyone) == [
        "b3",
        "b1",
        "b2",
    ]
    assert placement.asked == [
        ((0, 1), ["b3", "b4"]),
        ((0, 1), ["b3", "b4", "b5"]),
        ((0,), ["b3", "b4"]),
        ((0,), ["b3", "b4", "b5"]),
    ]


async def test_first_refusal_is_raised_if_every_choice_is_refused() -> None:
    placement = Placement(lambda *_: True)
    with pytest.raises(NotEnoughBookiesError, match=r"^refused \(0, 1\) from 2$"):
        await replaced(placement, ANY, infos("abc"), 0b011, infos("ab", 3), infos("abc", 3))
    assert len(placement.asked) == 6


async def test_members_among_the_candidates_are_no_replacements() -> None:
    """Nothing is spare, so placement is asked once for all, and explains what is missing."""
    placement = Placement(lambda *_: True)
    with pytest.raises(NotEnoughBookiesError, match=r"^refused \(0, 2\) from 3$"):
        await replaced(placement, ANY, infos("abc"), 0b101, [], infos("abc"))
    assert [failed for failed, _ in placement.asked] == [(0, 2)]


async def test_explanation_names_every_member_if_the_ensemble_is_illegal_and_nothing_is_spare() -> (
    None
):
    placement = Placement(lambda *_: True)
    with pytest.raises(NotEnoughBookiesError, match=r"^refused \(0, 1, 2\) from 3$"):
        await replaced(placement, GEO, infos("aaa"), 0, infos("aaa"))


async def test_only_as_many_as_are_spare_are_replaced() -> None:
    placement = Placement()
    everyone = [*infos("abc"), *infos("a", 3)]
    assert await replaced(placement, GEO, infos("abc"), 0b111, everyone) == ["b3", "b1", "b2"]


async def test_illegal_ensemble_is_made_legal_with_the_fewest_replacements() -> None:
    placement = Placement()
    everyone = [*infos("aaa"), *infos("bb", 3)]
    assert await replaced(placement, GEO, infos("aaa"), 0, everyone) == ["b0", "b1", "b3"]
    assert [failed for failed, _ in placement.asked] == [(2,)]


async def test_wanted_members_of_an_illegal_ensemble_are_tried_before_the_fewest() -> None:
    placement = Placement(lambda failed, _: failed == (0,))
    everyone = [*infos("aaa"), *infos("b", 3)]
    assert await replaced(placement, GEO, infos("aaa"), 0b001, everyone) == ["b0", "b1", "b3"]
    assert [failed for failed, _ in placement.asked] == [(0,), (2,)]


async def test_legal_ensemble_replaces_no_other_members_than_the_wanted_ones() -> None:
    placement = Placement(lambda *_: True)
    with pytest.raises(NotEnoughBookiesError):
        await replaced(placement, ANY, infos("abc"), 0b001, infos("abc", 3))
    assert [failed for failed, _ in placement.asked] == [(0,)]


@pytest.mark.run_by(runner=run_in_world)
@pytest.mark.parametrize(("size", "has_run"), [(6, False), (7, True)])
async def test_other_tasks_run_between_the_searches_for_a_large_ensemble(
    size: int, has_run: bool
) -> None:
    ran_before: list[bool] = []
    other = asyncio.get_running_loop().create_future()

    def refuses(failed: Sequence[int], _: object) -> bool:
        ran_before.append(other.done())
        return len(ran_before) == 1

    asyncio.get_running_loop().call_soon(other.set_result, None)
    quorum = Quorum(size, size, 2, 1)
    wanted = (1 << size) - 1
    await replaced(Placement(refuses), quorum, infos("a" * size), wanted, infos("a" * 9, 20))
    assert ran_before == [False, has_run]
    assert asyncio.get_running_loop().time() == 0


async def live(
    quorum: Quorum, ensemble: Sequence[BookieInfo], failed: int, candidates: Sequence[BookieInfo]
) -> list[str]:
    bookies = await choose_live_ensemble(
        Placement(), quorum, ensemble, failed, candidates, random=Random(1)
    )
    return names(bookies)


async def test_live_ensemble_replaces_every_failed_member_if_there_are_enough() -> None:
    assert await live(GEO, infos("abc"), 0b011, infos("abc", 3)) == ["b3", "b4", "b2"]


async def test_failed_member_keeps_its_index_if_the_others_satisfy_p() -> None:
    assert await live(GEO, infos("abc"), 0b110, [*infos("abc"), *infos("b", 3)]) == [
        "b0",
        "b3",
        "b2",
    ]


async def test_ensemble_whose_live_members_do_not_satisfy_p_is_refused() -> None:
    """One replacement in the region of the only live member is not enough for R = 2."""
    with pytest.raises(NotEnoughBookiesError) as caught:
        await live(GEO, infos("abc"), 0b110, [*infos("abc"), *infos("a", 3)])
    text = str(caught.value)
    assert text.startswith("3/3/2/R2 needs 2 live bookies in 2 regions for each entry; ")
    assert text.endswith("nothing can replace b2@00000000")


async def test_every_member_that_cannot_be_replaced_is_named() -> None:
    with pytest.raises(NotEnoughBookiesError) as caught:
        await live(Quorum(3, 3, 3, 1), infos("abc"), 0b111, [*infos("abc"), *infos("a", 3)])
    assert str(caught.value).endswith("nothing can replace b1@00000000, b2@00000000")


async def test_refusal_of_placement_says_what_is_needed() -> None:
    with pytest.raises(NotEnoughBookiesError) as caught:
        await live(GEO, infos("abc"), 0b110, infos("abc"))
    assert str(caught.value) == (
        "3/3/2/R2 needs 2 live bookies in 2 regions for each entry: refused (1, 2) from 3"
    )
    assert isinstance(caught.value.__cause__, NotEnoughBookiesError)


async def test_a_replacement_in_a_used_rack_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    def at(name: str, rack: str) -> BookieInfo:
        return BookieInfo(BookieId(f"{name}@00000001"), Region("r"), rack, 1, host=name)

    ensemble = [at("a", "r1"), at("b", "r2"), at("c", "r3")]
    quorum = Quorum(3, 3, 2)
    for spare, levels in ((at("d", "r3"), None), (at("e", "r1"), ["rack"])):
        caplog.clear()
        await choose_replacements(
            Placement(), quorum, ensemble, 0b100, [[spare]], random=Random(1), ledger=7
        )
        lines = [record.__dict__ for record in caplog.records]
        if levels is None:
            assert lines == []
        else:
            (line,) = lines
            assert line["event_fields"] == {
                "ledger": 7,
                "added": ["e@00000001"],
                "levels": levels,
            }


async def test_rule_of_the_ledger_is_passed_to_every_search() -> None:
    rule: SpreadRule = {"rack": 2}
    for everyone in (infos("abc", 3), infos("abc")):
        placement = Placement(lambda *_: True)
        with pytest.raises(NotEnoughBookiesError):
            await choose_replacements(
                placement, ANY, infos("abc"), 0b001, [everyone], random=Random(1), rule=rule
            )
        assert placement.rules == [rule]
