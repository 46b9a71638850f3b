"""The tree of a document survives its encoding, and knows which changes it remembers."""

import pytest

from rhumbline.backends.document_tree import CHANGES_MAX, DocumentTree, decode_tree
from rhumbline.backends.leases import Lease, Owner
from rhumbline.backends.migration_fence import FENCE_PATH, FenceState
from rhumbline.backends.transaction_plan import TransactionPlan
from rhumbline.core.protocol.errors import CorruptionError
from rhumbline.core.runtime.metadata_store import Create, Delete, Put


def new_tree() -> DocumentTree:
    return DocumentTree(FenceState("e", tree="t"))


def test_a_tree_is_read_as_it_was_written() -> None:
    tree = new_tree()
    tree.apply([Create("/a/b", bytes(range(256))), Create("/Ωμέγα")])
    tree.leases[Owner("me")] = Lease(300, 4)
    plan = TransactionPlan(tree)
    plan.create("/a/claim-", b"", "me", sequential=True)
    tree.commit(plan)
    found = decode_tree(tree.encode(), "here")
    assert {path: found.node(path) for path in found.paths()} == {
        path: tree.node(path) for path in tree.paths()
    }
    assert (found.leases, found.fence, found.revision) == (tree.leases, tree.fence, 2)
    assert found.names_after("/a", None, None) == ["b", "claim-0000000000"]
    assert found.names_after("/a", "b", 1) == ["claim-0000000000"]
    found.end_lease(Owner("me"))
    assert found.names_after("/a", None, None) == ["b"]


def test_the_changed_paths_are_those_after_a_revision() -> None:
    tree = new_tree()
    assert tree.changed_since(0) == []
    tree.apply([Create("/a/b")])
    tree.apply([Put("/a", b"x")])
    tree.apply([Delete("/a/b")])
    tree.set_fence(FenceState("e", tree="t", successor="memory:x"))
    assert tree.changed_since(0) == ["/a", "/a/b", "/a", "/a/b", FENCE_PATH]
    assert tree.changed_since(2) == ["/a/b", FENCE_PATH]
    assert tree.changed_since(4) == []
    assert tree.changed_since(5) is None, "the document is older than what was seen"


def test_changes_that_are_no_longer_remembered_are_unknown() -> None:
    tree = new_tree()
    tree.apply([Create("/a")])
    for _ in range(CHANGES_MAX):
        tree.apply([Put("/a", b"")])
    found = decode_tree(tree.encode(), "here")
    assert found.changed_since(0) is None
    assert found.changed_since(1) == ["/a"] * CHANGES_MAX
    found.apply([Put("/a", b"")])
    assert decode_tree(found.encode(), "here").changed_since(1) is None


@pytest.mark.parametrize("data", [b"", b"{", b"[]", b"{}", b'{"fence": "{}"}', b"\xff"])
def test_other_content_is_refused(data: bytes) -> None:
    with pytest.raises(CorruptionError, match="here"):
        decode_tree(data, "here")
