"""Ledger metadata as BookKeeper keeps it in a metadata store.

``BookieMetadataFormatVersion\\t<n>\\n``, then: n = 3, a varint length and a protobuf message (the
form that we write); n = 2, the same message as protobuf text; n = 1, lines of text of the oldest
ledgers, which say neither ack quorum nor digest nor password. All three are read.

While a ledger is not closed its length is written as 0 and its last entry as -1, as Java does.
Custom metadata is kept whatever its keys. Java writes the creation token as 0 when it changes a
ledger, so a token identifies a creation and nothing later.
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
    """The bytes are no ledger metadata; becomes a CorruptionError that names the ledger."""


def encode(metadata: LedgerMetadata) -> bytes:
    """The value of a ledger's node, version 3. The same metadata gives the same bytes."""
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
    """Reads the value of a ledger's node. Raises CorruptionError for whatever is no metadata."""
    try:
        header = _HEADER_PATTERN.match(data)
        if header is None or len(data) > _BYTES_MAX:
            raise _MalformedError(f"{len(data)} bytes that begin with {data[:40]!r}")
        body = data[header.end() :]
        version = int(header[1])
        if version == 1:
            return _from_lines(ledger_id, body)
        if version == 2:
            return _from_message(ledger_id, parse_text(LedgerMetadataFormat, body.decode()))
        if version == 3:
            return _from_message(ledger_id, parse(LedgerMetadataFormat, _delimited(body)))
        raise _MalformedError(f"format version {version}, of which nothing is known")
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
        digest_type=DigestType(message.digestType),  # if absent: CRC32, as Java takes it
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
        raise _MalformedError(f"no number: {text[:40]!r}")
    return int(text)


def _varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def _delimited(data: bytes) -> bytes:
    """What a varint length announces, which must be all that follows it."""
    size = 0
    for index, byte in enumerate(data[:_VARINT_BYTES_MAX]):
        size |= (byte & 0x7F) << 7 * index
        if not byte & 0x80:
            if len(data) != index + 1 + size:
                raise _MalformedError(f"{len(data) - index - 1} bytes instead of {size}")
            return data[index + 1 :]
    raise _MalformedError("no length of the message")
