"""Invariants of seals, and of takeovers by repair."""

from collections.abc import Iterator

from .history import AppendOutcome
from .run_record import RunRecord, invariant


@invariant("G23")
def sealed_streams_acknowledge_nothing(record: RunRecord) -> Iterator[str]:
    """No append that is called after a seal was confirmed, and before the unsealing was ordered, is
    acknowledged."""
    for append in record.history.appends_with_outcome(AppendOutcome.OK):
        for seal in record.seals:
            if seal.confirmed_ms < append.called_ms < seal.unsealing_ms:
                yield f"{append} was called at {append.called_ms:.1f} ms, and {seal}"


@invariant("G22")
def repair_takes_streams_of_silent_writers_only(record: RunRecord) -> Iterator[str]:
    """No append was stored and acknowledged between the two observations that found its writer
    silent."""
    durable = record.observed.durable
    for takeover in record.takeovers:
        begin_ms, end_ms = takeover.silent_since * 1000, takeover.observed_at * 1000
        for append in record.history.appends_with_outcome(AppendOutcome.OK):
            if append.dlsn is None or append.ended_ms is None or append.ended_ms >= end_ms:
                continue
            stored_ms = min(durable.get(append.token, {}).values(), default=0.0)
            is_its = record.ledger_of(append.dlsn.lssn) == takeover.ledger_id
            if is_its and stored_ms > begin_ms:
                yield (
                    f"{append} was stored at {stored_ms:.1f} ms and acknowledged at "
                    f"{append.ended_ms:.1f} ms, but repair found no sign of life from "
                    f"{begin_ms:.1f} to {end_ms:.1f} ms"
                )
