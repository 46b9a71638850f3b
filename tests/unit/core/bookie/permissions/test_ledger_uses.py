"""Every request that concerns a ledger needs a permission, and can be refused in its own form."""

import pytest

from rhumbline.core.bookie.permissions.ledger_uses import (
    NEEDS,
    WITHOUT_LEDGER,
    LedgerUse,
    Need,
    need_of,
    refusal_of,
)
from rhumbline.core.bookie.server.requests_v3 import _HANDLERS
from rhumbline.core.protocol.errors import PermissionDeniedError, ProtocolError, UnavailableError
from rhumbline.core.wire import bookkeeper_pb2 as pb
from rhumbline.core.wire import v2, v3
from rhumbline.core.wire.v2 import Code
from rhumbline.core.wire.v3 import Status
from rhumbline.tests.unit.core.bookie.bookie_world import KEY, entry, lac_body

APPEND, READ, FENCE = LedgerUse.APPEND, LedgerUse.READ, LedgerUse.FENCE
DENIED = PermissionDeniedError("no grant")


def batch_read(flags: int = 0, key: bytes = b"") -> bytes:
    return v2.encode_batch_read(7, 3, 88, count_max=9, bytes_max=99, flags=flags, master_key=key)


V2 = [
    (v2.encode_add(KEY, entry(7, 3)), APPEND),
    (v2.encode_add(KEY, entry(7, 3), v2.FLAG_RECOVERY_ADD), APPEND),
    (v2.encode_read(7, 3), READ),
    (v2.encode_read(7, 3, v2.FLAG_FENCE, KEY), FENCE),
    (batch_read(), READ),
    (batch_read(v2.FLAG_FENCE, KEY), FENCE),
]
V3 = [
    (v3.add_request(1, 7, 3, KEY, entry(7, 3)), APPEND),
    (v3.add_request(1, 7, 3, KEY, entry(7, 3), is_recovery=True), APPEND),
    (v3.read_request(1, 7, 3), READ),
    (v3.read_request(1, 7, 3, fence_key=KEY), FENCE),
    (v3.long_poll_request(1, 7, previous_lac=3, timeout_ms=100), READ),
    (v3.write_lac_request(1, 7, 3, KEY, lac_body(7, 3)), APPEND),
    (v3.read_lac_request(1, 7), READ),
    (v3.force_request(1, 7), APPEND),
    (v3.list_entries_request(1, 7), READ),
]


@pytest.mark.parametrize(("frame", "use"), V2)
def test_v2_requests_need_the_use_of_their_ledger(frame: bytes, use: LedgerUse) -> None:
    assert need_of(frame[4:]) == Need(7, use)
    response = v2.decode_response(refusal_of(frame[4:], DENIED)[4:])
    assert not isinstance(response, v2.AuthResponse)
    assert (response.code, response.ledger_id) == (Code.UNAUTHORIZED, 7)
    later = v2.decode_response(refusal_of(frame[4:], UnavailableError("stale"))[4:])
    assert not isinstance(later, v2.AuthResponse)
    assert later.code == Code.IO, "no proof of anything, so that clients try it again"


@pytest.mark.parametrize(("request_", "use"), V3)
def test_v3_requests_need_the_use_of_their_ledger(request_: pb.Request, use: LedgerUse) -> None:
    frame = v3.frame(request_)[4:]
    assert need_of(frame) == Need(7, use)
    response = v3.decode_response(refusal_of(frame, DENIED)[4:])
    assert v3.status_of(response) == Status.UNAUTHORIZED
    assert response.header.txn_id == request_.header.txn_id


def test_requests_about_no_ledger_need_nothing() -> None:
    assert need_of(v2.encode_auth("plugin", b"")[4:]) is None
    for request in (
        v3.auth_request(1, "plugin", b""),
        v3.bookie_info_request(1),
        v3.start_tls_request(1),
    ):
        assert need_of(v3.frame(request)[4:]) is None


def test_requests_that_are_refused_in_any_case_need_nothing() -> None:
    request = v3.read_request(1, 7, 3)
    request.read_request.ledger_id = -1
    assert need_of(v3.frame(request)[4:]) is None


def test_each_operation_that_a_bookie_serves_is_known() -> None:
    assert NEEDS.keys() | WITHOUT_LEDGER == _HANDLERS.keys()
    assert not NEEDS.keys() & WITHOUT_LEDGER


@pytest.mark.parametrize("frame", [b"\x02\x01\x00\x00", b"\x02\x63\x00\x00", b"\x0a\xff\xff\xff"])
def test_malformed_frames_raise(frame: bytes) -> None:
    with pytest.raises(ProtocolError):
        need_of(frame)
