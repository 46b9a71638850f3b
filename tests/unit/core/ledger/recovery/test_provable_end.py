"""Recoveries that an operator ends without proof, and takeovers under another R."""

import asyncio
from dataclasses import replace

import pytest

from rhumbline.core.protocol.errors import NotEnoughBookiesError, RecoveryIncompleteError
from rhumbline.core.protocol.ledger_metadata import LedgerState
from rhumbline.core.protocol.quorum import Quorum
from rhumbline.core.protocol.recovery import ProvableEnd, provable_end_of
from rhumbline.tests.unit.core.ledger.recovery.test_ledger_recovery_known_bugs import (
    GEO,
    SHORT,
    members,
    written,
    written_on,
)
from rhumbline.tests.unit.core.ledger.world import World, run_in_world

pytestmark = pytest.mark.run_by(runner=run_in_world)

FOUR = Quorum(4, 4, 3, 2)


class Operator:
    """Confirms what is found, or not, and remembers it."""

    def __init__(self, *, agrees: bool = True) -> None:
        self.found: list[ProvableEnd] = []
        self._agrees = agrees

    async def __call__(self, found: ProvableEnd) -> ProvableEnd:
        self.found.append(found)
        if not self._agrees:
            raise RecoveryIncompleteError("the operator does not agree")
        return replace(found, closed_ms=1, reason="region lost")


async def test_operator_closes_at_the_provable_end_and_lost_bookies_change_nothing_later() -> None:
    world = World("abcd")
    world.not_writable.append(world.bookies[3])
    async with world.client() as client, world.client("b", SHORT) as other:
        writer = await written(client, 3, GEO)
        first, two, kept = members(world, writer.metadata)
        kept.go_down()
        await written_on(writer, 2)  # acknowledged by the two that are lost next
        kept.come_up()
        first.go_down()
        two.go_down()
        with pytest.raises(RecoveryIncompleteError):
            await other.recover(writer.ledger_id)
        world.not_writable.clear()
        unwilling = Operator(agrees=False)
        with pytest.raises(RecoveryIncompleteError):
            await other.recover(writer.ledger_id, min_regions=1, confirm=unwilling)
        assert world.ledgers.now(writer.ledger_id).state is LedgerState.IN_RECOVERY
        operator = Operator()
        closed = await other.recover(writer.ledger_id, min_regions=1, confirm=operator)
        (found,) = operator.found
        assert not found.is_writer_fenced
        assert {name.split()[0] for name in found.silent} == {first.bookie, two.bookie}
        assert closed.last_entry_id == found.last_entry_id == 2
        assert found.doubtful_from == 3
        audit = provable_end_of(closed.custom)
        assert audit is not None
        assert audit.reason == "region lost"
        assert "entry 3 and later ones may have been acknowledged" in audit.describe()
        # The bookies return with entries 3 and 4: the end stays, and nobody serves them.
        first.come_up()
        two.come_up()
        assert await other.recover(writer.ledger_id) == closed
        reader = await other.open(writer.ledger_id)
        assert await reader.update_last_add_confirmed(fresh=True) == 2
        await reader.aclose()


async def test_end_that_can_be_proven_needs_no_operator() -> None:
    world = World("abc")
    async with world.client() as client, world.client("b") as other:
        writer = await written(client, 3, GEO)
        operator = Operator()
        closed = await other.recover(writer.ledger_id, confirm=operator)
        assert closed.last_entry_id == 2
        assert not operator.found
        assert provable_end_of(closed.custom) is None


async def test_entries_that_are_certainly_lost_are_counted() -> None:
    """The last fragment is empty, and all bookies of the one before it are lost."""
    world = World("abcabc")
    async with world.client() as client, world.client("b", SHORT) as other:
        writer = await written(client, 3, GEO)
        old = members(world, writer.metadata)
        fresh = tuple(b.bookie for b in world.bookies if b not in old)
        world.ledgers.set(writer.metadata.with_fragment(3, fresh))
        for bookie in old:
            bookie.go_down()
        operator = Operator()
        closed = await other.recover(writer.ledger_id, confirm=operator)
        (found,) = operator.found
        assert (found.confirmed, found.last_entry_id, found.lost_count) == (2, -1, 3)
        assert found.is_writer_fenced
        assert closed.last_entry_id == -1
        assert "3 entries were certainly acknowledged and are lost" in found.describe()


async def test_takeover_needs_only_the_bookies_that_acknowledge() -> None:
    """Two regions with three bookies each, 4/4/3/R2: with R = 1 the three that are left suffice."""
    world = World("aaabbb")
    async with world.client() as client, world.client("a", SHORT) as other:
        writer = await written(client, 3, FOUR)
        await written_on(writer, 1)
        for bookie in world.bookies:
            if str(bookie.region) == "b":
                bookie.go_down()
        with pytest.raises(NotEnoughBookiesError, match="3 live bookies in 2 regions"):
            await other.recover(writer.ledger_id)
        closed = await other.recover(writer.ledger_id, min_regions=1)
        assert closed.last_entry_id == 3
        regions = [str(b.region) for b in members(world, closed)]
        assert sorted(regions) == ["a", "a", "a", "b"], "repair fills the one that is left"
        assert {e.quorums[0].min_regions for e in world.evidence} == {2}


async def test_takeover_under_a_raised_r_spreads_the_tail_and_judges_by_the_old_r() -> None:
    world = World("aab")
    one = Quorum(3, 3, 2, 1)
    async with world.client() as client, world.client("b") as other:
        writer = await written(client, 3, one)
        in_b = next(b for b in members(world, writer.metadata) if str(b.region) == "b")
        in_b.go_down()
        await written_on(writer, 1)  # acknowledged by two bookies of region a
        in_b.come_up()
        closed = await other.recover(writer.ledger_id, min_regions=2)
        assert closed.last_entry_id == 3
        assert closed.quorum_at(3).min_regions == 2
        assert {e.quorums[0].min_regions for e in world.evidence} == {1}
        assert 3 in in_b.ids(writer.ledger_id)


async def test_raised_r_that_cannot_be_satisfied_stops_no_writer() -> None:
    """The writer continues under the stored R, and still replaces bookies that fail."""
    world = World("aaaa")
    async with world.client() as client:
        writer = await written(client, 2, Quorum(3, 3, 2, 1))
        writer.set_min_regions(2)
        await asyncio.sleep(30)
        assert writer.failure is None
        await written_on(writer, 1)
        down = members(world, writer.metadata)[:2]
        for bookie in down[:1]:
            bookie.go_down()
        writer.set_min_regions(2)
        await written_on(writer, 2)
        assert writer.failure is None
        assert writer.metadata.r_ranges() == ((0, 1),)
