"""Groups of small and of large ledgers are written in turn, each ledger in order."""

import random
import struct

import pytest

from rhumbline.core.bookie.ledger_records import LedgerRecord
from rhumbline.core.bookie.log.commit_group import CommitGroup
from rhumbline.core.bookie.log.group_queue import CONTENDED_BYTES_MAX, GroupQueue
from rhumbline.core.wire.entry import ENTRY_HEADER
from rhumbline.core.wire.v2 import ADD_KEY_BYTES
from rhumbline.tests.unit.core.bookie.log.test_group_split import Sink

SINK = Sink()
FLOOD = 1 << 20


def add(group: CommitGroup, ledger_id: int, entry_id: int, size: int) -> CommitGroup:
    entry = ENTRY_HEADER.pack(ledger_id, entry_id, entry_id - 1, size).ljust(size, b"x")
    outbox = group.outbox_of(SINK)
    group.append_entry(LedgerRecord(ledger_id, bytes(20)), entry_id, entry_id - 1, entry, outbox)
    outbox.adds.append(entry[:ADD_KEY_BYTES])
    return group


def group_of(*adds: tuple[int, int, int]) -> CommitGroup:
    """Return a group of adds: (ledger id, entry id, size)."""
    group = CommitGroup()
    for ledger_id, entry_id, size in adds:
        add(group, ledger_id, entry_id, size)
    return group


def adds_of(group: CommitGroup) -> list[tuple[int, int]]:
    return [(ledger.ledger_id, entry_id) for ledger, entry_id, *_ in group.adds]


async def test_groups_of_one_ledger_are_written_as_they_are() -> None:
    queue = GroupQueue()
    assert not queue
    groups = [group_of((1, number, FLOOD)) for number in range(3)]
    for group in groups:
        assert queue.needs_group == (group is groups[0])
        queue.append(group)
    assert queue.bytes == sum(group.body_bytes for group in groups)
    assert [queue.take() for _ in groups] == groups
    assert (bool(queue), queue.bytes, queue.is_contended) == (False, 0, False)


async def test_small_ledgers_of_all_groups_come_before_the_large_one() -> None:
    queue = GroupQueue()
    for number in range(3):
        queue.append(group_of((1, number, FLOOD), (2, number, 100)))
    taken = [adds_of(queue.take()) for _ in range(6)]
    small, large = ([[(ledger_id, number)] for number in range(3)] for ledger_id in (2, 1))
    assert taken == small + large
    assert not queue


async def test_small_and_large_groups_are_written_in_turn() -> None:
    queue = GroupQueue()
    for number in range(2):
        queue.append(group_of((1, number, FLOOD), (2, number, 100)))
    assert [adds_of(queue.take()) for _ in range(2)] == [[(2, 0)], [(2, 1)]]
    assert queue.is_contended
    assert not queue.needs_group, "the large ledger has its turn"
    queue.append(group_of((3, 0, 100)))
    assert adds_of(queue.take()) == [(1, 0)]
    assert adds_of(queue.take()) == [(3, 0)]
    assert adds_of(queue.take()) == [(1, 1)]
    assert not queue
    assert queue.needs_group
    assert not queue.is_contended


async def test_large_groups_are_not_held_up_if_nothing_small_waits() -> None:
    queue = GroupQueue()
    queue.append(group_of((1, 0, FLOOD), (2, 0, 100)))
    queue.take()
    queue.append(group_of((1, 1, FLOOD)))
    assert adds_of(queue.take()) == [(1, 0)]
    queue.append(group_of((1, 2, 100)))
    assert [adds_of(queue.take()) for _ in range(2)] == [[(1, 1)], [(1, 2)]]
    alone = group_of((1, 3, FLOOD))
    queue.append(alone)
    assert queue.take() is alone, "nothing is set aside any more"


async def test_urgent_state_record_follows_everything_before_it() -> None:
    queue = GroupQueue()
    for number in range(2):
        queue.append(group_of((1, number, FLOOD), (2, number, 100)))
    fence = group_of((2, 2, 100))
    fence.append_state(b"fence")
    queue.append(fence)
    queue.append(group_of((2, 3, 100)))
    taken = [queue.take() for _ in range(6)]
    assert [adds_of(group) for group in taken] == [
        [(2, 0)], [(2, 1)], [(1, 0)], [(1, 1)], [(2, 2)], [(2, 3)],
    ]  # fmt: skip
    assert taken[4] is fence
    assert not queue


async def test_all_groups_can_be_taken_and_a_group_put_back() -> None:
    queue = GroupQueue()
    queue.append(group_of((1, 0, FLOOD), (2, 0, 100)))
    queue.append(group_of((1, 1, 100)))
    taken = queue.take()
    queue.put_back(taken)
    groups = queue.take_all()
    assert sorted(add for group in groups for add in adds_of(group)) == [(1, 0), (1, 1), (2, 0)]
    order = [add for group in groups for add in adds_of(group) if add[0] == 1]
    assert order == [(1, 0), (1, 1)]
    assert (bool(queue), queue.bytes, queue.is_contended) == (False, 0, False)


async def test_a_group_that_cannot_be_divided_can_still_be_refused() -> None:
    queue = GroupQueue()
    group = group_of((1, 0, FLOOD), (2, 0, 100))
    outbox = group.outbox_of(SINK)
    outbox.adds[1] = b""  # without the key of its entry
    queue.append(group)
    with pytest.raises(struct.error):
        queue.take()
    assert queue.take_all() == [group]


class RandomLoad:
    """Adds of four ledgers, of which two are often large, written now and then by a queue."""

    def __init__(self, seed: int) -> None:
        self.counts = [0] * 4
        self.urgent: dict[bytes, int] = {}
        """Each urgent state record, and the number of adds before it."""
        self.taken: list[CommitGroup] = []
        self._draw = random.Random(seed)
        self._queue = GroupQueue()
        self._open = CommitGroup()

    def run(self, steps: int) -> None:
        for _ in range(steps):
            self._append()
            if self._open.body_bytes >= CONTENDED_BYTES_MAX:
                self._close()
            if self._draw.random() < 0.4:
                self._write()
        self._close()
        while self._queue:
            self.taken.append(self._queue.take())
        assert (self._queue.bytes, self._queue.is_contended) == (0, False)

    def _append(self) -> None:
        ledger_id = min(self._draw.randrange(4), self._draw.randrange(4))
        size = self._draw.choice((100, 50_000, 200_000)) if ledger_id < 2 else 100
        add(self._open, ledger_id, self.counts[ledger_id], size)
        self.counts[ledger_id] += 1
        if self._draw.random() < 0.03:
            record = b"urgent %d" % len(self.urgent)
            self._open.append_state(record)
            self.urgent[record] = sum(self.counts)

    def _close(self) -> None:
        if self._open.count:
            self._queue.append(self._open)
            self._open = CommitGroup()

    def _write(self) -> None:
        if self._queue.needs_group:
            self._close()
        if self._queue:
            self.taken.append(self._queue.take())


@pytest.mark.parametrize("draw_seed", range(30))
async def test_random_loads_are_written_once_and_in_the_order_of_each_ledger(
    draw_seed: int,
) -> None:
    load = RandomLoad(draw_seed)
    load.run(200)
    by_ledger: list[list[int]] = [[], [], [], []]
    written = state_count = 0
    for group in load.taken:
        written += len(group.adds)
        state_count += len(group.states)
        for record in group.states:
            assert written >= load.urgent[record], "an earlier add follows an urgent state record"
        for ledger_id, entry_id in adds_of(group):
            by_ledger[ledger_id].append(entry_id)
    assert by_ledger == [list(range(count)) for count in load.counts]
    assert state_count == len(load.urgent)
