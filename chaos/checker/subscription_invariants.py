"""Invariants of subscriptions whose records are acknowledged one by one, and of creation times."""

from collections import Counter
from collections.abc import Iterator

from ...core.log.metadata.subscriptions import Subscription
from ...core.protocol.dlsn import Dlsn
from ...core.protocol.errors import CorruptionError
from ...core.protocol.record_set import RecordSet, decode_entry
from .run_record import RunRecord, invariant


@invariant("G28")
def positions_pass_only_acknowledged_records(record: RunRecord) -> Iterator[str]:
    """Each record below the stored position of a subscription, or in one of its stored ranges, was
    acknowledged by the application before, or its dead letter was stored before."""
    use = record.subscription
    if use is None:
        return
    records = _positions(record)
    passed: set[Dlsn] = set()
    for at_ms, stored in use.versions:
        for position in records:
            if position in passed or not _is_passed(stored, position):
                continue
            passed.add(position)
            done_ms = min(
                use.acknowledged.get(position, float("inf")), use.dead.get(position, float("inf"))
            )
            if done_ms > at_ms:
                yield (
                    f"at {at_ms:.1f} ms the subscription passed {position}, which was neither "
                    "acknowledged nor stored as a dead letter"
                )


@invariant("G29")
def deliveries_are_counted_before_they_happen(record: RunRecord) -> Iterator[str]:
    """No record is delivered more often than the limit, and the highest number of deliveries that
    was reported for it is never below the number that happened."""
    use = record.subscription
    if use is None:
        return
    happened: Counter[Dlsn] = Counter()
    reported: Counter[Dlsn] = Counter()
    for at_ms, position, number in use.deliveries:
        happened[position] += 1
        reported[position] = max(reported[position], number)
        if happened[position] > reported[position]:
            yield (
                f"at {at_ms:.1f} ms {position} was delivered for the {happened[position]}th time, "
                f"reported as delivery {reported[position]}"
            )
        if happened[position] > use.deliveries_max:
            yield (
                f"{position} was delivered {happened[position]} times, the limit is "
                f"{use.deliveries_max}"
            )


@invariant("G30")
def creation_times_never_fall(record: RunRecord) -> Iterator[str]:
    """The creation times of the record sets of a stream never fall, and no segment was completed
    before the creation time of its last one."""
    latest_ms, where = 0, ""
    for lssn in sorted(record.segments):
        ledger_id = record.ledger_of(lssn)
        copies = {} if ledger_id is None else record.copies.get(ledger_id, {})
        payloads = {entry_id: copy.payload for (entry_id, _), copy in copies.items()}
        for entry_id in sorted(payloads):
            for record_set in _sets_in(payloads[entry_id]):
                if record_set.created_ms < latest_ms:
                    yield (
                        f"the set at {lssn}:{entry_id}:{record_set.slot} was created at "
                        f"{record_set.created_ms}, the one at {where} at {latest_ms}"
                    )
                latest_ms = record_set.created_ms
                where = f"{lssn}:{entry_id}:{record_set.slot}"
        last = record.segments[lssn][-1].segment
        if last is not None and payloads and last.is_completed and last.completed_ms < latest_ms:
            yield f"segment {lssn} was completed at {last.completed_ms}, before {where}"


def _sets_in(payload: bytes) -> list[RecordSet]:
    """Return the record sets of an entry; none if it holds something else."""
    try:
        return decode_entry(payload)
    except CorruptionError:
        return []


def _is_passed(stored: Subscription, position: Dlsn) -> bool:
    if position < stored.position:
        return True
    held = stored.acknowledgements
    return held is not None and held.contains(position)


def _positions(record: RunRecord) -> list[Dlsn]:
    """Return the positions of all records that complete readers got."""
    found = {
        delivered.dlsn
        for read in record.history.reads
        if read.is_complete
        for delivered in read.records
    }
    return sorted(found)
