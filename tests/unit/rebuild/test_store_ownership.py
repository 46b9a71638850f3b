"""Ledgers and namespaces belong to the store that has them now, not to the one that issued ids."""

from itertools import count

import pytest

from rhumbline.backends.memory import MemoryStore
from rhumbline.core.log.metadata.namespace_record import NamespaceRecord, NamespaceReservation
from rhumbline.core.log.metadata.paths import namespace_path
from rhumbline.core.log.policy import StreamPolicy
from rhumbline.core.metadata.cluster_layout import Paths
from rhumbline.core.metadata.ledger_ids import id_range_of
from rhumbline.core.metadata.ledger_places import decode_place, encode_place
from rhumbline.core.metadata.regional_store_records import (
    RegionalStoreRecord,
    decode_issued,
    encode_issued,
)
from rhumbline.core.protocol.bookie_id import check_region
from rhumbline.core.protocol.errors import InvalidArgumentError
from rhumbline.core.protocol.quorum import Quorum
from rhumbline.core.wire.ledger_metadata import decode
from rhumbline.rebuild.backup import Backup, ledger_ids_in
from rhumbline.rebuild.fill_store import fill_store
from rhumbline.rebuild.inventory import HeldLedger
from rhumbline.rebuild.rebuilt_tree import ID_MARGIN, RebuiltTree, rebuild_tree, streams_in
from rhumbline.tests.unit.rebuild.test_rebuilt_tree import ALL, held, inventory, metadata

EU = check_region("eu")
OWN = RegionalStoreRecord(EU, "token", 1)
FIRST = id_range_of(1).start
PATHS = Paths()
POLICY = StreamPolicy(Quorum(3, 3, 2, 1))


def backup(nodes: dict[str, bytes]) -> Backup:
    return Backup("memory:", "i", 0, 1, {PATHS.instance_id: b"i", **nodes}, {})


def global_store(*reserved: str, **nodes: bytes) -> Backup:
    """Return the global store of a cluster whose region eu has a store with some namespaces."""
    names = {namespace_path(name): NamespaceReservation("t", 1, EU).encode() for name in reserved}
    return backup({PATHS.regional_stores: encode_issued({EU: OWN}), **names, **nodes})


def rebuilt(*ledgers: HeldLedger, others: list[Backup], regional: bool = True) -> RebuiltTree:
    return rebuild_tree(
        [inventory(bookie, *ledgers) for bookie in ALL], None, others=others,
        region=EU if regional else None, lost=(), now_ms=1_000, new_token=lambda: "f" * 32,
    )  # fmt: skip


def restored(base: Backup, *ledgers: HeldLedger, others: list[Backup]) -> RebuiltTree:
    return rebuild_tree(
        [inventory(bookie, *ledgers) for bookie in ALL], base, others=others,
        lost=(), now_ms=1_000, new_token=lambda: "f" * 32,
    )  # fmt: skip


def test_a_regional_store_is_rebuilt_with_what_the_global_one_knows() -> None:
    tree = rebuilt(
        held(metadata(FIRST + 1, 1), 4), held(metadata(FIRST + 3, 3), 1), held(metadata(8, 1), 0),
        others=[global_store("n")],
    )  # fmt: skip
    assert RegionalStoreRecord.decode(tree.nodes[PATHS.own_store]) == OWN
    assert NamespaceRecord.decode("n", tree.nodes[namespace_path("n")]).policy.quorum == Quorum(
        3, 3, 2, 1
    )
    segments = streams_in(tree.nodes)["n", "s"].segments
    assert [one.record_count for one in segments.values()] == [10, 0, 4]
    ledgers = ledger_ids_in(tree.nodes)
    assert set(ledgers) == {FIRST + 1, FIRST + 3, FIRST + 4}, "the gap has an id of this store"
    assert decode(FIRST + 1, tree.nodes[ledgers[FIRST + 1]]).last_entry_id == 4
    assert tree.unknown_ledgers == [], "ledger 8 is the global store's"
    assert list(tree.sequences.values()) == [5 + ID_MARGIN]
    assert [one.kind for one in tree.findings] == ["gap"]


def test_moved_ledgers_are_where_their_place_says() -> None:
    """A restore dropped the ledgers of a namespace that had been moved to the regional store."""
    here, away = metadata(5, 1), metadata(FIRST + 7, 1)
    base = rebuilt(held(here, 4), others=[global_store("n", **{PATHS.place(5): encode_place(1)})])
    assert decode_place(5, base.nodes[PATHS.place(5)]) == 1
    base.nodes[PATHS.place(FIRST + 7)] = encode_place(0)
    tree = restored(backup(base.nodes), held(here, 4), held(away, 3), others=[])
    assert set(ledger_ids_in(tree.nodes)) == {5}
    assert streams_in(tree.nodes)["n", "s"].segments[1].record_count == 10
    assert [(one.kind, one.subject) for one in tree.findings] == [("unchecked-store", "global")]


async def test_a_store_can_be_filled_with_moved_ledgers() -> None:
    """It failed: the copy differs from the source at /ledgers/idgen."""
    tree = rebuilt(
        held(metadata(5, 1), 4), others=[global_store("n", **{PATHS.place(5): encode_place(1)})]
    )
    store, tokens = MemoryStore(), count()
    filled = await fill_store(
        store, tree.nodes, tree.sequences, may_replace=False,
        new_token=lambda: f"{next(tokens):032x}",
    )  # fmt: skip
    assert filled > len(tree.nodes) and not (await store.fence_state()).is_partial


def test_the_global_store_is_rebuilt_around_regional_ones() -> None:
    own, moved = metadata(FIRST + 1, 1), metadata(5, 1)
    regional = rebuilt(
        held(moved, 4), others=[global_store("n", **{PATHS.place(5): encode_place(1)})]
    )
    tree = rebuilt(
        held(own, 4), held(moved, 4), held(metadata(9, 1), 0),
        others=[backup(regional.nodes)], regional=False,
    )  # fmt: skip
    assert decode_issued(tree.nodes[PATHS.regional_stores]) == {EU: OWN}
    reservation = NamespaceReservation.decode("n", tree.nodes[namespace_path("n")])
    assert reservation is not None and reservation.region == EU
    assert decode_place(5, tree.nodes[PATHS.place(5)]) == 1
    assert (ledger_ids_in(tree.nodes), streams_in(tree.nodes)) == ({}, {})
    assert [(one.kind, one.subject) for one in tree.findings] == [("other-store", "n/s")]
    assert tree.unknown_ledgers == [9], "its entries stay because of the hold"


def with_stores(tree: RebuiltTree) -> Backup:
    """Return the backup of a global store that knows the store of region eu."""
    return backup({**tree.nodes, PATHS.regional_stores: encode_issued({EU: OWN})})


def test_a_namespace_that_has_left_since_the_backup_is_not_restored() -> None:
    """It was in both stores, and both let a writer own its streams."""
    moved = metadata(5, 1)
    subscription = f"{namespace_path('n')}/streams/s/subscriptions/one"
    before = rebuilt(held(moved, 4), others=[], regional=False)
    before.nodes[subscription] = b"position"
    base = with_stores(before)
    assert streams_in(base.nodes)
    regional = rebuilt(
        held(moved, 4), others=[global_store("n", **{PATHS.place(5): encode_place(1)})]
    )
    alone = restored(base, held(moved, 4), others=[])
    assert [(one.kind, one.subject) for one in alone.findings] == [("unchecked-store", "eu")]
    tree = restored(base, held(moved, 4), others=[backup(regional.nodes)])
    reservation = NamespaceReservation.decode("n", tree.nodes[namespace_path("n")])
    assert reservation is not None and reservation.region == EU
    assert (ledger_ids_in(tree.nodes), streams_in(tree.nodes), tree.findings) == ({}, {}, [])
    assert subscription not in tree.nodes
    assert decode_place(5, tree.nodes[PATHS.place(5)]) == 1


def test_a_namespace_that_has_come_back_since_the_backup_is_restored() -> None:
    """Its ledgers were left out, since the backup said that they are in the regional store."""
    back = metadata(5, 1)
    base = global_store("n", **{PATHS.place(5): encode_place(1)})
    empty = backup({PATHS.own_store: OWN.encode()})
    tree = restored(base, held(back, 4), others=[empty])
    assert streams_in(tree.nodes)["n", "s"].segments[1].record_count == 10
    assert NamespaceRecord.decode("n", tree.nodes[namespace_path("n")]).policy.quorum == Quorum(
        3, 3, 2, 1
    )
    assert set(ledger_ids_in(tree.nodes)) == {5}
    assert decode_place(5, tree.nodes[PATHS.place(5)]) == 0
    assert tree.findings == []


def test_a_regional_store_does_not_get_back_what_is_in_the_global_one() -> None:
    moved = metadata(FIRST + 1, 1)
    base = rebuilt(held(moved, 4), others=[global_store("n")])
    assert streams_in(base.nodes)
    record = NamespaceRecord("t", 1, POLICY).encode()
    place = {PATHS.place(FIRST + 1): encode_place(0)}
    ledger = {path: base.nodes[path] for path in ledger_ids_in(base.nodes).values()}
    now = global_store(**{namespace_path("n"): record, **place, **ledger})
    tree = restored(backup(base.nodes), held(moved, 4), others=[now])
    assert (ledger_ids_in(tree.nodes), streams_in(tree.nodes)) == ({}, {})
    assert namespace_path("n") not in tree.nodes
    alone = restored(backup(base.nodes), held(moved, 4), others=[])
    assert [(one.kind, one.subject) for one in alone.findings] == [("unchecked-store", "global")]
    assert streams_in(alone.nodes)


def test_what_cannot_be_rebuilt_is_reported() -> None:
    record = NamespaceRecord("t", 1, POLICY)
    store = global_store("empty", **{namespace_path("n"): record.encode()})
    tree = rebuilt(held(metadata(FIRST + 1, 1), 4), others=[store])
    assert [(one.kind, one.subject) for one in tree.findings] == [
        ("other-store", "n/s"),
        ("empty-namespace", "empty"),
    ]
    assert tree.unknown_ledgers == [FIRST + 1]


def test_a_regional_store_needs_the_global_one_which_knows_it() -> None:
    for others, words in (([], "name the global store"), ([backup({})], "only of: none")):
        with pytest.raises(InvalidArgumentError, match=words):
            rebuilt(held(metadata(FIRST + 1, 1), 4), others=others)
