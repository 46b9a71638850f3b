"""A new add: nothing was sent, stored or called back."""

from rhumbline.core.ledger.add_op import AddOp
from rhumbline.core.ledger.replica import Replica
from rhumbline.core.protocol.errors import RhumblineError
from rhumbline.core.protocol.ledger_metadata import DigestType
from rhumbline.core.wire import v2
from rhumbline.core.wire.entry import EntryDigest, encode_entry, master_key


def on_added(op: AddOp, replica: Replica, error: RhumblineError | None) -> None:
    raise AssertionError("nothing was sent")


def on_done(entry_id: int, error: RhumblineError | None, regions: tuple[str, ...]) -> None:
    raise AssertionError("nothing is done")


def test_new_add_was_neither_sent_nor_stored_nor_called_back() -> None:
    entry = encode_entry(EntryDigest(DigestType.CRC32C), 7, 3, 2, 100, b"payload")
    frame = v2.encode_add(master_key(b""), entry)
    op = AddOp(on_added, 3, frame, 7, on_done)
    assert (op.entry_id, op.size, op.frame) == (3, 7, frame)
    assert op.on_added is on_added
    assert op.on_done is on_done
    assert op.key == entry[:16]
    assert (op.acks, op.outstanding, op.write_mask, op.length) == (0, 0, 0, 0)
    assert op.pushed_at == 0
    assert (op.was_sent, op.is_complete, op.is_done) == (False, False, False)
    assert op.trace is None
