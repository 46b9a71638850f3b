"""The invariant of streams that are deleted and created again under the same name."""

from collections.abc import Iterator

from ...core.protocol.dlsn import FIRST_DLSN
from .history import AdminCall, AppendOutcome
from .run_record import RunRecord, StreamVersions, invariant


@invariant("G18")
def calls_affect_only_the_intended_stream(record: RunRecord) -> Iterator[str]:
    """A stream is created, truncated and deleted only by a call that named it, or that was in
    progress while it existed: never by an earlier call whose request arrives late or whose caller
    was overtaken. Its segments and subscriptions are deleted only with it, or by truncation."""
    stored = record.stored
    if not stored.identity:
        return  # a run without administrative calls
    admin_calls = record.history.admin_calls
    if not any(_may_create(call, stored) for call in admin_calls):
        yield f"stream {stored.identity} was created at {stored.created_ms:.1f} ms by no such call"
    for at_ms, start in stored.starts:
        candidates = (
            call for call in admin_calls if call.kind == "truncate" and call.position == start
        )
        if start != FIRST_DLSN and not any(_may_affect(call, stored, at_ms) for call in candidates):
            yield f"no call truncated stream {stored.identity} to {start} at {at_ms:.1f} ms"
    yield from _unintended_deletions(stored, admin_calls)
    yield from _unintended_removals(stored)


@invariant("G24")
def positions_are_accepted_by_their_own_stream(record: RunRecord) -> Iterator[str]:
    """A stored position is accepted by the stream that gave it out, and by no other stream that has
    the name later."""
    identity = record.stored.identity
    for read in record.history.reads:
        if not read.stream_id or not identity:
            continue
        where = f"{read.reader} at {read.start}"
        if identity.startswith(read.stream_id):
            if read.failure == "InvalidPositionError":
                yield f"{where} was refused by its own stream"
        elif read.ready_ms is not None and not record.may_be_old(read.called_ms, read.ready_ms):
            yield f"{where} was accepted by another stream, {identity}"


@invariant("G25")
def readers_of_a_stream_get_its_own_records(record: RunRecord) -> Iterator[str]:
    """Each record that a reader returns as one of a stream was sent to that stream, and each
    segment that the stream ever had names it."""
    identity = record.stored.identity
    if not identity:
        return
    for read in record.history.reads:  # those that got records of this stream
        for delivered in read.records:
            if not identity.startswith(delivered.dlsn.stream_id):
                yield f"{read.reader} got a record of stream {identity} as {delivered.dlsn}"
                break
    for lssn, versions in record.stored.segments.items():
        for version in versions:
            if version.segment is not None and not identity.startswith(version.segment.stream_id):
                yield (
                    f"segment {lssn} of stream {identity} names stream {version.segment.stream_id}"
                )
                break


@invariant("G21")
def deleted_streams_acknowledge_nothing(record: RunRecord) -> Iterator[str]:
    """An append that is called after the deletion of its stream is never acknowledged, by whichever
    writer, however long that was asleep or cut off."""
    deleted_ms = record.history.deleted_ms
    if deleted_ms is None:
        return
    for append in record.history.appends_with_outcome(AppendOutcome.OK):
        if append.called_ms > deleted_ms:
            yield (
                f"{append} was called at {append.called_ms:.1f} ms, although the stream was "
                f"deleted at {deleted_ms:.1f} ms"
            )


def _unintended_deletions(stored: StreamVersions, admin_calls: list[AdminCall]) -> Iterator[str]:
    at_ms = stored.deleting_ms
    if at_ms is None:
        return
    candidates = (call for call in admin_calls if call.kind == "delete")
    if not any(_may_affect(call, stored, at_ms) for call in candidates):
        yield f"no call deleted stream {stored.identity} at {at_ms:.1f} ms"
    if stored.removed_ms == at_ms:
        yield f"stream {stored.identity} was deleted at {at_ms:.1f} ms without a deletion mark"


def _unintended_removals(stored: StreamVersions) -> Iterator[str]:
    deleting_ms = float("inf") if stored.deleting_ms is None else stored.deleting_ms
    for lssn, versions in stored.segments.items():
        for version in versions:
            was_truncated = lssn < stored.start_at(version.at_ms).lssn
            if version.segment is None and version.at_ms < deleting_ms and not was_truncated:
                yield f"segment {lssn} of {stored.identity} was deleted at {version.at_ms:.1f} ms"
    for at_ms, name in stored.removed_subscriptions:
        if at_ms < deleting_ms:
            yield f"subscription {name} of {stored.identity} was deleted at {at_ms:.1f} ms"


def _may_create(call: AdminCall, stored: StreamVersions) -> bool:
    if call.kind != "create" or call.called_ms > stored.created_ms:
        return False
    return call.is_unknown or call.ended_ms is None or call.ended_ms >= stored.created_ms


def _may_affect(call: AdminCall, stored: StreamVersions, at_ms: float) -> bool:
    if call.identity is not None:
        return call.identity == stored.identity and call.called_ms <= at_ms
    was_in_progress = call.ended_ms is None or call.ended_ms >= stored.created_ms
    return was_in_progress and call.called_ms <= at_ms
