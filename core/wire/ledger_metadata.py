"""Ledger metadata in the format that BookKeeper stores in a metadata store.

The line ``BookieMetadataFormatVersion\\t<n>\\n`` is followed by a body. For n = 3, the version that
``encode`` writes, it is a varint length and a protobuf message. For n = 2 it is the same message as
protobuf text. For n = 1, the oldest ledgers, it is lines of text that have no ack quorum, digest
type or password. ``decode`` reads all three.

While a ledger is not closed, its length is written as 0 and its last entry as -1, as Java does.
Custom metadata is preserved, whatever its keys. Java writes the creation token as 0 when it changes
a ledger, so a token identifies a creation and no later state.
"""

import re
from collections.abc import Iterable
from typing import cast

from google.protobuf.message import DecodeError

from ..protocol.bookie_id import BookieId, check_bookie_id
from ..protocol.errors import CorruptionError, IllegalQuorumError, InvalidArgumentError
from ..protocol.ledger_metadata import NO_ENTRY, DigestType, Fragment, LedgerMetadata, LedgerState
from .formats_pb2 import LedgerMetadataFormat
from .protobuf_parsing import parse, parse_text

_HEADER = b"BookieMetadataFormatVersion\t%d\n"
_HEADER_PATTERN = re.compile(rb"BookieMetadataFormatVersion\t([0-9]{1,3})\n")
_VERSION = 3
_BYTES_MAX = 1024 * 1024  # ZooKeeper's limit
_VARINT_BYTES_MAX = 5
_LINE_IN_RECOVERY = -102


class _MalformedError(ValueError):
    """The bytes are not ledger metadata; becomes a CorruptionError that names the ledger."""


def encode(metadata: LedgerMetadata) -> bytes:
    """Encode ledger metadata in version 3; the same metadata gives the same bytes."""
    is_closed = metadata.state is LedgerState.CLOSED
    message = LedgerMetadataFormat(
        quorumSize=metadata.write_quorum,
        ensembleSize=metadata.ensemble_size,
        length=metadata.length if is_closed else 0,
        lastEntryId=metadata.last_entry_id if is_closed else NO_ENTRY,
        state=cast("LedgerMetadataFormat.State", metadata.state.value),
        digestType=cast("LedgerMetadataFormat.DigestType", metadata.digest_type.value),
        password=metadata.password,
        ackQuorumSize=metadata.ack_quorum,
        cToken=metadata.creation_token,
    )
    for fragment in metadata.fragments:
        message.segment.add(
            ensembleMember=[bookie.encode() for bookie in fragment.bookies],
            firstEntryId=fragment.first_entry_id,
        )
    if metadata.created_ms is not None:
        message.ctime = metadata.created_ms
    for key, value in sorted(metadata.custom.items()):
        message.customMetadata.add(key=key.encode(), value=value)
    body = message.SerializeToString()
    return _HEADER % _VERSION + _varint(len(body)) + body


def decode(ledger_id: int, data: bytes) -> LedgerMetadata:
    """Decode the value of a ledger's node. Raises CorruptionError for anything else."""
    try:
        header = _HEADER_PATTERN.match(data)
        if header is None or len(data) > _BYTES_MAX:
            raise _MalformedError(
                f"unknown header in {len(data)} bytes that begin with {data[:40]!r}"
            )
        body = data[header.end() :]
        version = int(header[1])
        if version == 1:
            return _from_lines(ledger_id, body)
        if version == 2:
            return _from_message(ledger_id, parse_text(LedgerMetadataFormat, body.decode()))
        if version == 3:
            return _from_message(ledger_id, parse(LedgerMetadataFormat, _delimited(body)))
        raise _MalformedError(f"unknown format version {version}")
    except (
        _MalformedError,
        DecodeError,
        UnicodeDecodeError,
        IllegalQuorumError,
        InvalidArgumentError,
    ) as error:
        raise CorruptionError(f"metadata of ledger {ledger_id}: {error}") from error


def _from_message(ledger_id: int, message: LedgerMetadataFormat) -> LedgerMetadata:
    state = LedgerState(message.state)
    is_closed = state is LedgerState.CLOSED
    if is_closed and (message.lastEntryId < NO_ENTRY or message.length < 0):
        raise _MalformedError(f"closed at {message.lastEntryId} with {message.length} bytes")
    has_ack_quorum = message.HasField("ackQuorumSize")
    return LedgerMetadata(
        ledger_id=ledger_id,
        ensemble_size=message.ensembleSize,
        write_quorum=message.quorumSize,
        ack_quorum=message.ackQuorumSize if has_ack_quorum else message.quorumSize,
        fragments=tuple(
            Fragment(segment.firstEntryId, _bookies(segment.ensembleMember))
            for segment in message.segment
        ),
        state=state,
        last_entry_id=message.lastEntryId if is_closed else NO_ENTRY,
        length=message.length if is_closed else 0,
        digest_type=DigestType(message.digestType),  # if absent: CRC32, as in Java
        password=message.password,
        custom={entry.key.decode(): entry.value for entry in message.customMetadata},
        created_ms=message.ctime if message.HasField("ctime") else None,
        creation_token=message.cToken,
    )


def _from_lines(ledger_id: int, body: bytes) -> LedgerMetadata:
    lines = body.decode().rstrip("\n").split("\n")
    if len(lines) < 4:
        raise _MalformedError(f"format version 1 with {len(lines)} lines")
    write_quorum, ensemble_size, length = (_integer(line) for line in lines[:3])
    end: int | None = None
    if lines[-1].endswith("\tCLOSED"):
        end = _integer(lines.pop().removesuffix("\tCLOSED"))
    is_closed = end is not None and end != _LINE_IN_RECOVERY
    if is_closed and (end is None or end < NO_ENTRY or length < 0):
        raise _MalformedError(f"closed at {end} with {length} bytes")
    open_state = LedgerState.OPEN if end is None else LedgerState.IN_RECOVERY
    fragments = []
    for line in lines[3:]:
        first, *names = line.split("\t")
        fragments.append(Fragment(_integer(first), _bookies([name.encode() for name in names])))
    return LedgerMetadata(
        ledger_id=ledger_id,
        ensemble_size=ensemble_size,
        write_quorum=write_quorum,
        ack_quorum=write_quorum,
        fragments=tuple(fragments),
        state=LedgerState.CLOSED if is_closed else open_state,
        last_entry_id=end if end is not None and is_closed else NO_ENTRY,
        length=length if is_closed else 0,
        digest_type=DigestType.CRC32,
    )


def _bookies(names: Iterable[bytes]) -> tuple[BookieId, ...]:
    return tuple(check_bookie_id(name.decode()) for name in names)


def _integer(text: str) -> int:
    if not re.fullmatch("-?[0-9]{1,18}", text):
        raise _MalformedError(f"not a number: {text[:40]!r}")
    return int(text)


def _varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def _delimited(data: bytes) -> bytes:
    """Return the bytes after a varint length, which must be exactly that many."""
    size = 0
    for index, byte in enumerate(data[:_VARINT_BYTES_MAX]):
        size |= (byte & 0x7F) << 7 * index
        if not byte & 0x80:
            if len(data) != index + 1 + size:
                raise _MalformedError(f"message has {len(data) - index - 1} bytes, not {size}")
            return data[index + 1 :]
    raise _MalformedError("the length of the message is malformed")
