"""Records as JSON objects: ``stream read --format json`` prints them, ``append --json`` reads them.

Bytes that are UTF-8 are strings; others are hexadecimal digits, in a field whose name ends with
``_hex``. A record without key, headers or event time has no such field.
"""

import json
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

from ....core.log.read.record_batch import Record
from ....core.protocol.attributes.attribute_values import Attributes
from ....core.protocol.errors import InvalidArgumentError
from ...output_schema import integer, record, table, text, time_at

_VALUE = text("Value.")
RECORD = record(
    {
        "dlsn": text("Position of the record."),
        "txid": integer("Txid of the record."),
        "payload": text("The payload, if it is valid UTF-8."),
        "payload_hex": text("Otherwise the payload, in hexadecimal digits."),
        "key": text("The key, if the record has one and it is valid UTF-8."),
        "key_hex": text("Otherwise the key, in hexadecimal digits."),
        "headers": table(_VALUE, "Headers whose values are valid UTF-8."),
        "headers_hex": table(_VALUE, "Other headers, in hexadecimal digits."),
        "event_at": time_at("The event time, if the record has one."),
    },
    optional=(
        "payload",
        "payload_hex",
        "key",
        "key_hex",
        "headers",
        "headers_hex",
        "event_at",
    ),
)
"""The schema of a record that ``stream read`` or ``stream tail`` prints."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class InputRecord(NamedTuple):
    """A record that is to be appended."""

    payload: bytes
    key: bytes | None = None
    headers: dict[str, bytes] | None = None
    event_time: int | None = None


def as_document(record: Record) -> dict[str, Any]:
    """Return a record as JSON values."""
    document = {"dlsn": str(record.dlsn), "txid": record.txid, **_bytes("payload", record.payload)}
    return document | attributes_document(record)


def attributes_document(record: Record) -> dict[str, Any]:
    """Return key, headers and event time of a record as JSON values; empty if it has none."""
    document: dict[str, Any] = {}
    if record.key is not None:
        document.update(_bytes("key", record.key))
    for name, value in record.headers.items():
        for field, shown in _bytes("headers", value).items():
            document.setdefault(field, {})[name] = shown
    if record.event_time is not None:
        document["event_at"] = event_time_text(record.event_time)
    return document


def _bytes(name: str, value: bytes) -> dict[str, str]:
    try:
        return {name: value.decode()}
    except UnicodeDecodeError:
        return {f"{name}_hex": value.hex()}


def parse_documents(lines: Sequence[bytes]) -> list[InputRecord]:
    """Parse lines of JSON. Raises InvalidArgumentError."""
    return [_parse(line) for line in lines if line.strip()]


def _parse(line: bytes) -> InputRecord:
    try:
        document = json.loads(line)
    except ValueError as error:
        raise InvalidArgumentError(f"not a line of JSON: {line[:80]!r}: {error}") from error
    if not isinstance(document, dict):
        raise InvalidArgumentError(f"not a JSON object: {line[:80]!r}")
    unknown = document.keys() - RECORD["properties"].keys()
    if unknown:
        raise InvalidArgumentError(
            f"unknown fields {sorted(unknown)} in {line[:80]!r}: "
            f"the fields of a record are {', '.join(RECORD['properties'])}"
        )
    payload = _bytes_of(document, "payload")
    if payload is None:
        raise InvalidArgumentError(f"neither payload nor payload_hex in {line[:80]!r}")
    headers = {
        name: _decoded(value, is_hex=field == "headers_hex")
        for field in ("headers", "headers_hex")
        for name, value in _object(document, field).items()
    }
    event_at = document.get("event_at")
    event_time = None if event_at is None else parse_event_time(event_at)
    return InputRecord(payload, _bytes_of(document, "key"), headers or None, event_time)


def _object(document: dict[str, Any], field: str) -> dict[str, Any]:
    found = document.get(field, {})
    if not isinstance(found, dict):
        raise InvalidArgumentError(f"{field} is not an object of names and values: {found!r:.80}")
    return found


def _bytes_of(document: dict[str, Any], name: str) -> bytes | None:
    for field in (name, f"{name}_hex"):
        if field in document:
            return _decoded(document[field], is_hex=field != name)
    return None


def _decoded(value: object, *, is_hex: bool) -> bytes:
    if not isinstance(value, str):
        raise InvalidArgumentError(f"{value!r:.80} is not a string")
    try:
        return bytes.fromhex(value) if is_hex else value.encode()
    except ValueError as error:
        raise InvalidArgumentError(f"{value!r:.80} is not in hexadecimal digits") from error


def event_time_text(event_time: int) -> str:
    """Return an event time in ISO 8601 in UTC, to the millisecond."""
    found = _EPOCH + timedelta(milliseconds=event_time)
    return found.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def parse_event_time(value: object) -> int:
    """Parse an event time: ISO 8601, in UTC unless it names an offset, or milliseconds since 1970.

    Raises InvalidArgumentError.
    """
    text_ = str(value)
    if text_.lstrip("-").isdecimal():
        return int(text_)
    try:
        found = datetime.fromisoformat(text_)
    except ValueError as error:
        raise InvalidArgumentError(
            f"{text_[:80]!r} is neither a time in ISO 8601, such as 2026-01-31T12:00:00Z, nor a "
            "number of milliseconds since 1970"
        ) from error
    if found.tzinfo is None:
        found = found.replace(tzinfo=UTC)
    return (found - _EPOCH) // timedelta(milliseconds=1)


def parse_headers(options: Sequence[str]) -> dict[str, bytes] | None:
    """Parse headers that are given as NAME=VALUE; None if there are none.

    Raises InvalidArgumentError.
    """
    headers: dict[str, bytes] = {}
    for option in options:
        name, separator, value = option.partition("=")
        if not separator or name in headers:
            raise InvalidArgumentError(
                f"--header {option[:80]!r}: write NAME=VALUE, each name at most once"
            )
        headers[name] = value.encode()
    return headers or None


def common_attributes(
    key: str | None, headers: Sequence[str], event_time: str | None
) -> InputRecord:
    """Return the attributes that every record of a command gets, with an empty payload.

    Raises InvalidArgumentError, RecordTooLargeError.
    """
    found = InputRecord(
        b"",
        None if key is None else key.encode(),
        parse_headers(headers),
        None if event_time is None else parse_event_time(event_time),
    )
    Attributes(found.key, found.headers, found.event_time)  # checks them
    return found
