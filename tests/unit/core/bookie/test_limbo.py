"""Limbo covers the ledgers below its bound, except those that were released."""

from rhumbline.core.bookie.limbo import Limbo


def covered(limbo: Limbo) -> list[int]:
    return [ledger_id for ledger_id in range(8) if limbo.covers(ledger_id)]


def test_limbo_begins_for_all_ledgers_or_for_those_below_a_bound() -> None:
    limbo = Limbo()
    assert (limbo.is_active, limbo.below, covered(limbo)) == (False, None, [])
    limbo.clear(3)
    limbo.begin(None)
    assert limbo.is_active
    assert covered(limbo) == list(range(8)), "a release before the limbo is forgotten"
    limbo.clear(3)
    assert covered(limbo) == [0, 1, 2, 4, 5, 6, 7]
    limbo.begin(5)
    assert (limbo.below, covered(limbo)) == (5, [0, 1, 2, 3, 4])
    limbo.clear(0)
    limbo.begin(0)
    assert (limbo.is_active, limbo.cleared, covered(limbo)) == (False, {}, [])
    limbo.begin(1)
    assert covered(limbo) == [0]
