"""Every decision of QuorumView is compared with its definition over all subsets."""

import itertools

import pytest

from rhumbline.core.protocol.errors import IllegalQuorumError
from rhumbline.core.protocol.quorum import Quorum, QuorumView

REGIONS = ("a", "b", "c", None)


def quorums(size_max: int) -> list[Quorum]:
    return [
        Quorum(e, wq, aq, r)
        for e in range(1, size_max + 1)
        for wq in range(1, e + 1)
        for aq in range(1, wq + 1)
        for r in range(1, aq + 1)
    ]


def layouts(size: int) -> list[tuple[str | None, ...]]:
    return list(itertools.product(REGIONS, repeat=size))


def holds(quorum: Quorum, members: set[int], layout: tuple[str | None, ...], own: bool) -> bool:
    """Evaluate P by its definition; ``own``: each unknown region counts as its own region."""
    if quorum.min_regions <= 1:
        return len(members) >= quorum.ack_quorum
    regions = {layout[i] for i in members if layout[i] is not None}
    unknown = sum(1 for i in members if layout[i] is None) if own else 0
    enough = len(regions) + unknown >= quorum.min_regions
    return len(members) >= quorum.ack_quorum and enough


def subsets(members: set[int]) -> list[set[int]]:
    ordered = sorted(members)
    return [
        set(chosen)
        for size in range(len(ordered) + 1)
        for chosen in itertools.combinations(ordered, size)
    ]


def mask(members: set[int]) -> int:
    return sum(1 << index for index in members)


@pytest.mark.parametrize("quorum", quorums(4), ids=str)
def test_decisions_equal_their_definition(quorum: Quorum) -> None:
    everyone = set(range(quorum.ensemble_size))
    write_sets = [set(quorum.write_set(entry)) for entry in range(quorum.ensemble_size)]
    for layout in layouts(quorum.ensemble_size):
        view = QuorumView(quorum, layout)
        assert view.is_legal() == all(holds(quorum, w, layout, False) for w in write_sets)
        for chosen in subsets(everyone):
            assert view.is_acked(mask(chosen)) == holds(quorum, chosen, layout, False)
            assert view.could_ack(mask(chosen)) == holds(quorum, chosen, layout, True)
            assert view.is_fencing_complete(mask(chosen)) == (
                not any(holds(quorum, w - chosen, layout, True) for w in write_sets)
            )
            assert view.must_change_ensemble(mask(chosen)) == any(
                not holds(quorum, w - chosen, layout, False) for w in write_sets
            )
            for entry in range(quorum.ensemble_size):
                assert view.is_absent(entry, mask(chosen)) == (
                    not holds(quorum, set(quorum.write_set(entry)) - chosen, layout, True)
                )


@pytest.mark.parametrize("quorum", quorums(4), ids=str)
def test_every_acknowledging_set_intersects_every_set_that_proves_absence(quorum: Quorum) -> None:
    """The safety argument: an entry that is declared absent was never acknowledged."""
    for layout in layouts(quorum.ensemble_size):
        view = QuorumView(quorum, layout)
        for entry in range(quorum.ensemble_size):
            members = set(quorum.write_set(entry))
            for acked in subsets(members):
                if view.is_acked(mask(acked)):
                    assert not view.is_absent(entry, mask(members - acked))
                    assert not view.is_fencing_complete(mask(set(range(len(layout))) - acked))


def test_three_copies_two_acks_two_regions_survive_any_region() -> None:
    view = QuorumView(Quorum(3, 3, 2, 2), ("a", "b", "c"))
    assert view.is_legal()
    assert view.is_robust()
    assert not view.is_fragile()
    assert view.is_acked(0b011)
    assert not view.is_acked(0b001)


def test_two_copies_in_one_region_make_the_third_copy_indispensable() -> None:
    view = QuorumView(Quorum(3, 3, 2, 2), ("a", "a", "b"))
    assert view.is_legal()
    assert view.is_fragile()
    assert not view.is_robust()
    assert not view.is_acked(0b011), "two copies in one region are no acknowledgement"
    assert view.regions_of(0b110) == ["a", "b"]


def test_an_unknown_region_never_helps_an_acknowledgement_or_a_proof_of_absence() -> None:
    view = QuorumView(Quorum(3, 3, 2, 2), ("a", "a", None))
    assert not view.is_legal()
    assert view.could_ack(0b101)
    assert not view.is_absent(0, 0b010)


@pytest.mark.parametrize(
    "numbers", [(2, 3, 2, 1), (3, 3, 4, 1), (3, 3, 2, 3), (3, 3, 0, 1), (3, 3, 2, 0), (65, 3, 2, 1)]
)
def test_an_impossible_quorum_says_which_number_is_wrong(
    numbers: tuple[int, int, int, int],
) -> None:
    with pytest.raises(IllegalQuorumError, match=r"(E|WQ|AQ|R)="):
        Quorum(*numbers)


@pytest.mark.parametrize("numbers", [(1, 1, 1, 1), (64, 64, 64, 64), (64, 1, 1, 1), (5, 3, 3, 3)])
def test_the_largest_and_the_smallest_numbers_are_legal(
    numbers: tuple[int, int, int, int],
) -> None:
    quorum = Quorum(*numbers)
    assert len(quorum.write_set(7)) == quorum.write_quorum


def test_one_region_is_the_default() -> None:
    assert Quorum(3, 3, 2) == Quorum(3, 3, 2, 1)
    assert str(Quorum(5, 4, 3, 2)) == "5/4/3/R2"


def test_each_wrong_number_is_named_with_its_bound() -> None:
    with pytest.raises(IllegalQuorumError) as raised:
        Quorum(65, 66, 67, 68)
    assert str(raised.value) == (
        "E=65 is above 64; WQ=66 is above E=65; AQ=67 is above WQ=66; "
        "R=68 is above AQ=67: 67 copies cannot lie in 68 regions"
    )


@pytest.mark.parametrize("quorum", quorums(3), ids=str)
def test_views_of_regions_equal_their_definition(quorum: Quorum) -> None:
    everyone = set(range(quorum.ensemble_size))
    write_sets = [set(quorum.write_set(entry)) for entry in range(quorum.ensemble_size)]
    for layout in layouts(quorum.ensemble_size):
        view = QuorumView(quorum, layout)
        names = [name for name in dict.fromkeys(layout) if name is not None]
        assert view.known_regions() == names
        lost = {name: {i for i in everyone if layout[i] == name} for name in ("a", "b", "c")}
        for name, members in lost.items():
            assert view.mask_of_regions({name}) == mask(members)
            survives = all(holds(quorum, w - members, layout, False) for w in write_sets)
            assert view.survives_loss_of({name}) == survives
        assert view.is_robust() == all(view.survives_loss_of({name}) for name in names)
        assert view.is_fragile() == any(
            not holds(quorum, w - {index}, layout, False) for w in write_sets for index in w
        )
        for chosen in subsets(everyone):
            regions = [layout[i] for i in sorted(chosen) if layout[i] is not None]
            assert view.regions_of(mask(chosen)) == list(dict.fromkeys(regions))
            for entry in range(quorum.ensemble_size + 1):
                undecided = set(quorum.write_set(entry)) & chosen
                assert view.is_absence_possible(entry, mask(chosen)) == (
                    not holds(quorum, undecided, layout, True)
                )
                assert view.write_mask(entry) == mask(set(quorum.write_set(entry)))


def test_the_write_set_starts_at_the_entrys_index_and_rises() -> None:
    quorum = Quorum(5, 3, 2)
    assert [quorum.write_set(entry) for entry in (0, 1, 3, 4, 8)] == [
        (0, 1, 2), (1, 2, 3), (3, 4, 0), (4, 0, 1), (3, 4, 0),
    ]  # fmt: skip
    assert [quorum.write_mask(entry) for entry in (0, 3)] == [0b00111, 0b11001]


@pytest.mark.parametrize("quorum", [Quorum(3, 3, 2), Quorum(4, 3, 2), Quorum(5, 2, 2)], ids=str)
def test_the_runs_of_a_member_are_the_entries_whose_write_sets_have_it(quorum: Quorum) -> None:
    for first, last in itertools.product(range(7), range(-1, 14)):
        for index in range(quorum.ensemble_size):
            runs = list(quorum.entries_of(index, first, last))
            found = [entry_id for begin, end in runs for entry_id in range(begin, end + 1)]
            assert found == [e for e in range(first, last + 1) if index in quorum.write_set(e)]
