"""Requests and responses in the v2 form."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ...protocol.errors import RhumblineError
from ...wire import v2
from ...wire.error_codes import code_for
from ...wire.frames import FRAME_BYTES_MAX
from .authentication import authenticate
from .requests import BatchRead, EntryAdd, EntryRead, RequestConnection

if TYPE_CHECKING:
    from .connection import ClientConnection
    from .entry_service import EntryService


def serve(connection: "ClientConnection", service: "EntryService", frame: bytes) -> None:
    """Serves one v2 frame. Raises ProtocolError if it is malformed."""
    request = v2.decode_request(frame)
    if isinstance(request, v2.AddRequest):
        service.add(_Add(connection, request))
    elif isinstance(request, v2.ReadRequest):
        service.read(_Read(connection, request))
    elif isinstance(request, v2.BatchReadRequest):
        service.read(_BatchRead(connection, request))
    else:
        response = authenticate(request.plugin, request.payload, service.bookie)
        connection.send(v2.encode_auth(response.plugin, response.payload))
        if not response.is_accepted:
            connection.close("other-bookie-wanted")


class _Add(EntryAdd):
    __slots__ = ("_entry_id",)

    def __init__(self, connection: RequestConnection, request: v2.AddRequest) -> None:
        super().__init__(
            connection,
            request.ledger_id,
            request.master_key,
            request.entry,
            is_recovery=bool(request.flags & v2.FLAG_RECOVERY_ADD),
        )
        self._entry_id = request.entry_id

    def waiting(self) -> None:
        return None

    def response(self, error: RhumblineError | None) -> bytes:
        code = v2.Code.OK if error is None else code_for(error)
        return v2.encode_add_response(code, self.ledger_id, self._entry_id)


class _Read(EntryRead):
    __slots__ = ()

    def __init__(self, connection: RequestConnection, request: v2.ReadRequest) -> None:
        super().__init__(
            connection,
            request.ledger_id,
            request.entry_id,
            request.master_key,
            is_fencing=bool(request.flags & v2.FLAG_FENCE),
        )

    def response(self, error: RhumblineError | None, entry: bytes = b"") -> bytes:
        code = v2.Code.OK if error is None else code_for(error)
        return v2.encode_read_response(code, self.ledger_id, self.entry_id, entry)


class _BatchRead(BatchRead):
    __slots__ = ("_request_id",)

    def __init__(self, connection: RequestConnection, request: v2.BatchReadRequest) -> None:
        super().__init__(
            connection,
            request.ledger_id,
            request.first_entry_id,
            request.master_key,
            is_fencing=bool(request.flags & v2.FLAG_FENCE),
        )
        requested = request.bytes_max if request.bytes_max > 0 else FRAME_BYTES_MAX
        self.count_max = request.count_max
        self.bytes_max = min(requested, FRAME_BYTES_MAX) - v2.BATCH_RESPONSE_BYTES - 4
        self.entry_bytes = v2.BATCH_ENTRY_BYTES
        self._request_id = request.request_id

    def response(self, error: RhumblineError | None, entry: bytes = b"") -> bytes:
        assert error is not None, "batch_response encodes the entries"
        return v2.encode_batch_read_response(
            code_for(error), self.ledger_id, self.entry_id, self._request_id
        )

    def batch_response(self, entries: Sequence[bytes | memoryview]) -> list[bytes | memoryview]:
        return v2.batch_read_response_parts(
            v2.Code.OK, self.ledger_id, self.entry_id, self._request_id, entries
        )
