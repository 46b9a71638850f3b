"""A commit group holds records as they are written, and who waits for them."""

import asyncio

import pytest

from rhumbline.core.bookie.ledger_records import LedgerRecord
from rhumbline.core.bookie.log.commit_group import AddSink, CommitGroup, DurabilityWaiter, Outbox
from rhumbline.core.bookie.log.log_format import encode_record
from rhumbline.core.protocol.errors import DiskFullError, RhumblineError


class IgnoringSink(AddSink):
    """A sink that is only an identity here."""

    def deliver(self, outbox: Outbox) -> None:
        """Ignores the adds."""

    def reject(self, outbox: Outbox, error: RhumblineError) -> None:
        """Ignores the failure."""


async def test_records_are_written_in_order_and_entries_know_their_offset() -> None:
    group = CommitGroup()
    assert (group.buffers, group.body_bytes, group.count, group.states) == ([], 0, 0, [])
    outbox = group.outbox_of(IgnoringSink())
    ledger = LedgerRecord(7, bytes(20))
    group.append_entry(ledger, 5, 3, b"entry", outbox)
    group.append_state(b"state")
    group.append_entry(ledger, 6, 4, b"another", outbox)
    records = [encode_record(b"entry"), encode_record(b"state", is_state=True)]
    body = b"".join([*records, encode_record(b"another")])
    assert b"".join(group.buffers) == body
    assert (group.body_bytes, group.count, group.states) == (len(body), 3, [b"state"])
    assert group.adds == [(ledger, 5, 3, 8, 5), (ledger, 6, 4, 34, 7)]
    assert [body[at : at + size] for *_, at, size in group.adds] == [b"entry", b"another"]
    assert outbox.request_bytes == 12


async def test_each_sink_has_one_outbox_in_a_group() -> None:
    group = CommitGroup()
    one, other = IgnoringSink(), IgnoringSink()
    outbox = group.outbox_of(one)
    assert (outbox.adds, outbox.has_requests, outbox.request_bytes) == ([], False, 0)
    assert group.outbox_of(one) is outbox
    assert group.outbox_of(other) is not outbox
    assert list(group.outboxes) == [one, other]
    assert CommitGroup().outbox_of(one) is not outbox


async def test_waiter_returns_the_outcome_and_ignores_it_after_a_cancellation() -> None:
    durable, refused, cancelled = DurabilityWaiter(), DurabilityWaiter(), DurabilityWaiter()
    durable(None)
    await durable.done
    refused(DiskFullError("full"))
    with pytest.raises(DiskFullError, match="full"):
        await refused.done
    cancelled.done.cancel()
    cancelled(None)
    cancelled(DiskFullError("full"))
    with pytest.raises(asyncio.CancelledError):
        await cancelled.done
