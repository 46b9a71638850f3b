"""Limbo covers the ledgers below the bound of their store, except those that were released."""

from rhumbline.core.bookie.limbo import Limbo

REGIONAL = 3 << 48


def covered(limbo: Limbo) -> list[int]:
    return [ledger_id for ledger_id in range(8) if limbo.covers(ledger_id)]


def test_limbo_begins_for_all_ledgers_and_is_limited_to_those_below_a_bound() -> None:
    limbo = Limbo()
    assert (limbo.is_active, limbo.bounds, covered(limbo)) == (False, {}, [])
    limbo.clear(3)
    limbo.begin()
    assert limbo.is_active
    assert covered(limbo) == list(range(8)), "a release before the limbo is forgotten"
    limbo.clear(3)
    assert covered(limbo) == [0, 1, 2, 4, 5, 6, 7]
    limbo.limit(5)
    assert (limbo.bounds, covered(limbo)) == ({0: 5}, [0, 1, 2, 4])
    limbo.clear(0)
    limbo.end()
    assert (limbo.is_active, limbo.bounds, limbo.cleared, covered(limbo)) == (False, {}, {}, [])
    limbo.begin()
    limbo.limit(1)
    assert covered(limbo) == [0]


def test_each_metadata_store_has_its_own_bound() -> None:
    """Every id of a regional store is above every bound of the global one."""
    limbo = Limbo()
    limbo.begin()
    limbo.limit(5)
    assert limbo.covers(REGIONAL + 1), "its store gave no bound"
    limbo.limit(REGIONAL + 2)
    assert [limbo.covers(REGIONAL + number) for number in range(4)] == [True, True, False, False]
    assert covered(limbo) == [0, 1, 2, 3, 4]
