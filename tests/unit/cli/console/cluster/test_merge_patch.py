"""A merge patch (RFC 7386) makes the new document of the old one, and holds only what changed."""

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from rhumbline.cli.console.cluster.merge_patch import merge_patch, patched, without_nulls

DOCUMENTS = st.recursive(
    st.integers(0, 3)
    | st.booleans()
    | st.text(max_size=2)
    | st.lists(st.integers(0, 2), max_size=2),
    lambda inner: st.dictionaries(st.sampled_from("abcd"), inner, max_size=4),
    max_leaves=12,
)
OBJECTS = st.dictionaries(st.sampled_from("abcd"), DOCUMENTS, max_size=4)


@settings(max_examples=40)
@given(OBJECTS, OBJECTS)
def test_a_patch_makes_the_new_document(old: dict[str, Any], new: dict[str, Any]) -> None:
    patch = merge_patch(old, new)
    assert patched(old, patch) == new
    assert (patch == {}) == (old == new)


def test_a_patch_holds_only_what_changed() -> None:
    old = {"regions": {"bonn": {"down": 0, "free": 9}, "oslo": {"down": 0}}, "alerts": {"x": {}}}
    new = {"regions": {"bonn": {"down": 1, "free": 9}, "oslo": {"down": 0}}, "alerts": {}}
    assert merge_patch(old, new) == {"regions": {"bonn": {"down": 1}}, "alerts": {"x": None}}


def test_members_that_are_null_are_left_out() -> None:
    assert without_nulls({"a": None, "b": {"c": None, "d": 0}}) == {"b": {"d": 0}}
