"""Invariants of seals, of takeovers by repair, and of the permissions of principals."""

from collections.abc import Iterator

from .history import AppendOutcome, TenantDelivery
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
                    f"{append.ended_ms:.1f} ms, but repair found no activity "
                    f"from {begin_ms:.1f} to {end_ms:.1f} ms"
                )


@invariant("G32")
def revoked_principals_get_nothing(record: RunRecord) -> Iterator[str]:
    """From the bound after a revocation was confirmed, until a new grant is ordered, no proxy
    acknowledges an append of the principal or delivers a record to it. The times are those at which
    the proxy hands the message over to be sent."""
    use = record.grants
    if use is None:
        return
    for delivery in use.deliveries:
        for from_ms, to_ms in use.revoked.get((delivery.principal, delivery.is_append), ()):
            if from_ms + use.bound_ms < delivery.at_ms < to_ms:
                yield (
                    f"{_shown(delivery)}, although its permission was revoked at {from_ms:.1f} ms "
                    f"and the bound is {use.bound_ms} ms"
                )


@invariant("G33")
def tenants_see_their_own_records_only(record: RunRecord) -> Iterator[str]:
    """No proxy acknowledges an append to, or delivers a record of, a stream on which the principal
    has never had a grant."""
    use = record.grants
    if use is None:
        return
    for delivery in use.deliveries:
        if delivery.stream not in use.streams[delivery.principal]:
            yield f"{_shown(delivery)}, which is a stream of another principal"
    for principal, stream in use.seen:
        if stream not in use.streams[principal]:
            yield f"{principal} read records of {stream}, which is a stream of another principal"


def _shown(delivery: TenantDelivery) -> str:
    what = "an append was acknowledged" if delivery.is_append else "records were delivered"
    return f"{what} to {delivery.principal} at {delivery.at_ms:.1f} ms on {delivery.stream}"
