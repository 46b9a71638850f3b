"""The control record that ends a stream. It carries the last txid of the data (rule STR-18)."""

import struct

from ...protocol.errors import CorruptionError
from ...protocol.record_set import TXID_END_OF_STREAM, Kind, RecordSet, encode_control

_LAST_TXID = struct.Struct("<q")


def encode_end_of_stream(last_txid: int, *, position: int, created_ms: int) -> bytes:
    """Encode the control record that follows data up to ``last_txid`` (0: no data)."""
    return encode_control(
        Kind.END_OF_STREAM,
        txid=TXID_END_OF_STREAM,
        position=position,
        created_ms=created_ms,
        data=_LAST_TXID.pack(last_txid),
    )


def last_txid_of(final: RecordSet) -> tuple[int, bool]:
    """Return (last txid of the data up to ``final``, True if ``final`` ends the stream)."""
    if final.kind != Kind.END_OF_STREAM:
        return final.last_txid, False
    data = final.payloads()[0]
    if len(data) != _LAST_TXID.size:
        raise CorruptionError(f"end-of-stream record has {len(data)} bytes, not {_LAST_TXID.size}")
    return int(_LAST_TXID.unpack(data)[0]), True
