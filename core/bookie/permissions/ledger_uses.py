"""The use of a ledger that a frame requests, and the response that refuses it. Pure."""

from collections.abc import Callable
from enum import StrEnum
from typing import NamedTuple

from ...protocol.errors import RhumblineError
from ...wire import bookkeeper_pb2 as pb
from ...wire import v2, v3
from ...wire.error_codes import code_for, status_for
from ...wire.v3 import Operation

_V2_BYTE = 0x02


class LedgerUse(StrEnum):
    """A use of a ledger, which needs a permission."""

    APPEND = "append"
    """Plain adds and those of a recovery, explicit LACs, and requests to make them durable."""
    READ = "read"
    """Reads, long polls, LACs and lists of entries."""
    FENCE = "fence"
    """Reads that fence: they change the ledger, and return an entry."""


class Need(NamedTuple):
    """The permission that a frame needs."""

    ledger_id: int
    use: LedgerUse


def need_of(frame: bytes) -> Need | None:
    """Return what a frame needs; None if it concerns no ledger, or is refused in any case.

    Raises ProtocolError if it is malformed.
    """
    if frame[0] == _V2_BYTE:
        return _need_v2(v2.decode_request(frame))
    request = v3.decode_request(frame)
    if v3.rejection_status(request) is not None:
        return None
    operation = Operation(request.header.operation)
    return None if operation in WITHOUT_LEDGER else NEEDS[operation](request)


def refusal_of(frame: bytes, error: RhumblineError) -> bytes:
    """Return the response that refuses a frame which has a need."""
    if frame[0] == _V2_BYTE:
        request = v2.decode_request(frame)
        assert not isinstance(request, v2.AuthRequest), "it has no need"
        return v2.encode_refusal(request, code_for(error))
    return v3.frame(v3.refusal(v3.decode_request(frame), status_for(error)))


def _need_v2(request: v2.Request) -> Need | None:
    if isinstance(request, v2.AddRequest):
        return Need(request.ledger_id, LedgerUse.APPEND)
    if isinstance(request, v2.ReadRequest | v2.BatchReadRequest):
        is_fencing = request.flags & v2.FLAG_FENCE
        return Need(request.ledger_id, LedgerUse.FENCE if is_fencing else LedgerUse.READ)
    return None


def _need_of_read(request: pb.Request) -> Need:
    body = request.read_request
    is_fencing = body.HasField("flag") and body.flag == pb.ReadRequest.FENCE_LEDGER
    return Need(body.ledger_id, LedgerUse.FENCE if is_fencing else LedgerUse.READ)


NEEDS: dict[Operation, Callable[[pb.Request], Need]] = {
    Operation.ADD: lambda request: Need(request.add_request.ledger_id, LedgerUse.APPEND),
    Operation.WRITE_LAC: lambda request: Need(
        request.write_lac_request.ledger_id, LedgerUse.APPEND
    ),
    Operation.FORCE: lambda request: Need(request.force_ledger_request.ledger_id, LedgerUse.APPEND),
    Operation.READ: _need_of_read,
    Operation.READ_LAC: lambda request: Need(request.read_lac_request.ledger_id, LedgerUse.READ),
    Operation.LIST_ENTRIES: lambda request: Need(
        request.get_list_of_entries_request.ledger_id, LedgerUse.READ
    ),
}
"""The needs of v3 requests by operation."""

WITHOUT_LEDGER = frozenset({Operation.AUTH, Operation.BOOKIE_INFO, Operation.START_TLS})
"""Operations that need no permission: they concern the bookie, and none of its ledgers."""
