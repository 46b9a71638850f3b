"""Layouts count every entry in its write set, and equal ledgers have equal layouts."""

import itertools
from time import process_time

from rhumbline.core.protocol.bookie_id import check_bookie_id
from rhumbline.core.protocol.ledger_metadata import (
    NAMESPACE_KEY,
    STREAM_KEY,
    Fragment,
    LedgerMetadata,
    LedgerState,
)
from rhumbline.core.protocol.quorum import Quorum
from rhumbline.regions.durability.ledger_layout import (
    entry_counts,
    layout_of,
    parts_by_r,
    stream_of,
    stripe_counts,
    turns_of,
)

BOOKIES = tuple(check_bookie_id(f"b{n}@00000001") for n in range(7))


def closed(quorum: Quorum, firsts: list[int], end: int) -> LedgerMetadata:
    e = quorum.ensemble_size
    return LedgerMetadata(
        1, e, quorum.write_quorum, quorum.ack_quorum,
        tuple(Fragment(first, (*BOOKIES[n:], *BOOKIES[:n])[:e]) for n, first in enumerate(firsts)),
        state=LedgerState.CLOSED, last_entry_id=end - 1, length=end,
    ).with_r(0, quorum.min_regions)  # fmt: skip


def test_every_entry_is_counted_in_its_write_set() -> None:
    for e, wq in ((1, 1), (2, 1), (3, 3), (4, 2), (5, 3)):
        for firsts, end in (([0], 0), ([0], 1), ([0], 17), ([0, 5], 9), ([0, 7, 8], 22)):
            for r_from in (0, 1, 6):
                metadata = closed(Quorum(e, wq, wq), firsts, end)
                if r_from and r_from < end and wq > 1:
                    metadata = metadata.with_r(r_from, 2)
                expected: dict[tuple[frozenset[str], int], int] = {}
                for entry in range(end):
                    quorum = metadata.quorum_at(entry)
                    bookies = metadata.fragment_of(entry).bookies
                    names = frozenset(bookies[i] for i in quorum.write_set(entry))
                    key = names, quorum.min_regions
                    expected[key] = expected.get(key, 0) + 1
                layout, counts = layout_of(metadata)
                found: dict[tuple[frozenset[str], int], int] = {}
                numbers = iter(counts)
                for part in layout.parts:
                    for turn in range(part.turns):
                        count = next(numbers)
                        assert bool(part.used >> turn & 1) == (count > 0)
                        names = frozenset(part.bookies[i] for i in part.quorum.write_set(turn))
                        key = names, part.quorum.min_regions
                        if count:
                            found[key] = found.get(key, 0) + count
                assert found == expected


def test_ledgers_with_the_same_bookies_in_another_order_have_one_layout() -> None:
    quorum = Quorum(3, 3, 2)
    one = closed(quorum, [0], 5)
    for bookies in itertools.permutations(BOOKIES[:3]):
        other = closed(quorum, [0], 90).with_bookies_of(0, bookies)
        assert layout_of(other)[0] == layout_of(one)[0]
    striped = Quorum(3, 2, 2)
    turned = closed(striped, [0], 90).with_bookies_of(0, (BOOKIES[1], BOOKIES[0], BOOKIES[2]))
    assert layout_of(turned)[0] != layout_of(closed(striped, [0], 90))[0]


def test_an_open_ledger_has_a_part_without_known_entries_for_each_r() -> None:
    metadata = LedgerMetadata(1, 3, 2, 2, (Fragment(0, BOOKIES[:3]), Fragment(6, BOOKIES[1:4])))
    layout, counts = layout_of(metadata.with_r(0, 2).with_r(8, 1))
    assert [(part.used, part.is_open, part.quorum.min_regions) for part in layout.parts] == [
        (0b111, False, 2),
        (0b111, True, 2),
        (0b111, True, 1),
    ]
    assert counts == (2, 2, 2, 0, 0, 0, 0, 0, 0)
    assert layout.writing == layout.parts[2], "the writer acknowledges under the last R"
    assert layout.bookies() == frozenset(BOOKIES[:4])
    assert layout_of(closed(Quorum(3, 2, 2), [0], 6))[0].writing is None


def test_the_cost_does_not_depend_on_the_number_of_entries() -> None:
    assert stripe_counts(1, 10**15, 3) == [
        333_333_333_333_333,
        333_333_333_333_334,
        333_333_333_333_333,
    ]
    began = process_time()
    for _ in range(1_000):
        stripe_counts(7, 10**15, 3)
    assert process_time() - began < 1


def test_a_fragment_without_entries_has_no_part() -> None:
    metadata = closed(Quorum(3, 2, 2), [0], 0)
    assert entry_counts(metadata) == [0]
    assert list(parts_by_r(metadata, 0, 0)) == []
    assert layout_of(metadata)[0].parts == ()
    assert (turns_of(Quorum(3, 2, 2)), turns_of(Quorum(3, 3, 2))) == (3, 1)


def test_the_stream_of_a_ledger_is_in_its_custom_metadata() -> None:
    custom = {NAMESPACE_KEY: b"main", STREAM_KEY: b"orders"}
    metadata = LedgerMetadata(1, 1, 1, 1, (Fragment(0, BOOKIES[:1]),), custom=custom)
    assert stream_of(metadata) == "main/orders"
    assert stream_of(closed(Quorum(1, 1, 1), [0], 1)) is None
