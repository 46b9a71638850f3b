"""The state of a bookie's copies follows from registration, cookie, limbo and orders."""

import pytest

from rhumbline.core.protocol.bookie_id import check_bookie_id
from rhumbline.regions.durability.copy_states import ClusterCopies, CopyState, Member, copy_state
from rhumbline.regions.states import PlacementState

A, B, C = (check_bookie_id(f"{name}@00000001") for name in "abc")


@pytest.mark.parametrize("order", [None, *PlacementState])
@pytest.mark.parametrize("is_given_up", [False, True])
@pytest.mark.parametrize("is_in_limbo", [False, True])
@pytest.mark.parametrize("has_cookie", [False, True])
@pytest.mark.parametrize("is_registered", [False, True])
def test_copies_are_live_only_if_registered_proved_and_not_declared_lost(
    is_registered: bool,
    has_cookie: bool,
    is_in_limbo: bool,
    is_given_up: bool,
    order: PlacementState | None,
) -> None:
    found = copy_state(
        is_registered=is_registered,
        has_cookie=has_cookie,
        is_in_limbo=is_in_limbo,
        is_given_up=is_given_up,
        order=order,
    )
    is_offline = order is PlacementState.OFFLINE
    assert found.is_live == (is_registered and not is_in_limbo and not is_offline)
    assert (found is CopyState.DECOMMISSIONED) == (not is_registered and not has_cookie)
    if found.may_return:
        assert (found is CopyState.LIMBO) == is_registered
        assert not is_offline
    if not is_registered and has_cookie:
        assert (found is CopyState.LOST) == (is_given_up or is_offline)
    assert not (found.is_live and found.may_return)
    assert (found is CopyState.DRAINING) == (found.is_live and order is PlacementState.DRAINED)


def test_a_cluster_without_some_bookies_keeps_their_places() -> None:
    place = ("rome", None, "r1", "h1")
    cluster = ClusterCopies({A: Member(CopyState.UP, place, True, True)})
    after = cluster.without([A, B])
    assert after.of(A) == Member(CopyState.LOST, place)
    assert after.of(B).state is CopyState.DECOMMISSIONED
    assert not any(after.spares.values())
    assert cluster.levels == ("bookie", "host", "rack", "region"), "zones have no labels"
    assert ClusterCopies({}).levels == ("bookie",)


def test_spares_are_the_bookies_that_are_open_to_new_ledgers() -> None:
    rome, oslo = ("rome", None, None, None), ("oslo", None, None, None)
    cluster = ClusterCopies(
        {
            A: Member(CopyState.UP, rome, True, True),
            B: Member(CopyState.UP, oslo, True, True),
            C: Member(CopyState.DRAINING, oslo, True, False),
        }
    )
    assert cluster.spares["bookie"] == {A: (A,), B: (B,)}
    assert cluster.spares["region"] == {("rome",): (A,), ("oslo",): (B,)}
    assert cluster.is_spare_in(B, ("oslo",)) and not cluster.is_spare_in(C, ("oslo",))
    assert cluster.domain_of(A, "region") == ("rome",) and cluster.domain_of(A, "bookie") == A


def test_changes_name_the_bookies_that_came_went_or_changed() -> None:
    up = Member(CopyState.UP, ("rome", None, None, None))
    down = up._replace(state=CopyState.DOWN)
    before = ClusterCopies({A: up, B: up})
    assert ClusterCopies({A: up, B: up}).changed_since(before) == frozenset()
    assert ClusterCopies({A: down, C: up}).changed_since(before) == frozenset((A, B, C))
