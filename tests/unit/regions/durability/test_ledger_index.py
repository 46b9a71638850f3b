"""An index that follows changes equals one that is read anew."""

from dataclasses import replace
from random import Random

from rhumbline.core.protocol.bookie_id import check_bookie_id
from rhumbline.core.protocol.ledger_metadata import Fragment, LedgerMetadata, LedgerState
from rhumbline.core.runtime.metadata_store import Version
from rhumbline.regions.durability.ledger_index import LedgerIndex
from rhumbline.regions.durability.ledger_layout import LedgerLayout

BOOKIES = tuple(check_bookie_id(f"b{n}@00000001") for n in range(5))

Ledgers = dict[int, tuple[LedgerMetadata, Version]]


def contents(
    index: LedgerIndex,
) -> dict[LedgerLayout, tuple[int, list[int], int, dict[str | None, int]]]:
    return {
        group.layout: (group.ledgers, group.entries, group.length, group.streams)
        for group in index.groups()
    }


def scanned(ledgers: Ledgers, index: LedgerIndex | None = None) -> LedgerIndex:
    index = LedgerIndex() if index is None else index
    index.begin_scan()
    for metadata, version in ledgers.values():
        index.note(metadata, version)
    index.end_scan(1)
    return index


def random_ledger(ledger_id: int, random: Random) -> LedgerMetadata:
    striped = random.random() < 0.5
    end = random.randrange(20)
    is_closed = random.random() < 0.7
    return LedgerMetadata(
        ledger_id, 3, 2 if striped else 3, 2,
        (Fragment(0, tuple(random.sample(BOOKIES, 3))),),
        state=LedgerState.CLOSED if is_closed else LedgerState.OPEN,
        last_entry_id=end - 1 if is_closed else -1, length=10 * end if is_closed else 0,
        custom={"rhumbline.namespace": b"n", "rhumbline.stream": b"s%d" % (ledger_id % 3)}
        if ledger_id % 4 else {},
    )  # fmt: skip


def test_an_index_that_follows_changes_equals_one_that_is_read_anew() -> None:
    random = Random(1)
    ledgers: Ledgers = {}
    index = LedgerIndex()
    for turn in range(60):
        for _ in range(10):
            ledger_id = random.randrange(40)
            if random.random() < 0.3:
                ledgers.pop(ledger_id, None)
            else:
                version = Version(f"{turn}.{random.random()}")
                ledgers[ledger_id] = random_ledger(ledger_id, random), version
        if turn % 5 == 4:  # an audit that was interrupted
            index.begin_scan()
            for metadata, version in list(ledgers.values())[: random.randrange(20)]:
                index.note(metadata, version)
        scanned(ledgers, index)
        assert contents(index) == contents(scanned(ledgers))
        assert len(index) == len(ledgers)
        named = {b for metadata, _ in ledgers.values() for b in metadata.bookies()}
        assert set(index.bookies()) == {
            bookie for group in index.groups() for bookie in group.layout.bookies()
        }
        assert set(index.bookies()) <= named
    assert index.is_complete
    assert index.unreadable == 1


def test_a_ledger_counts_once_when_a_scan_meets_it_twice() -> None:
    metadata = random_ledger(7, Random(2))
    index = scanned({7: (metadata, Version("1"))})
    index.begin_scan()
    index.note(metadata, Version("1"))
    index.note(replace(metadata, custom={}), Version("2"))
    index.note(replace(metadata, custom={}), Version("2"))
    assert [group.ledgers for group in index.groups()] == [1]
    assert [group.streams for group in index.groups()] == [{None: 1}]
    index.end_scan()
    assert len(index) == 1


def test_an_index_is_complete_after_its_first_scan() -> None:
    index = LedgerIndex()
    index.begin_scan()
    assert not index.is_complete
    index.end_scan()
    assert index.is_complete
    assert not index.groups()


def test_ledgers_of_which_copies_are_lost_are_counted_apart() -> None:
    """An index that was marked before its scan has the same groups as one that is marked later."""
    random = Random(2)
    ledgers = {n: (random_ledger(n, random), Version("1")) for n in range(40)}
    marks = [{}, {BOOKIES[0]: frozenset(range(20))}, {BOOKIES[1]: frozenset(range(10, 30))}]
    index = LedgerIndex()
    for lacking in [*marks, marks[1], marks[0]]:
        index.mark_lacking(lacking)
        scanned(ledgers, index)
        anew = scanned(ledgers)
        anew.mark_lacking(lacking)
        assert marked(index) == marked(anew)
        for bookie, ids in lacking.items():
            wanted = sum(n in ids and bookie in ledgers[n][0].bookies() for n in ledgers)
            found = sum(g.ledgers for g in index.groups() if bookie in g.lacking)
            assert found == wanted > 0
    assert contents(index) == contents(scanned(ledgers)), "nothing is lost any more"


def marked(index: LedgerIndex) -> dict[object, tuple[int, list[int]]]:
    return {(g.layout, g.lacking): (g.ledgers, g.entries) for g in index.groups()}
