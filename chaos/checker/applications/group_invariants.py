"""Invariants of topics that are written and read through proxies."""

from collections.abc import Iterator

from ....core.protocol.dlsn import Dlsn
from ..run_record import RunRecord, invariant
from .topic_use import TopicRecord


@invariant("G35")
def members_read_only_what_they_hold(record: RunRecord) -> Iterator[str]:
    """A member of a group is given records of a partition only while it holds the claim on the
    partition, except while it cannot know that its session was ended."""
    use = record.topic
    if use is None:
        return
    for at_ms, member, partition, positions in use.deliveries:
        holder = use.holder_at(partition, at_ms)
        if holder != member and not use.may_be_unnoticed(at_ms):
            yield (
                f"at {at_ms:.1f} ms member {member[:8]} was given {positions[0]} of partition "
                f"{partition}, whose claim {holder[:8] if holder else 'nobody'} held"
            )


@invariant("G36")
def groups_pass_only_what_was_delivered(record: RunRecord) -> Iterator[str]:
    """Each record below the position of a group in a partition was given to a member before."""
    use = record.topic
    if use is None:
        return
    given: dict[tuple[int, Dlsn], float] = {}
    for at_ms, _, partition, positions in use.deliveries:
        for position in positions:
            given.setdefault((partition, position), at_ms)
    for partition, versions in use.stored.items():
        passed: set[Dlsn] = set()
        for at_ms, stored in versions:
            for position, one in use.contents.get(partition, ()):
                if position >= stored or position in passed:
                    continue
                passed.add(position)
                if given.get((partition, position), float("inf")) > at_ms:
                    yield (
                        f"at {at_ms:.1f} ms the group passed {one} at {position} of partition "
                        f"{partition}, which no member was given"
                    )


@invariant("G37")
def records_of_a_key_keep_their_order(record: RunRecord) -> Iterator[str]:
    """A record that a writer appended to a topic is there at most once, and at its position if it
    was acknowledged. Records of one writer and one key are in one partition, in their order."""
    use = record.topic
    if use is None:
        return
    places: dict[TopicRecord, Dlsn] = {}
    last: dict[tuple[int, bytes], tuple[int, int]] = {}
    for partition, records in use.contents.items():
        for position, one in records:
            if one in places:
                yield f"{one} is at {places[one]} and again at {position} of partition {partition}"
                continue
            places[one] = position
            earlier = last.get((one.writer, use.keys[one]))
            if earlier is not None and (earlier[0] != partition or earlier[1] > one.number):
                yield (
                    f"{one} at {position} of partition {partition} follows number {earlier[1]} of "
                    f"the same key in partition {earlier[0]}"
                )
            last[one.writer, use.keys[one]] = (partition, one.number)
    for one, told in use.acknowledged.items():
        if use.contents and places.get(one) != told:
            yield f"{one} was acknowledged at {told} and is at {places.get(one)}"
