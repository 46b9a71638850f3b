"""What holds when streams are deleted and made again under their names: each is one of its own."""

from collections.abc import Iterator

from ...core.protocol.dlsn import FIRST_DLSN
from .history import Wish
from .run_record import RunRecord, StreamVersions, invariant


@invariant("G18")
def only_what_was_meant_is_hit(record: RunRecord) -> Iterator[str]:
    """A stream is made, truncated and deleted by a call that was made for it, or that was under way
    while it was there: never by an earlier one whose request comes late or that was overtaken. Its
    segments and subscriptions go with it, or by truncation."""
    stored = record.stored
    if not stored.identity:
        return  # nobody made, truncated and deleted streams in that run
    wishes = record.history.wishes
    if not any(_may_make(wish, stored) for wish in wishes):
        yield f"stream {stored.identity} was made at {stored.made_ms:.1f} ms, and nobody meant to"
    for at_ms, start in stored.starts:
        meant = (one for one in wishes if one.kind == "truncate" and one.position == start)
        if start != FIRST_DLSN and not any(_may_hit(one, stored, at_ms) for one in meant):
            yield f"nobody meant to truncate stream {stored.identity} to {start} at {at_ms:.1f} ms"
    yield from _deleted_by_nobody(stored, wishes)
    yield from _lost_nodes(stored)


def _deleted_by_nobody(stored: StreamVersions, wishes: list[Wish]) -> Iterator[str]:
    at_ms = stored.deleting_ms
    if at_ms is None:
        return
    meant = (one for one in wishes if one.kind == "delete")
    if not any(_may_hit(one, stored, at_ms) for one in meant):
        yield f"nobody meant to delete stream {stored.identity} at {at_ms:.1f} ms"
    if stored.gone_ms == at_ms:
        yield f"stream {stored.identity} went at {at_ms:.1f} ms without being marked before"


def _lost_nodes(stored: StreamVersions) -> Iterator[str]:
    deleting_ms = float("inf") if stored.deleting_ms is None else stored.deleting_ms
    for lssn, versions in stored.segments.items():
        for version in versions:
            was_truncated = lssn < stored.start_at(version.at_ms).lssn
            if version.segment is None and version.at_ms < deleting_ms and not was_truncated:
                yield f"segment {lssn} of {stored.identity} went at {version.at_ms:.1f} ms"
    for at_ms, name in stored.unsubscribed:
        if at_ms < deleting_ms:
            yield f"subscription {name} of {stored.identity} went at {at_ms:.1f} ms"


def _may_make(wish: Wish, stored: StreamVersions) -> bool:
    if wish.kind != "create" or wish.called_ms > stored.made_ms:
        return False
    return wish.is_unknown or wish.ended_ms is None or wish.ended_ms >= stored.made_ms


def _may_hit(wish: Wish, stored: StreamVersions, at_ms: float) -> bool:
    if wish.identity is not None:
        return wish.identity == stored.identity and wish.called_ms <= at_ms
    was_under_way = wish.ended_ms is None or wish.ended_ms >= stored.made_ms
    return was_under_way and wish.called_ms <= at_ms
