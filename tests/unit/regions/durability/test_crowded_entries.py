"""Entries in fewer zones, racks or hosts than they could be are counted by level."""

from rhumbline.core.protocol.bookie_id import BookieId, Region
from rhumbline.core.protocol.ledger_metadata import Fragment, LedgerMetadata, LedgerState
from rhumbline.core.protocol.placement import BookieInfo
from rhumbline.core.runtime.metadata_store import Version
from rhumbline.regions.durability.crowded_entries import CrowdedEntries
from rhumbline.regions.durability.ledger_index import LedgerIndex


def counts(located: list[BookieInfo], *ledgers: LedgerMetadata) -> dict[str, int]:
    index = LedgerIndex()
    for metadata in ledgers:
        index.note(metadata, Version("1"))
    crowded = CrowdedEntries(located)
    for group in index.groups():
        crowded.add(group)
    return crowded.counts


def test_entries_that_share_a_rack_although_there_are_others_are_counted() -> None:
    def at(name: str, rack: str) -> BookieInfo:
        return BookieInfo(BookieId(f"{name}@00000001"), Region("a"), rack, 1, host=name)

    known = [at("b0", "r0"), at("b1", "r1"), at("b2", "r1"), at("b3", "r2")]
    ids = tuple(info.bookie for info in known)
    first, second = ids[:3], (*ids[:2], ids[3])
    fragments = (Fragment(0, first), Fragment(10, second))
    metadata = LedgerMetadata(
        7, 3, 3, 2, fragments, state=LedgerState.CLOSED, last_entry_id=29, length=30
    )
    assert counts(known, metadata) == {"zone": 0, "rack": 10, "host": 0}
    without_b3 = known[:3]  # its location is not known, and its rack has gone
    assert counts(without_b3, metadata) == {"zone": 0, "rack": 0, "host": 0}
    striped = LedgerMetadata(
        8, 3, 2, 2, (Fragment(0, first),), state=LedgerState.CLOSED, last_entry_id=29, length=30
    )
    third = {"zone": 0, "rack": 10, "host": 0}
    assert counts(without_b3, metadata, striped) == third, "every third write set is b1, b2"
    few = [BookieInfo(info.bookie, Region("b"), None, 1) for info in known[:2]]
    unlabelled = [*few, BookieInfo(known[2].bookie, Region("a"), None, 1)]
    assert counts(unlabelled, metadata) == {"zone": 0, "rack": 0, "host": 0}, "no level has labels"
