"""Judges the first bytes of a connection that is not encrypted, if the bookie has TLS (BKE-32)."""

from ...protocol.errors import ProtocolError
from ...runtime.primitives.transport_security import PASS, WAIT, FirstStep, FirstVerdict
from ...wire import bookkeeper_pb2 as pb
from ...wire import v2, v3
from ...wire.frames import LENGTH
from ...wire.handshake import TLS_REQUIRED_PLUGIN

_FRAME_BYTES_MAX = 16 * 1024
"""Largest frame for which a refusal is sent; nobody may fill the memory before TLS begins."""
_SILENT_REFUSAL = FirstVerdict(FirstStep.REFUSE)
_V2_BYTE = 0x02


def judge_plain_requests(data: bytes, *, is_tls_required: bool) -> FirstVerdict:
    """Return what a bookie does with a connection that begins with ``data``.

    START_TLS, alone in its first frame, begins TLS. What follows it before the response was sent
    by somebody who does not wait for it, perhaps to have it taken for encrypted: it is refused.
    Any other request is served, or refused as unauthorized if TLS is required.
    """
    if len(data) < LENGTH.size:
        return WAIT
    (size,) = LENGTH.unpack_from(data)
    if not 0 < size <= _FRAME_BYTES_MAX:
        return _SILENT_REFUSAL if is_tls_required else PASS
    stop = LENGTH.size + size
    if len(data) < stop:
        is_v2 = len(data) > LENGTH.size and data[LENGTH.size] == _V2_BYTE
        return PASS if is_v2 and not is_tls_required else WAIT
    frame = data[LENGTH.size : stop]
    try:
        if frame[0] == _V2_BYTE:
            return _judge_v2(frame) if is_tls_required else PASS
        request = v3.decode_request(frame)
    except ProtocolError:
        return _SILENT_REFUSAL if is_tls_required else PASS  # counted as malformed where it passes
    if request.header.operation == pb.START_TLS and request.header.version == pb.VERSION_THREE:
        if len(data) > stop:
            return _SILENT_REFUSAL
        response = v3.refusal(request, v3.Status.OK)
        response.start_tls_response.SetInParent()
        return FirstVerdict(FirstStep.UPGRADE, v3.frame(response))
    if not is_tls_required:
        return PASS
    refusal = v3.refusal(request, v3.Status.UNAUTHORIZED)
    return FirstVerdict(FirstStep.REFUSE, v3.frame(refusal))


def _judge_v2(frame: bytes) -> FirstVerdict:
    request = v2.decode_request(frame)
    if isinstance(request, v2.AuthRequest):
        response = v2.encode_auth(TLS_REQUIRED_PLUGIN, b"")
    else:
        response = v2.encode_refusal(request, v2.Code.UNAUTHORIZED)
    return FirstVerdict(FirstStep.REFUSE, response)
