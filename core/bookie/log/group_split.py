"""Finds and divides the groups in which large ledgers would delay small ones.

The order of records is kept within each ledger. No add is moved behind an urgent state record, such
as a fence, since a group with one is never divided (rules BKE-9, BKE-10).
"""

from struct import Struct

from .commit_group import CommitGroup, Outbox, WaitingAdd
from .log_format import RECORD_HEADER_BYTES

LARGE_LEDGER_BYTES = 256 << 10
"""Bytes of one ledger in a group above which it delays the others noticeably."""

SMALL_PART = 8
"""Large ledgers are set aside if the others have at most one part in this number of the bytes: then
the sync of the others is short beside that of the whole group."""

_LEDGER_ID = Struct(">q")


def split_group(
    group: CommitGroup, waiting: dict[int, int]
) -> tuple[CommitGroup, CommitGroup] | None:
    """Return the rest of a group, and its large ledgers; None if it is written as it is.

    The keys of ``waiting`` are the ledgers of which earlier adds are set aside.
    """
    if group.has_urgent_state or not (waiting or group.body_bytes > LARGE_LEDGER_BYTES):
        return None
    large = _large_ledgers(group, waiting)
    if not large:
        return None
    first, second = CommitGroup(), CommitGroup()
    first.states, first.callbacks = group.states, group.callbacks
    _divide_records(group, large, first, second)
    _divide_outboxes(group, large, first, second)
    return first, second


def _large_ledgers(group: CommitGroup, waiting: dict[int, int]) -> dict[int, None]:
    """Return the ledgers to set aside: none unless the rest is small, and not nothing."""
    sizes: dict[int, int] = {}
    total = 0
    for ledger, _, _, _, size in group.adds:
        sizes[ledger.ledger_id] = sizes.get(ledger.ledger_id, 0) + size
        total += size
    large: dict[int, None] = {}
    rest = total
    for ledger_id, size in sizes.items():
        if size > LARGE_LEDGER_BYTES or ledger_id in waiting:
            large[ledger_id] = None
            rest -= size
    return large if waiting or 0 < rest <= total // SMALL_PART else {}


def _divide_records(
    group: CommitGroup, large: dict[int, None], first: CommitGroup, second: CommitGroup
) -> None:
    buffers = group.buffers
    index = end = 0  # of what is divided already: buffers, and bytes of the body
    for ledger, entry_id, lac, offset, size in group.adds:
        while end < offset - RECORD_HEADER_BYTES:
            first.append_encoded(buffers[index : index + 1])  # a state record
            end += len(buffers[index])
            index += 1
        part = second if ledger.ledger_id in large else first
        part.adds.append((ledger, entry_id, lac, part.body_bytes + RECORD_HEADER_BYTES, size))
        part.append_encoded(buffers[index : index + 2])
        end = offset + size
        index += 2
    for record in buffers[index:]:
        first.append_encoded([record])


def _divide_outboxes(
    group: CommitGroup, large: dict[int, None], first: CommitGroup, second: CommitGroup
) -> None:
    """Puts each add into the outbox of the group that has its entry.

    The bytes of a divided outbox stay in flight until its last add is durable.
    """
    for sink, outbox in group.outboxes.items():
        moved = [add for add in outbox.adds if _ledger_id_of(add) in large]
        if not moved:
            first.outboxes[sink] = outbox
        elif len(moved) == len(outbox.adds):
            second.outboxes[sink] = outbox
        else:
            kept = Outbox()
            kept.adds = [add for add in outbox.adds if _ledger_id_of(add) not in large]
            kept.began, kept.has_requests = outbox.began, outbox.has_requests
            outbox.adds = moved
            first.outboxes[sink], second.outboxes[sink] = kept, outbox


def _ledger_id_of(add: bytes | WaitingAdd) -> int:
    if isinstance(add, bytes):
        ledger_id: int = _LEDGER_ID.unpack_from(add)[0]
        return ledger_id
    return add.ledger_id
