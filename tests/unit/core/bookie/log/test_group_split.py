"""The large ledgers of a commit group are set aside if others wait."""

import random
from collections.abc import Callable

import pytest

from rhumbline.core.bookie.ledger_records import LedgerRecord
from rhumbline.core.bookie.log.commit_group import AddSink, CommitGroup, Outbox
from rhumbline.core.bookie.log.group_split import LARGE_LEDGER_BYTES, split_group
from rhumbline.core.bookie.log.log_format import iterate_records
from rhumbline.core.protocol.errors import RhumblineError
from rhumbline.core.wire.entry import ENTRY_HEADER
from rhumbline.core.wire.v2 import ADD_KEY_BYTES

SMALL, OTHER, LARGE = (LedgerRecord(ledger_id, bytes(20)) for ledger_id in (1, 2, 3))


class Sink(AddSink):
    """A sink that is only an identity here."""

    def deliver(self, outbox: Outbox) -> None:
        """Ignores the adds."""

    def reject(self, outbox: Outbox, error: RhumblineError) -> None:
        """Ignores the failure."""


class Request:
    """An add that is not answered by its key."""

    def __init__(self, ledger_id: int) -> None:
        self.ledger_id = ledger_id

    def response(self, error: RhumblineError | None) -> bytes:
        return b""


def add(
    group: CommitGroup,
    ledger: LedgerRecord,
    entry_id: int,
    size: int,
    sink: AddSink,
    *,
    is_request: bool = False,
) -> None:
    """Append an entry as a connection does."""
    entry = ENTRY_HEADER.pack(ledger.ledger_id, entry_id, entry_id - 1, size).ljust(size, b"x")
    outbox = group.outbox_of(sink)
    group.append_entry(ledger, entry_id, entry_id - 1, entry, outbox)
    outbox.adds.append(Request(ledger.ledger_id) if is_request else entry[:ADD_KEY_BYTES])
    outbox.has_requests = outbox.has_requests or is_request


def records_of(group: CommitGroup) -> list[bytes]:
    """Return the records, each state record as it is and each entry by its key."""
    body = b"".join(group.buffers)
    assert len(body) == group.body_bytes
    records = list(iterate_records(body))
    assert len(records) == group.count
    entries = [(at, len(data)) for at, data, is_state in records if not is_state]
    assert [(offset, size) for *_, offset, size in group.adds] == entries
    for ledger, entry_id, lac, offset, _ in group.adds:
        header = (ledger.ledger_id, entry_id, lac)
        assert ENTRY_HEADER.unpack_from(body, offset)[:3] == header
    return [data if is_state else data[:ADD_KEY_BYTES] for _, data, is_state in records]


def key(ledger: LedgerRecord, entry_id: int) -> bytes:
    return ENTRY_HEADER.pack(ledger.ledger_id, entry_id, 0, 0)[:ADD_KEY_BYTES]


def parts_of(group: CommitGroup) -> tuple[CommitGroup, CommitGroup]:
    parts = split_group(group, {})
    assert parts is not None
    return parts


async def test_large_ledger_follows_the_small_ones() -> None:
    group, sink = CommitGroup(), Sink()
    for entry_id in range(3):
        add(group, LARGE, entry_id, LARGE_LEDGER_BYTES, sink)
        add(group, SMALL, entry_id, 100, sink)
    first, second = parts_of(group)
    assert records_of(first) == [key(SMALL, entry_id) for entry_id in range(3)]
    assert records_of(second) == [key(LARGE, entry_id) for entry_id in range(3)]
    assert first.body_bytes + second.body_bytes == group.body_bytes
    assert split_group(first, {}) is None
    assert split_group(second, {}) is None


@pytest.mark.parametrize(
    "sizes",
    [
        {LARGE: 2 * LARGE_LEDGER_BYTES},
        {LARGE: 2 * LARGE_LEDGER_BYTES, OTHER: 2 * LARGE_LEDGER_BYTES},
        {SMALL: 100, LARGE: LARGE_LEDGER_BYTES // 2},
        {LedgerRecord(n, bytes(20)): LARGE_LEDGER_BYTES for n in range(5)},
        {SMALL: LARGE_LEDGER_BYTES, LARGE: 6 * LARGE_LEDGER_BYTES},
    ],
    ids=["alone", "all large", "small group", "none is large", "the rest is not small"],
)
async def test_group_is_written_as_it_is_if_nothing_is_gained(
    sizes: dict[LedgerRecord, int],
) -> None:
    group, sink = CommitGroup(), Sink()
    for ledger, size in sizes.items():
        add(group, ledger, 0, size, sink)
    assert split_group(group, {}) is None


async def test_state_records_and_their_callbacks_stay_in_the_first_group() -> None:
    group, sink = CommitGroup(), Sink()
    add(group, LARGE, 0, 2 * LARGE_LEDGER_BYTES, sink)
    group.append_state(b"lazy", is_urgent=False)
    group.callbacks.append(print)
    add(group, SMALL, 0, 100, sink)
    group.append_state(b"lazy too", is_urgent=False)
    first, second = parts_of(group)
    assert records_of(first) == [b"lazy", key(SMALL, 0), b"lazy too"]
    assert records_of(second) == [key(LARGE, 0)]
    assert (first.states, first.callbacks) == ([b"lazy", b"lazy too"], [print])
    assert (second.states, second.callbacks) == ([], [])


async def test_group_with_an_urgent_state_record_is_not_divided() -> None:
    """A fence is answered when its record is durable: no earlier add may follow it (BKE-10)."""
    group, sink = CommitGroup(), Sink()
    add(group, LARGE, 0, 2 * LARGE_LEDGER_BYTES, sink)
    add(group, SMALL, 0, 100, sink)
    group.append_state(b"fence")
    assert split_group(group, {}) is None


async def test_ledger_of_which_adds_wait_is_large_whatever_its_size() -> None:
    group, sink = CommitGroup(), Sink()
    add(group, OTHER, 5, 100, sink)
    add(group, SMALL, 0, 100, sink)
    assert split_group(group, {LARGE.ledger_id: 1}) is None
    parts = split_group(group, {OTHER.ledger_id: 1})
    assert parts is not None
    assert list(map(records_of, parts)) == [[key(SMALL, 0)], [key(OTHER, 5)]]


async def test_each_add_is_answered_with_the_group_of_its_entry() -> None:
    group = CommitGroup()
    small, large, both = Sink(), Sink(), Sink()
    add(group, LARGE, 0, 2 * LARGE_LEDGER_BYTES, both)
    add(group, SMALL, 0, 100, small)
    add(group, LARGE, 1, 100, large)
    add(group, SMALL, 1, 200, both, is_request=True)
    add(group, LARGE, 2, 300, both, is_request=True)
    began = group.outboxes[both].began = 7.0
    of_small, of_large = group.outboxes[small], group.outboxes[large]
    bytes_of_both = group.outboxes[both].request_bytes
    first, second = parts_of(group)
    assert set(first.outboxes) == {small, both}
    assert set(second.outboxes) == {large, both}
    assert first.outboxes[small] is of_small
    assert second.outboxes[large] is of_large
    parts = [part.outboxes[both] for part in (first, second)]
    assert [[_ledger_id_of(one) for one in part.adds] for part in parts] == [[1], [3, 3]]
    assert [part.began for part in parts] == [began, began]
    assert all(part.has_requests for part in parts)
    assert sum(part.request_bytes for part in parts) == bytes_of_both


def _ledger_id_of(waiting: object) -> int:
    if isinstance(waiting, bytes):
        return int.from_bytes(waiting[:8], "big")
    assert isinstance(waiting, Request)
    return waiting.ledger_id


@pytest.mark.parametrize("draw_seed", range(20))
async def test_random_groups_keep_all_records_and_the_order_in_each_ledger(draw_seed: int) -> None:
    draw = random.Random(draw_seed)
    group, sinks = CommitGroup(), [Sink(), Sink()]
    ledgers = [LedgerRecord(number, bytes(20)) for number in range(draw.randint(2, 5))]
    for index in range(draw.randint(2, 40)):
        kind = draw.random()
        if kind < 0.1:
            group.append_state(b"state %d" % index, is_urgent=False)
        else:
            number = min(draw.randrange(len(ledgers)), draw.randrange(len(ledgers)))
            size = draw.choice((40, 900, 20_000, 200_000)) if number == 0 else 100
            add(group, ledgers[number], index, size, draw.choice(sinks))
    before = records_of(group)
    waiting = dict.fromkeys(draw.sample(range(len(ledgers)), draw.randint(0, 1)), 1)
    parts = split_group(group, waiting)
    if parts is None:
        return
    first, second = map(records_of, parts)
    assert sorted(first + second) == sorted(before)
    is_moved: Callable[[bytes], bool] = set(second).__contains__
    assert [record for record in before if not is_moved(record)] == first
    assert [record for record in before if is_moved(record)] == second
    assert not {record[:8] for record in second} & {
        record[:8] for record in first if not record.startswith(b"state")
    }
    for part, records in zip(parts, (first, second), strict=True):
        answered = [one for outbox in part.outboxes.values() for one in outbox.adds]
        entries = [record for record in records if not record.startswith(b"state")]
        assert sorted(answered, key=str) == sorted(entries, key=str)
