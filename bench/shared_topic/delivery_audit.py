"""Judges what the programs of a shared topic recorded: loss, order, duplicates."""

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

READ_S_MAX = 10.0
"""Longest time that a member takes to read a committed position, retries included. The position
contains every commit that was confirmed so long before the member had read it."""

Place = tuple[int, int, int, int]
"""Partition, segment, entry, slot."""


class Start(NamedTuple):
    """A member's beginning in a partition: when it had read the committed position, and which."""

    time: float
    place: Place


class Delivered(NamedTuple):
    """A record that a consumer delivered."""

    time: float
    place: Place
    key: str
    number: int
    start: Start
    """The beginning of the member that delivered it, in this partition."""


class Committed(NamedTuple):
    """A position that a consumer committed; ``place`` comes after the last record."""

    time: float
    place: Place


@dataclass
class Records:
    """The records of all programs of a run."""

    tried: set[tuple[str, int]] = field(default_factory=set)
    acknowledged: set[tuple[str, int]] = field(default_factory=set)
    deliveries: list[list[Delivered]] = field(default_factory=list)
    """The deliveries of each consumer, in its order."""
    commits: list[Committed] = field(default_factory=list)

    def add_producer(self, lines: Iterable[str]) -> None:
        """Add the file of a producer. A line that a kill cut short is ignored."""
        for line in lines:
            match line.split():
                case ["T", key, number]:
                    self.tried.add((key, int(number)))
                case ["A", key, number]:
                    self.acknowledged.add((key, int(number)))

    def add_consumer(self, lines: Iterable[str]) -> None:
        """Add the file of a consumer."""
        found: list[Delivered] = []
        starts: dict[int, Start] = {}
        for line in lines:
            match line.split():
                case ["R", time, partition, lssn, entry_id, slot]:
                    place = (int(partition), int(lssn), int(entry_id), int(slot))
                    starts[place[0]] = Start(float(time), place)
                case ["D", time, partition, lssn, entry_id, slot, key, number]:
                    place = (int(partition), int(lssn), int(entry_id), int(slot))
                    delivered = Delivered(float(time), place, key, int(number), starts[place[0]])
                    found.append(delivered)
                case ["C", time, partition, lssn, entry_id, slot]:
                    place = (int(partition), int(lssn), int(entry_id), int(slot))
                    self.commits.append(Committed(float(time), place))
        self.deliveries.append(found)


@dataclass(frozen=True)
class DeliveryVerdict:
    """The findings; ``is_clean`` if none of them is a fault."""

    tried: int
    acknowledged: int
    delivered: int
    """Different records that were delivered."""
    repeated: int
    """Deliveries beyond the first one of a record, which at-least-once allows."""
    lost: tuple[str, ...]
    """Acknowledged records that no consumer delivered."""
    unknown: tuple[str, ...]
    """Delivered records that nobody appended, or that moved to another partition."""
    stored_twice: tuple[str, ...]
    """Records that are at two positions."""
    out_of_order: tuple[str, ...]
    """Acknowledged records that are stored, or were first delivered, before an earlier one of
    their key."""
    repeated_after_commit: tuple[str, ...]
    """Records that were delivered although their member had read a later position, or although
    they were committed ``READ_S_MAX`` before it read the position."""

    @property
    def is_clean(self) -> bool:
        """True if no record was lost, invented, stored twice, reordered or wrongly repeated."""
        faults = (self.lost, self.unknown, self.stored_twice, self.out_of_order)
        return not any((*faults, self.repeated_after_commit))


def judge(records: Records) -> DeliveryVerdict:
    """Compare what was appended with what was delivered."""
    everything = sorted(delivery for consumer in records.deliveries for delivery in consumer)
    first: dict[tuple[str, int], Delivered] = {}
    places: dict[tuple[str, int], set[Place]] = defaultdict(set)
    for delivery in everything:
        record = (delivery.key, delivery.number)
        first.setdefault(record, delivery)
        places[record].add(delivery.place)
    partitions: dict[str, set[int]] = defaultdict(set)
    for (key, _), found in places.items():
        partitions[key].update(place[0] for place in found)
    unknown = sorted(set(first) - records.tried)
    moved = sorted(key for key, found in partitions.items() if len(found) > 1)
    return DeliveryVerdict(
        tried=len(records.tried),
        acknowledged=len(records.acknowledged),
        delivered=len(first),
        repeated=len(everything) - len(first),
        lost=tuple(f"{key} {number}" for key, number in sorted(records.acknowledged - set(first))),
        unknown=tuple(f"{key} {number}" for key, number in unknown) + tuple(moved),
        stored_twice=tuple(
            f"{key} {number} at {sorted(found)}"
            for (key, number), found in sorted(places.items())
            if len(found) > 1
        ),
        out_of_order=tuple(_out_of_order(records.acknowledged, first)),
        repeated_after_commit=tuple(_repeated_after_commit(records)),
    )


def _out_of_order(
    acknowledged: set[tuple[str, int]], first: dict[tuple[str, int], Delivered]
) -> Iterable[str]:
    """Yield acknowledged records that are before an earlier one of their key."""
    before: dict[str, Delivered] = {}
    for key, number in sorted(acknowledged & set(first)):
        delivery = first[key, number]
        earlier = before.get(key)
        if earlier is not None and (delivery.place < earlier.place or delivery.time < earlier.time):
            yield f"{key} {number} before {earlier.number}"
        before[key] = delivery


def _repeated_after_commit(records: Records) -> Iterable[str]:
    """Yield the deliveries of records that were committed before their member began."""
    times: dict[int, list[float]] = defaultdict(list)
    highest: dict[int, list[Place]] = defaultdict(list)
    for commit in sorted(records.commits):
        partition = commit.place[0]
        times[partition].append(commit.time)
        so_far = highest[partition]
        so_far.append(max(commit.place, so_far[-1]) if so_far else commit.place)
    for consumer in records.deliveries:
        for delivery in consumer:
            partition = delivery.place[0]
            index = bisect_left(times[partition], delivery.start.time - READ_S_MAX)
            committed = highest[partition][index - 1] if index else delivery.start.place
            if delivery.place < max(committed, delivery.start.place):
                yield f"{delivery.key} {delivery.number} at {delivery.place}"
