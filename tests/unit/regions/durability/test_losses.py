"""A loss is named by level and label, and a label that is not unique is refused."""

import pytest

from rhumbline.core.protocol.bookie_id import check_bookie_id
from rhumbline.core.protocol.errors import InvalidArgumentError
from rhumbline.regions.durability.copy_states import ClusterCopies, CopyState, Member
from rhumbline.regions.durability.losses import lost_bookies

PLACES = {
    "b1": ("rome", None, "r1", "h1"),
    "b2": ("rome", None, "r1", "h2"),
    "b3": ("rome", "z9", "r2", "h3"),
    "b4": ("oslo", None, "r1", "h1"),
    "b5": (None, None, None, None),
}
CLUSTER = ClusterCopies(
    {
        check_bookie_id(f"{name}@00000001"): Member(CopyState.UP, path)
        for name, path in PLACES.items()
    }
)


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("rome", {"b1", "b2", "b3"}),
        ("region:oslo", {"b4"}),
        ("zone:z9", {"b3"}),
        ("rack:r2", {"b3"}),
        ("rack:rome/r1", {"b1", "b2"}),
        ("host:h2", {"b2"}),
        ("host:oslo/r1/h1", {"b4"}),
        ("bookie:b5", {"b5"}),
        ("bookie:b5@00000001", {"b5"}),
    ],
)
def test_a_loss_takes_every_bookie_of_its_place(text: str, names: set[str]) -> None:
    assert {bookie.partition("@")[0] for bookie in lost_bookies(CLUSTER, text)} == names


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("atlantis", "no bookie is in region atlantis; the regions are: oslo, rome"),
        ("rack:r1", "several places are called rack r1: name one of oslo/r1, rome/r1"),
        ("host:h9", "unknown host h9; known: oslo/r1/h1, rome/r1/h1, rome/r1/h2, rome/z9/r2/h3"),
        ("bookie:b", "unknown bookie b; known: b1@00000001, b2@00000001"),
        ("shelf:s1", "no bookie is in region shelf:s1"),
    ],
)
def test_an_unknown_or_ambiguous_place_is_refused(text: str, message: str) -> None:
    with pytest.raises(InvalidArgumentError) as error:
        lost_bookies(CLUSTER, text)
    assert str(error.value).startswith(message)
