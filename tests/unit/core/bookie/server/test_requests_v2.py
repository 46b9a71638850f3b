"""Requests in the v2 form get the fields of their frames, and respond in the same form."""

from typing import Any, cast

import pytest

from rhumbline.core.bookie.server.requests import BatchRead, EntryAdd, EntryRead
from rhumbline.core.bookie.server.requests_v2 import serve
from rhumbline.core.protocol.bookie_id import BookieId
from rhumbline.core.protocol.errors import (
    LedgerFencedError,
    NoSuchEntryError,
    ProtocolError,
)
from rhumbline.core.wire import handshake, v2
from rhumbline.core.wire.frames import FRAME_BYTES_MAX
from rhumbline.core.wire.v2 import Code
from rhumbline.tests.unit.core.bookie.bookie_world import KEY, entry


class Bookie:
    """Stands for the connection and the service: notes what arrives there."""

    bookie = BookieId("b1@00000001")

    def __init__(self) -> None:
        self.adds: list[EntryAdd] = []
        self.reads: list[EntryRead] = []
        self.sent: list[bytes] = []
        self.closed: list[str] = []

    def add(self, op: EntryAdd) -> None:
        self.adds.append(op)

    def read(self, op: EntryRead) -> None:
        self.reads.append(op)

    def send(self, frame: bytes) -> None:
        self.sent.append(frame)

    def close(self, reason: str) -> None:
        self.closed.append(reason)

    def serve(self, frame: bytes) -> None:
        serve(cast(Any, self), cast(Any, self), frame[4:])


def served_read(frame: bytes) -> EntryRead:
    bookie = Bookie()
    bookie.serve(frame)
    (read,) = bookie.reads
    assert read.connection is cast(Any, bookie)
    return read


@pytest.mark.parametrize("flags", [0, v2.FLAG_RECOVERY_ADD, v2.FLAG_HIGH_PRIORITY])
def test_add_has_the_entry_its_key_and_whether_it_belongs_to_a_recovery(flags: int) -> None:
    bookie, data = Bookie(), entry(7, 4)
    bookie.serve(v2.encode_add(KEY, data, flags))
    (add,) = bookie.adds
    assert add.connection is cast(Any, bookie)
    assert (add.ledger_id, add.master_key, add.entry) == (7, KEY, data)
    assert add.is_recovery == (flags == v2.FLAG_RECOVERY_ADD)
    assert add.waiting() is None, "its key is enough"
    assert v2.decode_response(add.response(None)[4:]) == v2.AddResponse(Code.OK, 7, 4)
    response = v2.decode_response(add.response(LedgerFencedError("fenced"))[4:])
    assert response == v2.AddResponse(Code.FENCED, 7, 4)


@pytest.mark.parametrize("is_fencing", [False, True])
def test_read_has_the_ids_and_the_key_of_a_fence(is_fencing: bool) -> None:
    key = KEY if is_fencing else b""
    read = served_read(v2.encode_read(7, -1, v2.FLAG_FENCE if is_fencing else 0, key))
    assert (read.ledger_id, read.entry_id, read.master_key) == (7, -1, key)
    assert read.is_fencing is is_fencing
    response = v2.decode_response(read.response(None, b"entry")[4:])
    assert response == v2.ReadResponse(Code.OK, 7, -1, b"entry")
    response = v2.decode_response(read.response(NoSuchEntryError("none"))[4:])
    assert response == v2.ReadResponse(Code.NO_ENTRY, 7, -1, b"")


@pytest.mark.parametrize("is_fencing", [False, True])
def test_batch_read_has_its_limits_and_answers_with_its_number(is_fencing: bool) -> None:
    flags, key = (v2.FLAG_FENCE, KEY) if is_fencing else (0, b"")
    frame = v2.encode_batch_read(
        7, 3, 88, count_max=9, bytes_max=1_000, flags=flags, master_key=key
    )
    read = served_read(frame)
    assert isinstance(read, BatchRead)
    assert (read.ledger_id, read.entry_id, read.master_key) == (7, 3, key)
    assert read.is_fencing is is_fencing
    assert (read.count_max, read.entry_bytes) == (9, v2.BATCH_ENTRY_BYTES)
    error = v2.decode_response(read.response(NoSuchEntryError("none"))[4:])
    assert error == v2.BatchReadResponse(Code.NO_ENTRY, 7, 3, 88, [])
    parts = b"".join(read.batch_response([entry(7, 3), entry(7, 4)]))
    assert v2.decode_response(parts[4:]) == v2.BatchReadResponse(
        Code.OK, 7, 3, 88, [entry(7, 3), entry(7, 4)]
    )


@pytest.mark.parametrize(
    ("requested", "granted"),
    [(1_000, 1_000), (1, 1), (0, FRAME_BYTES_MAX), (-1, FRAME_BYTES_MAX),
     (FRAME_BYTES_MAX, FRAME_BYTES_MAX), (FRAME_BYTES_MAX + 1, FRAME_BYTES_MAX)],
)  # fmt: skip
def test_response_of_a_batch_read_fits_into_its_limit_and_into_a_frame(
    requested: int, granted: int
) -> None:
    read = served_read(v2.encode_batch_read(7, 3, 88, count_max=9, bytes_max=requested))
    assert isinstance(read, BatchRead)
    empty = b"".join(read.batch_response([]))
    assert read.bytes_max == granted - len(empty) - 4 + (len(empty) - v2.BATCH_RESPONSE_BYTES)


def test_handshake_with_another_bookie_ends_the_connection() -> None:
    for wanted, closed in ((Bookie.bookie, []), (BookieId("b1@00000002"), ["other-bookie-wanted"])):
        bookie = Bookie()
        bookie.serve(v2.encode_auth(handshake.PLUGIN, handshake.encode_hello(wanted)))
        (frame,) = bookie.sent
        response = v2.decode_response(frame[4:])
        payload = handshake.encode_response(wanted, Bookie.bookie)
        assert response == v2.AuthResponse(handshake.PLUGIN, payload)
        assert bookie.closed == closed
    with pytest.raises(ProtocolError):
        Bookie().serve(v2.encode_auth(handshake.PLUGIN, b"\x01"))


def test_client_without_the_handshake_is_accepted() -> None:
    bookie = Bookie()
    bookie.serve(v2.encode_auth("OtherPlugin", b"anything"))
    response = v2.decode_response(bookie.sent[0][4:])
    assert response == v2.AuthResponse(handshake.APACHE_NO_AUTH_PLUGIN, b"")
    assert bookie.closed == []
