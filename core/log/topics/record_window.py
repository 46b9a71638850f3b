"""The unacknowledged records of one consumer: a pure state machine (rule STR-36).

A record that was fetched passes through these states:

::

    fresh --take--> out --acknowledge--> (removed)
                     |  <------take----- granted <--stored-- due
                     |--reject--> delayed -------------------^
                     |--time-out-----------------------------^
                     '--reject or time-out of the last delivery--> dead --acknowledge--> (removed)

Everything below ``position`` is acknowledged. The window never gives out more than its limit, and
gives out a record for the second time only after the number of its deliveries was stored, so that
a record at which a consumer crashes is counted by the next one. This is done for one record after
the other, when the application asks for the next: a crash at one record is not counted for its
neighbours.
"""

import heapq
from collections import deque
from collections.abc import Sequence
from enum import Enum
from typing import NamedTuple

from ...protocol.dlsn import Dlsn
from ..metadata.acknowledgements import Acknowledgements, Range
from ..read.record_batch import Record

ENTRIES_AHEAD = 64
"""Entries beyond the last fetched one that a stored state reports as possibly delivered, so that
not every batch needs a write before it is delivered."""

TIMED_OUT = "it was not acknowledged in time"
CONSUMER_LOST = "its consumer stopped without an answer"


class RecordState(Enum):
    """The state of an unacknowledged record."""

    OUT = "out"
    """The application has it."""
    DELAYED = "delayed"
    """It waits until it is due for redelivery."""
    DUE = "due"
    """It can be delivered again, once the number of its deliveries was stored."""
    GRANTED = "granted"
    """The number of its deliveries counts the next one."""
    DEAD = "dead"
    """It was delivered too often, and is to be moved to the dead-letter stream."""


class OpenRecord:
    """A record that is not acknowledged."""

    __slots__ = ("deliveries", "due_ms", "number", "position", "reason", "record", "state")

    def __init__(self, record: Record, position: Dlsn, number: int, deliveries: int) -> None:
        self.record = record
        self.position = position
        self.number = number
        """The order of the record among those that the window has given out."""
        self.deliveries = deliveries
        """Deliveries that have begun, or that may begin as soon as their number is stored."""
        self.state = RecordState.OUT
        self.due_ms = 0.0
        """Time at which the state ends by itself."""
        self.reason = ""
        """The reason of the last redelivery."""


class StoredState(NamedTuple):
    """A state of a window that is to be stored."""

    position: Dlsn
    acknowledgements: Acknowledgements
    version: int
    granted: OpenRecord | None
    """The record that may be delivered again as soon as the state is stored."""


class RecordWindow:
    """The unacknowledged records of one consumer of one stream. Times are in ms, of any clock."""

    def __init__(
        self,
        position: Dlsn,
        stored: Acknowledgements,
        *,
        unacknowledged_max: int,
        timeout_ms: float | None,
        deliveries_max: int | None,
    ) -> None:
        self._owner = stored.owner
        self._limit = unacknowledged_max
        self._timeout_ms = timeout_ms
        self._deliveries_max = deliveries_max
        # What earlier consumers stored about records that were not fetched yet.
        self._old_ranges = deque(stored.ranges)
        self._old_deliveries = dict(stored.deliveries)
        self._delivered_before = stored.delivered_to
        self._stored_to = stored.delivered_to
        self._fresh: deque[Record] = deque()
        self._given_to = position  # the position after the last record that left _fresh
        self._fetched_to = position
        self._numbers = 0
        self._open: dict[Dlsn, OpenRecord] = {}  # in the order of positions
        self._out: dict[Dlsn, OpenRecord] = {}  # in the order of their time-outs
        self._delayed: list[tuple[float, int, OpenRecord]] = []
        self._due: dict[Dlsn, OpenRecord] = {}
        self._granted: OpenRecord | None = None  # the number of its deliveries is raised
        self._is_grant_stored = False
        self._is_asked = False  # the application waits for a record that is due
        self._dead: deque[OpenRecord] = deque()
        self._needs_more_room = False
        self._version = 0
        self._stored_version = 0

    # --- queries --------------------------------------------------------------------------------

    @property
    def position(self) -> Dlsn:
        """The position of the first unacknowledged record: everything below it is acknowledged."""
        for position in self._open:
            return position
        return self._given_to

    @property
    def wants_batch(self) -> bool:
        """True if the next batch should be fetched."""
        return not self._fresh and len(self._open) < self._limit

    @property
    def is_empty(self) -> bool:
        """True if every fetched record is acknowledged."""
        return not (self._fresh or self._open)

    @property
    def out_count(self) -> int:
        """The number of records that the application has."""
        return len(self._out)

    @property
    def open_count(self) -> int:
        """The number of records that were delivered and are not acknowledged."""
        return len(self._open)

    @property
    def is_changed(self) -> bool:
        """True if there is something that was not stored."""
        return self._version != self._stored_version

    @property
    def must_store(self) -> bool:
        """True if deliveries wait until the state is stored."""
        if self._needs_more_room:
            return True
        if self._granted is not None:
            return not self._is_grant_stored
        return self._is_asked and bool(self._due)

    @property
    def next_due_ms(self) -> float | None:
        """The time at which ``advance`` has something to do; None if there is no such time."""
        times = [item.due_ms for item in self._delayed_items(1)]
        if self._timeout_ms is not None:
            times += [found.due_ms for found in list(self._out.values())[:1]]
        return min(times, default=None)

    def _delayed_items(self, count: int) -> list[OpenRecord]:
        while self._delayed and not self._is_delayed(self._delayed[0]):
            heapq.heappop(self._delayed)
        return [item for _, _, item in self._delayed[:count]]

    def _is_delayed(self, entry: tuple[float, int, OpenRecord]) -> bool:
        due_ms, _, item = entry
        return (
            item.state is RecordState.DELAYED
            and item.due_ms == due_ms
            and self._open.get(item.position) is item
        )

    # --- deliveries -----------------------------------------------------------------------------

    def add_batch(self, records: Sequence[Record]) -> None:
        """Add the next records of the stream."""
        assert not self._fresh
        self._fresh.extend(records)
        last = records[-1].dlsn
        self._fetched_to = Dlsn(last.lssn, last.entry_id, last.slot + 1)

    def take(self, now_ms: float) -> OpenRecord | None:
        """Return the next record to deliver; None if there is none now."""
        while self._fresh and len(self._open) < self._limit:
            position = self._fresh[0].dlsn
            if position >= self._delivered_before:
                break
            self._take_known(position)
        if self._granted is not None and self._is_grant_stored:
            found, self._granted = self._granted, None
            self._give_out(found, now_ms)
            return found
        if self._due or self._granted is not None:
            self._is_asked = True
            return None
        if self._fresh and len(self._open) < self._limit:
            position = self._fresh[0].dlsn
            if position >= self._stored_to:
                self._needs_more_room = True
                return None
            found = self._open_next(position, deliveries=1)
            self._give_out(found, now_ms)
            return found
        return None

    def _take_known(self, position: Dlsn) -> None:
        """Take a record that an earlier consumer may have delivered."""
        while self._old_ranges and self._old_ranges[0][1] <= position:
            self._old_ranges.popleft()
        if self._old_ranges and self._old_ranges[0][0] <= position:
            self._fresh.popleft()
            self._numbers += 1
            self._given_to = Dlsn(position.lssn, position.entry_id, position.slot + 1)
            self._change()
            return
        found = self._open_next(position, deliveries=self._old_deliveries.pop(position, 1))
        found.reason = CONSUMER_LOST
        self._end_delivery(found)

    def _open_next(self, position: Dlsn, deliveries: int) -> OpenRecord:
        record = self._fresh.popleft()
        found = OpenRecord(record, position, self._numbers, deliveries)
        self._open[position] = found
        self._numbers += 1
        self._given_to = Dlsn(position.lssn, position.entry_id, position.slot + 1)
        return found

    def _give_out(self, found: OpenRecord, now_ms: float) -> None:
        found.state = RecordState.OUT
        found.due_ms = 0.0 if self._timeout_ms is None else now_ms + self._timeout_ms
        self._is_asked = False
        self._out[found.position] = found

    def acknowledge(self, position: Dlsn) -> bool:
        """Mark a record as processed. Returns False if it is not open: it was, or is not here."""
        found = self._open.pop(position, None)
        if found is None:
            return False
        self._out.pop(position, None)
        self._due.pop(position, None)
        if self._granted is found:
            self._granted = None
        self._change()
        return True

    def reject(self, position: Dlsn, due_ms: float, reason: str) -> bool:
        """Give a record back, to be delivered again from ``due_ms`` on.

        Returns False if the application does not have it.
        """
        found = self._out.pop(position, None)
        if found is None:
            return False
        found.reason = reason
        if self._is_last_delivery(found):
            self._end_delivery(found)
            return True
        found.state = RecordState.DELAYED
        found.due_ms = due_ms
        heapq.heappush(self._delayed, (due_ms, found.number, found))
        if len(self._delayed) > 2 * self._limit:
            self._delayed = [entry for entry in self._delayed if self._is_delayed(entry)]
            heapq.heapify(self._delayed)
        return True

    def advance(self, now_ms: float) -> bool:
        """Let the records go on whose time has come. Returns whether one can be delivered again."""
        self._end_times(now_ms)
        return bool(self._due)

    def _end_times(self, now_ms: float) -> None:
        while (due := self._delayed_items(1)) and due[0].due_ms <= now_ms:
            heapq.heappop(self._delayed)
            self._end_delivery(due[0])
        if self._timeout_ms is None:
            return
        while self._out:
            found = next(iter(self._out.values()))
            if found.due_ms > now_ms:
                return
            del self._out[found.position]
            found.reason = TIMED_OUT
            self._end_delivery(found)

    def _is_last_delivery(self, found: OpenRecord) -> bool:
        return self._deliveries_max is not None and found.deliveries >= self._deliveries_max

    def _end_delivery(self, found: OpenRecord) -> None:
        if self._is_last_delivery(found):
            found.state = RecordState.DEAD
            self._dead.append(found)
            return
        found.state = RecordState.DUE
        self._due[found.position] = found

    def next_dead(self) -> OpenRecord | None:
        """Return the first record that must be moved to the dead-letter stream; None if none."""
        while self._dead:
            if self._open.get(self._dead[0].position) is self._dead[0]:
                return self._dead[0]
            self._dead.popleft()
        return None

    # --- the stored state -----------------------------------------------------------------------

    def state(self, *, is_final: bool = False) -> StoredState:
        """Return the state to store; ``is_final`` if nothing more will be delivered.

        If the application waits for a record that is due, its next delivery is counted.
        """
        if self._granted is None and self._is_asked and not is_final:
            for found in self._due.values():
                self._grant(found)
                break
        if self._granted is not None and is_final:
            self._granted.deliveries -= 1  # that delivery does not happen
            self._granted = None
        position = self.position
        delivered_to = max(self._given_to, self._delivered_before)
        if not is_final:
            ahead = Dlsn(self._fetched_to.lssn, self._fetched_to.entry_id + ENTRIES_AHEAD, 0)
            delivered_to = max(delivered_to, self._stored_to, ahead)
        repeated = [(at, one.deliveries) for at, one in self._open.items() if one.deliveries > 1]
        repeated += self._old_deliveries.items()
        held = Acknowledgements(
            self._owner, delivered_to, tuple(self._ranges()), tuple(repeated)
        ).above(position)
        return StoredState(position, held, self._version, self._granted)

    def _grant(self, found: OpenRecord) -> None:
        del self._due[found.position]
        found.state = RecordState.GRANTED
        found.deliveries += 1
        self._granted = found
        self._is_grant_stored = False
        self._change()

    def _ranges(self) -> list[Range]:
        """Return the ranges of acknowledged records above the first unacknowledged one."""
        found: list[Range] = []
        before: OpenRecord | None = None
        for one in self._open.values():
            if before is not None and before.number + 1 < one.number:
                found.append((_after(before), one.position))
            before = one
        if before is not None and before.number + 1 < self._numbers:
            found.append((_after(before), self._given_to))
        for first, after in self._old_ranges:
            if after > self._given_to:
                found.append((max(first, self._given_to), after))
        return found

    def on_stored(self, stored: StoredState) -> None:
        """Note that a state was stored: what waited for it can be delivered."""
        self._stored_version = max(self._stored_version, stored.version)
        self._stored_to = max(self._stored_to, stored.acknowledgements.delivered_to)
        self._needs_more_room = False
        if stored.granted is not None and stored.granted is self._granted:
            self._is_grant_stored = True

    def _change(self) -> None:
        self._version += 1


def _after(found: OpenRecord) -> Dlsn:
    position = found.position
    return Dlsn(position.lssn, position.entry_id, position.slot + 1)
