"""Finds the anomalies of a log service in the operations that its clients recorded.

The anomalies are those for which Jepsen checks systems like Kafka, defined here by ``Anomaly``.
No reader learns of all messages of a log at once, so the checks use what is *known*: a
message is known if its send was acknowledged or if any poll returned it. A known message is in the
log for ever, because nothing is inserted below a message that could be read, and nothing is
truncated while the workload runs.
"""

from bisect import bisect_left, bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import pairwise

from .operations import (
    CommitOffset,
    KeyPoll,
    ListCommitted,
    Offset,
    Operation,
    Send,
    SendOutcome,
)


class Anomaly(StrEnum):
    """A kind of anomaly."""

    LOST_WRITE = "lost write"
    """A known message is in no final poll of its key, although a higher offset is in one."""
    UNSEEN_WRITE = "unseen write"
    """A known message is in no final poll of its key, and no higher offset is."""
    ABORTED_READ = "aborted read"
    """A poll returned a value whose send failed for certain, or that was not sent to this key."""
    DUPLICATE = "duplicate"
    """A value is known at two offsets."""
    INCONSISTENT_OFFSET = "inconsistent offset"
    """Two values are known at one offset."""
    INTERNAL_NONMONOTONIC_POLL = "internal nonmonotonic poll"
    """Within a poll an offset is not above the one before it, or it is below the poll's start."""
    EXTERNAL_NONMONOTONIC_POLL = "external nonmonotonic poll"
    """A poll begins at or below an offset that an earlier poll of its assignment returned."""
    INTERNAL_POLL_SKIP = "internal poll skip"
    """A known message lies between two neighbours within a poll, or between its start and its
    first message."""
    EXTERNAL_POLL_SKIP = "external poll skip"
    """A known message lies between the end of a poll and the beginning of the next one of its
    assignment."""
    NONMONOTONIC_SEND = "nonmonotonic send"
    """A send was called after another one of its key was acknowledged, by any client, and its
    offset is not above that of the other."""
    COMMITTED_BACK = "committed offset went back"
    """The committed offset is below one that was confirmed, or listed, before it was listed."""
    COMMITTED_BY_NOBODY = "committed by nobody"
    """The committed offset that was listed is none that a client had committed."""


@dataclass(slots=True)
class AnomalyReport:
    """The anomalies of a run, and how much was judged."""

    anomalies: dict[Anomaly, list[str]] = field(default_factory=dict)
    operations: Counter[str] = field(default_factory=Counter)
    """The number of operations by kind; sends also by outcome."""
    messages: int = 0
    """The number of known messages."""
    polled: int = 0
    """The number of messages that polls returned, repetitions included."""

    @property
    def is_clean(self) -> bool:
        """True if there is no anomaly."""
        return not self.anomalies


@dataclass(slots=True)
class _Log:
    """The evidence about the log of one key."""

    sent: dict[int, Send] = field(default_factory=dict)
    values: dict[Offset, set[int]] = field(default_factory=lambda: defaultdict(set))
    offsets: dict[int, set[Offset]] = field(default_factory=lambda: defaultdict(set))
    polls: list[KeyPoll] = field(default_factory=list)
    commits: list[CommitOffset] = field(default_factory=list)
    lists: list[ListCommitted] = field(default_factory=list)

    def add(self, operation: Operation) -> None:
        match operation:
            case Send():
                self.sent[operation.value] = operation
                if operation.offset is not None:
                    self._add_message(operation.offset, operation.value)
            case KeyPoll():
                self.polls.append(operation)
                for offset, value in operation.messages:
                    self._add_message(offset, value)
            case CommitOffset():
                self.commits.append(operation)
            case ListCommitted():
                self.lists.append(operation)

    def _add_message(self, offset: Offset, value: int) -> None:
        self.values[offset].add(value)
        self.offsets[value].add(offset)


def find_anomalies(operations: Iterable[Operation], start: Offset) -> AnomalyReport:
    """Judge the operations of all clients. ``start`` is the committed offset before the run."""
    report = AnomalyReport()
    logs: dict[str, _Log] = defaultdict(_Log)
    for operation in sorted(operations, key=lambda one: (one.called, one.returned)):
        report.operations[type(operation).__name__] += 1
        if isinstance(operation, Send):
            report.operations[f"Send {operation.outcome}"] += 1
        logs[operation.key].add(operation)
    found: dict[Anomaly, list[str]] = defaultdict(list)
    for key, log in sorted(logs.items()):
        report.messages += len(log.values)
        report.polled += sum(len(poll.messages) for poll in log.polls)
        for anomaly, text in _anomalies_of(log, start):
            found[anomaly].append(f"{key}: {text}")
    report.anomalies = dict(found)
    return report


_Found = Iterator[tuple[Anomaly, str]]


def _anomalies_of(log: _Log, start: Offset) -> _Found:
    known = sorted(log.values)
    yield from _missing(log)
    yield from _misplaced(log)
    for poll in log.polls:
        yield from _within_poll(poll, known)
    yield from _between_polls(log.polls, known)
    yield from _sends_in_disorder(log.sent.values())
    yield from _committed(log, start)


def _missing(log: _Log) -> _Found:
    final = {value for poll in log.polls if poll.is_final for _, value in poll.messages}
    highest = max(
        (offset for poll in log.polls if poll.is_final for offset, _ in poll.messages),
        default=(-1, -1, -1),
    )
    for value, offsets in sorted(log.offsets.items()):
        if value not in final:
            is_below = min(offsets) < highest
            kind = Anomaly.LOST_WRITE if is_below else Anomaly.UNSEEN_WRITE
            yield kind, f"{value} at {min(offsets)}, read up to {highest}"


def _misplaced(log: _Log) -> _Found:
    for value, offsets in sorted(log.offsets.items()):
        send = log.sent.get(value)
        if send is None:
            yield Anomaly.ABORTED_READ, f"{value} was never sent"
        elif send.outcome is SendOutcome.FAILED:
            yield Anomaly.ABORTED_READ, f"the send of {value} failed"
        if len(offsets) > 1:
            yield Anomaly.DUPLICATE, f"{value} at {sorted(offsets)}"
    for offset, values in sorted(log.values.items()):
        if len(values) > 1:
            yield Anomaly.INCONSISTENT_OFFSET, f"{sorted(values)} at {offset}"


def _within_poll(poll: KeyPoll, known: Sequence[Offset]) -> _Found:
    offsets = [offset for offset, _ in poll.messages]
    if not offsets:
        return
    if offsets[0] < poll.start:
        yield (
            Anomaly.INTERNAL_NONMONOTONIC_POLL,
            f"client {poll.client} began at {poll.start} and got {offsets[0]}",
        )
    elif skipped := _known_between(known, poll.start, offsets[0], is_start_included=True):
        yield Anomaly.INTERNAL_POLL_SKIP, _skip_text(poll, poll.start, offsets[0], skipped)
    for before, after in pairwise(offsets):
        if after <= before:
            yield (
                Anomaly.INTERNAL_NONMONOTONIC_POLL,
                f"client {poll.client} got {after} after {before}",
            )
        elif skipped := _known_between(known, before, after):
            yield Anomaly.INTERNAL_POLL_SKIP, _skip_text(poll, before, after, skipped)


def _between_polls(polls: Iterable[KeyPoll], known: Sequence[Offset]) -> _Found:
    last: dict[tuple[int, int], Offset] = {}
    for poll in polls:
        if poll.is_final or not poll.messages:
            continue
        assignment = (poll.client, poll.assignment)
        before, first = last.get(assignment), poll.messages[0][0]
        last[assignment] = poll.messages[-1][0]
        if before is None:
            continue
        if first <= before:
            text = f"client {poll.client} got {first} after a poll that ended with {before}"
            yield Anomaly.EXTERNAL_NONMONOTONIC_POLL, text
        elif skipped := _known_between(known, before, first):
            yield Anomaly.EXTERNAL_POLL_SKIP, _skip_text(poll, before, first, skipped)


def _known_between(
    known: Sequence[Offset], low: Offset, high: Offset, *, is_start_included: bool = False
) -> Sequence[Offset]:
    first = bisect_left(known, low) if is_start_included else bisect_right(known, low)
    return known[first : bisect_left(known, high)]


def _skip_text(poll: KeyPoll, before: Offset, after: Offset, skipped: Sequence[Offset]) -> str:
    text = f"client {poll.client} went from {before} to {after}"
    return f"{text} over {len(skipped)} messages, the first at {skipped[0]}"


def _sends_in_disorder(sends: Iterable[Send]) -> _Found:
    """Yield the sends whose offset is not above all those that were acknowledged before them."""
    acknowledged = sorted(
        (send for send in sends if send.offset is not None), key=lambda send: send.returned
    )
    highest = iter(acknowledged)
    following = next(highest, None)
    top: Send | None = None
    for send in sorted(acknowledged, key=lambda send: send.called):
        while following is not None and following.returned < send.called:
            top = following if top is None or _offset(following) > _offset(top) else top
            following = next(highest, None)
        if top is not None and _offset(send) <= _offset(top):
            text = f"{send.value} at {send.offset}, sent after {top.value} was at {top.offset}"
            yield Anomaly.NONMONOTONIC_SEND, text


def _offset(send: Send) -> Offset:
    assert send.offset is not None
    return send.offset


def _committed(log: _Log, start: Offset) -> _Found:
    evidence = [(commit.returned, commit.offset) for commit in log.commits if commit.is_confirmed]
    evidence += [(listed.returned, listed.offset) for listed in log.lists]
    evidence.sort()
    highest, index = start, 0
    for listed in log.lists:  # in the order of their calls
        while index < len(evidence) and evidence[index][0] < listed.called:
            highest = max(highest, evidence[index][1])
            index += 1
        if listed.offset < highest:
            text = f"client {listed.client} read {listed.offset} after {highest} was committed"
            yield Anomaly.COMMITTED_BACK, text
        is_committed = any(
            commit.offset == listed.offset and commit.called <= listed.returned
            for commit in log.commits
        )
        if listed.offset != start and not is_committed:
            text = f"client {listed.client} read {listed.offset}"
            yield Anomaly.COMMITTED_BY_NOBODY, text
