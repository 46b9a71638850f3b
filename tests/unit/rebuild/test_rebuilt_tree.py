"""Streams follow from ledgers; what a backup names stays published; missing inventories are
refused."""

from collections.abc import Mapping

import pytest

from rhumbline.core.metadata.cluster_layout import Paths
from rhumbline.core.protocol.bookie_id import BookieId, check_region
from rhumbline.core.protocol.errors import InvalidArgumentError, WrongClusterError
from rhumbline.core.protocol.ledger_metadata import Fragment, LedgerMetadata
from rhumbline.core.protocol.segments import Residence, encode_segment
from rhumbline.core.wire.ledger_metadata import encode
from rhumbline.rebuild.backup import Backup
from rhumbline.rebuild.found_streams import StreamState
from rhumbline.rebuild.inventory import BookieInventory, EndFacts, HeldLedger, HeldRange
from rhumbline.rebuild.rebuilt_tree import ID_MARGIN, RebuiltTree, rebuild_tree, streams_in

A, B, C = (BookieId(f"{name}@0000000{n}") for n, name in enumerate("abc"))
ALL = (A, B, C)


def metadata(
    ledger_id: int, lssn: int, *, epoch: int = 1, stream_id: str = "0123456789ab"
) -> LedgerMetadata:
    custom = {
        "rhumbline.namespace": b"n",
        "rhumbline.stream": b"s",
        "rhumbline.lssn": b"%d" % lssn,
        "rhumbline.stream-id": stream_id.encode(),
        "rhumbline.epoch": b"%d" % epoch,
    }
    return LedgerMetadata(
        ledger_id, 3, 3, 2, (Fragment(0, ALL),), custom=custom, created_ms=100, creation_token=1
    )


def held(ledger: LedgerMetadata, last: int) -> HeldLedger:
    """Return a ledger with two records in each entry."""
    tail = tuple(
        EndFacts(id_, 10 * id_, has_records=True, record_count=2 * id_ + 2, last_txid=id_ + 1)
        for id_ in range(last + 1)
    )
    ranges = (HeldRange(0, last),) if last >= 0 else ()
    return HeldLedger(ledger.ledger_id, ranges, -1, metadata=encode(ledger), tail=tail)


def inventory(bookie: BookieId, *ledgers: HeldLedger) -> BookieInventory:
    highest = max([-1, *(ledger.ledger_id for ledger in ledgers)])
    return BookieInventory(
        bookie, "i", check_region("eu"), check_region("r"), 1, "ab", 5, highest, ledgers=ledgers
    )


def rebuilt(*ledgers: HeldLedger, backup: Backup | None = None) -> RebuiltTree:
    return rebuild_tree(
        [inventory(bookie, *ledgers) for bookie in ALL],
        backup,
        lost=(),
        now_ms=1_000,
        new_token=lambda: "f" * 32,
    )


def stream(nodes: Mapping[str, bytes]) -> StreamState:
    return streams_in(nodes)["n", "s"]


def backup_of(tree: RebuiltTree) -> Backup:
    return Backup("sqlite:", "i", 0, 1, tree.nodes, tree.sequences)


def test_segments_are_completed_with_their_last_entries() -> None:
    tree = rebuilt(held(metadata(1, 1), 4), held(metadata(2, 2, epoch=2), 1))
    state = stream(tree.nodes)
    assert [one.record_count for one in state.segments.values()] == [10, 4]
    assert state.segments[2].start_sequence_id == 10
    assert (state.head.last_lssn, state.head.epoch, state.head.stream_id) == (2, 3, "0123456789ab")
    assert (tree.records, tree.streams, len(tree.decided_ledgers), tree.findings) == (14, 1, 2, [])
    assert tree.sequences[Paths().ids] == 2 + 1 + ID_MARGIN


def test_the_ledger_with_entries_is_that_of_the_segment() -> None:
    tree = rebuilt(
        held(metadata(1, 1), 4), held(metadata(2, 2, epoch=2), -1), held(metadata(3, 2, epoch=1), 0)
    )
    assert stream(tree.nodes).segments[2].ledger_id == 3


def test_a_number_without_a_trace_is_an_empty_segment() -> None:
    tree = rebuilt(held(metadata(1, 1), 4), held(metadata(3, 3), 1))
    segments = stream(tree.nodes).segments
    assert [one.is_empty for one in segments.values()] == [False, True, False]
    assert segments[3].start_sequence_id == 10
    assert [one.kind for one in tree.findings] == ["gap"]


def test_a_backup_keeps_the_numbers_of_purged_segments() -> None:
    old = rebuilt(held(metadata(1, 1), 4), held(metadata(2, 2), 1))
    tree = rebuilt(held(metadata(2, 2), 1), held(metadata(3, 3), 0), backup=backup_of(old))
    state = stream(tree.nodes)
    assert list(state.segments) == [2, 3]
    assert (state.segments[2].start_sequence_id, state.segments[3].start_sequence_id) == (10, 14)
    assert (state.record.first_lssn, state.record.start.lssn) == (2, 2)
    assert Paths().ledger(1) not in tree.nodes


def test_a_stream_that_was_deleted_after_the_backup_is_not_restored() -> None:
    old = rebuilt(held(metadata(1, 1), 4))
    tree = rebuilt(backup=backup_of(old))
    assert streams_in(tree.nodes) == {}
    assert [one.kind for one in tree.findings] == ["deleted"]


def test_only_the_newest_stream_of_a_name_is_rebuilt() -> None:
    tree = rebuilt(held(metadata(1, 1, stream_id="aaaaaaaaaaaa"), 4), held(metadata(2, 1), 1))
    assert stream(tree.nodes).segments[1].ledger_id == 2
    assert tree.unknown_ledgers == [1]
    assert Paths().ledger(1) not in tree.nodes, "its entries stay because of the hold"


def test_ledgers_without_metadata_are_listed() -> None:
    tree = rebuilt(HeldLedger(7, (HeldRange(0, 3),)), HeldLedger(8))
    assert tree.unknown_ledgers == [7]
    assert tree.sequences[Paths().ids] == 8 + 1 + ID_MARGIN


def test_every_bookie_has_one_inventory_or_is_lost() -> None:
    ledger = held(metadata(1, 1), 4)

    def of(*bookies: BookieId, lost: tuple[BookieId, ...] = ()) -> RebuiltTree:
        inventories = [inventory(bookie, ledger) for bookie in bookies]
        return rebuild_tree(inventories, None, lost=lost, now_ms=1, new_token=lambda: "f" * 32)

    for bookies, lost, words in (
        ((A, B), (), "no inventory of c@"),
        ((A, B, B, C), (), "two inventories"),
        ((A, B, C), (C,), "is lost, but"),
        ((), (), "no inventory was given"),
    ):
        with pytest.raises(InvalidArgumentError, match=words):
            of(*bookies, lost=lost)
    assert of(A, B, lost=(C,)).records == 10
    with pytest.raises(WrongClusterError):
        rebuilt(ledger, backup=Backup("sqlite:", "other", 0, 1, {}, {}))


def test_an_archived_segment_without_copies_is_read_from_its_archive() -> None:
    old = rebuilt(held(metadata(1, 1), 4), held(metadata(2, 2), 1))
    state = stream(old.nodes)
    path = f"/rhumbline/namespaces/n/streams/s/segments/{1:019d}"
    old.nodes[path] = encode_segment(state.segments[1].archived("link"))
    tree = rebuilt(held(metadata(2, 2), 1), backup=backup_of(old))
    segments = stream(tree.nodes).segments
    assert [one.residence for one in segments.values()] == [Residence.ARCHIVE, Residence.HOT]
