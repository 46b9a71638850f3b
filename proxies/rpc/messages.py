"""Conversion of policies, descriptions, record sets and results to messages of rhumbline.v1."""

from collections.abc import Container
from typing import Any

from ...core.log.metadata.stream_description import StreamDescription
from ...core.log.metadata.stream_schema import (
    Compatibility,
    SchemaHistory,
    SchemaKind,
    StreamSchema,
)
from ...core.log.policy import FlushPolicy, StreamPolicy
from ...core.protocol.attributes.attribute_columns import AttributeBuilder
from ...core.protocol.attributes.attribute_values import Attributes
from ...core.protocol.dlsn import dlsn_in
from ...core.protocol.errors import InvalidArgumentError, ProtocolError, RhumblineError
from ...core.protocol.quorum import Quorum
from ...core.protocol.record_set import (
    NO_PRODUCER,
    NO_SEQUENCE,
    TXID_FIRST,
    Producer,
    encode_record_set,
)
from ...core.protocol.segments import Segment
from ...core.protocol.start import (
    EARLIEST,
    LATEST,
    AtEventTime,
    AtSequenceId,
    AtTime,
    AtTxid,
    Earliest,
    Latest,
    Start,
)
from ...core.runtime.settings import from_plain_value, plain_fields, settings_of
from ...core.runtime.trace_context import is_traceparent, trace_extension
from ..client.producer_sender import OutgoingSet
from ..write.append_item import Appended, AppendItem
from . import rhumbline_pb2 as pb
from .grpc_status import decode_error, decode_position, encode_error, encode_position

_POLICY_MESSAGE_NAMES = {"period_ms": "flush_ms", "bytes_max": "flush_bytes"}
"""Names of the message's fields that differ from the policy's."""


def encode_policy(policy: StreamPolicy) -> pb.Policy:
    """Encode a policy as a message, which holds the fields of quorum and flush policy as well."""
    parts = (policy.quorum, policy.flush, policy)
    values = {name: value for part in parts for name, value in plain_fields(part).items()}
    del values["quorum"], values["flush"]
    return pb.Policy(**{_POLICY_MESSAGE_NAMES.get(name, name): values[name] for name in values})


def decode_policy(message: pb.Policy) -> StreamPolicy:
    """Decode a policy. Raises InvalidArgumentError."""
    nested = {"quorum": _decode(message, Quorum), "flush": _decode(message, FlushPolicy)}
    return StreamPolicy(**nested, **_decode_fields(message, StreamPolicy, without=nested))


def _decode(message: pb.Policy, cls: type) -> Any:  # noqa: ANN401 - a ``cls``
    return cls(**_decode_fields(message, cls))


def _decode_fields(message: pb.Policy, cls: type, without: Container[str] = ()) -> dict[str, Any]:
    """Return the message's values of the fields of ``cls``."""
    found: dict[str, Any] = {}
    for name, declared in settings_of(cls).items():
        if name not in without:
            value = _optional(message, _POLICY_MESSAGE_NAMES.get(name, name))
            try:
                found[name] = from_plain_value(declared, value)
            except KeyError as error:
                raise InvalidArgumentError(f"unknown {name} {value!r}") from error
    return found


def _optional(message: pb.Policy, name: str) -> Any:  # noqa: ANN401 - the type of the field
    """Return a field of the message; None if it is optional and absent."""
    field = pb.Policy.DESCRIPTOR.fields_by_name[name]
    return None if field.has_presence and not message.HasField(name) else getattr(message, name)


_SEGMENT_FIELDS = (
    "lssn",
    "ledger_id",
    "created_ms",
    "is_completed",
    "completed_ms",
    "last_entry_id",
    "record_count",
    "length_bytes",
    "last_txid",
    "start_sequence_id",
    "ends_stream",
    "doubt",
    "epoch",
)


def encode_description(
    description: StreamDescription, home: str, preferred_owner: str = ""
) -> pb.DescribeStreamResponse:
    """Encode the description of a stream as a message."""
    return pb.DescribeStreamResponse(
        stream=description.name,
        created_ms=description.created_ms,
        policy=encode_policy(description.policy),
        follows_namespace=description.follows_namespace,
        start=encode_position(description.start),
        epoch=description.epoch,
        segments=[
            pb.Segment(**{name: getattr(segment, name) for name in _SEGMENT_FIELDS})
            for segment in description.segments
        ],
        home_region=home,
        preferred_owner=preferred_owner,
        metadata_age_ms=description.metadata_age_ms,
        identity=description.identity,
        is_sealed=description.is_sealed,
        grace_ends_ms=description.grace_ends_ms,
    )


def decode_description(message: pb.DescribeStreamResponse) -> StreamDescription:
    """Decode the description of a stream."""
    return StreamDescription(
        name=message.stream,
        created_ms=message.created_ms,
        policy=decode_policy(message.policy),
        follows_namespace=message.follows_namespace,
        start=decode_position(message.start),
        stream_id=message.start.stream_id,
        epoch=message.epoch,
        segments=tuple(
            Segment(
                stream_id=message.start.stream_id,
                **{name: getattr(segment, name) for name in _SEGMENT_FIELDS},
            )
            for segment in message.segments
        ),
        metadata_age_ms=message.metadata_age_ms if message.HasField("metadata_age_ms") else None,
        identity=message.identity,
        is_sealed=message.is_sealed,
        grace_ends_ms=message.grace_ends_ms if message.HasField("grace_ends_ms") else None,
    )


def encode_schemas(history: SchemaHistory) -> pb.SchemaHistory:
    """Encode the schemas of a stream as a message."""
    return pb.SchemaHistory(
        compatibility=history.compatibility,
        schemas=[
            pb.StreamSchema(kind=schema.kind, definition=schema.definition)
            for schema in history.schemas
        ],
    )


def decode_schemas(message: pb.SchemaHistory) -> SchemaHistory:
    """Decode the schemas of a stream. Raises InvalidArgumentError."""
    try:
        compatibility = Compatibility(message.compatibility)
        kinds = [SchemaKind(schema.kind) for schema in message.schemas]
    except ValueError as error:
        raise InvalidArgumentError(f"schemas: {error}") from error
    return SchemaHistory(
        compatibility,
        tuple(
            StreamSchema(kind, schema.definition)
            for kind, schema in zip(kinds, message.schemas, strict=True)
        ),
    )


def encode_start(request: pb.ReadRequest, start: Start) -> None:
    """Set the start position of a read request."""
    if isinstance(start, Earliest):
        request.earliest = True
    elif isinstance(start, Latest):
        request.latest = True
    elif isinstance(start, AtTxid):
        request.txid = start.txid
    elif isinstance(start, AtSequenceId):
        request.sequence_id = start.sequence_id
    elif isinstance(start, AtTime):
        request.created_ms = start.created_ms
    elif isinstance(start, AtEventTime):
        request.event_ms = start.event_ms
        request.event_ahead_ms = start.ahead_ms
    else:
        request.position.CopyFrom(encode_position(start))


def decode_start(request: pb.ReadRequest) -> Start:
    """Return the start position of a read request. Raises InvalidArgumentError."""
    match request.WhichOneof("start"):
        case "latest":
            return LATEST
        case "position":
            return decode_position(request.position)
        case "txid":
            return AtTxid(request.txid)
        case "sequence_id":
            return AtSequenceId(request.sequence_id)
        case "created_ms":
            return AtTime(request.created_ms)
        case "event_ms":
            return AtEventTime(request.event_ms, request.event_ahead_ms)
        case _:
            return EARLIEST


# --- appending ----------------------------------------------------------------------------------

AppendResult = tuple[int, Appended | RhumblineError]
"""The id of an item, and its outcome."""


def add_item(
    request: pb.AppendRequest,
    id_: int,
    key: tuple[str, str],
    outgoing: OutgoingSet,
    *,
    restarts: bool,
    tried: tuple[str, ...],
) -> None:
    """Add a record set to an append request; ``key`` is (namespace, stream)."""
    request.items.add(
        id=id_,
        namespace=key[0],
        stream=key[1],
        record_set=outgoing.encoded,
        keeps_txids=outgoing.keeps_txids,
        restarts=restarts,
        tried=tried,
        expected=None if outgoing.expected is None else encode_position(outgoing.expected),
    )


def decode_item(item: pb.AppendItem) -> AppendItem:
    """Decode an item of an append request. Raises InvalidArgumentError."""
    record_set = item.record_set
    if not record_set:
        if not item.payloads:
            raise InvalidArgumentError("an item needs a record set or payloads")
        if item.producer and (len(item.producer) != len(NO_PRODUCER) or item.first_sequence < 0):
            raise InvalidArgumentError(
                "producer must have 16 bytes and first_sequence must not be negative"
            )
        if item.traceparent and not is_traceparent(item.traceparent.encode()):
            raise InvalidArgumentError(f"{item.traceparent!r} is not a traceparent")
        record_set = encode_record_set(
            item.payloads,
            first_txid=TXID_FIRST,
            last_txid=TXID_FIRST,
            producer=Producer(item.producer or NO_PRODUCER,
                              item.first_sequence if item.producer else NO_SEQUENCE),
            extension=trace_extension(item.traceparent) if item.traceparent else b"",
            attributes=_decode_attributes(item) if item.attributes else None,
        )  # fmt: skip
    return AppendItem(
        item.namespace,
        item.stream,
        record_set,
        keeps_txids=item.keeps_txids,
        tried=tuple(item.tried) if item.restarts else (),
        expected=decode_position(item.expected) if item.HasField("expected") else None,
    )


def _decode_attributes(item: pb.AppendItem) -> AttributeBuilder:
    if len(item.attributes) != len(item.payloads):
        raise InvalidArgumentError(
            f"got {len(item.attributes)} attributes for {len(item.payloads)} payloads"
        )
    builder = AttributeBuilder()
    for index, found in enumerate(item.attributes):
        headers = {header.name: header.value for header in found.headers}
        if len(headers) != len(found.headers):
            raise InvalidArgumentError(f"payload {index} has two headers of one name")
        key = found.key if found.HasField("key") else None
        event_time = found.event_time if found.HasField("event_time") else None
        builder.add(index, Attributes(key, headers, event_time))
    return builder


def encode_results(answers: list[AppendResult]) -> pb.AppendResponse:
    """Encode results, those of the same stream with the same regions as one answer."""
    response = pb.AppendResponse()
    placed: dict[tuple[tuple[str, ...], str], list[tuple[int, int, int, int, int]]] = {}
    for id_, outcome in answers:
        if isinstance(outcome, Appended):
            (lssn, entry_id, slot), count, regions = outcome
            key = (regions, outcome.first.stream_id)
            rows = placed.get(key)
            if rows is None:
                rows = placed[key] = []
            rows.append((id_, lssn, entry_id, slot, count))
        else:
            response.answers.add(ids=(id_,), error=encode_error(outcome))
    for (regions, stream_id), rows in placed.items():
        ids, lssns, entry_ids, slots, counts = zip(*rows, strict=True)
        response.answers.add(
            ids=ids,
            lssns=lssns,
            entry_ids=entry_ids,
            slots=slots,
            record_counts=counts,
            regions=regions,
            stream_id=stream_id,
        )
    return response


def decode_results(response: pb.AppendResponse) -> list[AppendResult]:
    """Decode results. Raises ProtocolError for columns that do not match."""
    found: list[AppendResult] = []
    for answer in response.answers:
        if answer.HasField("error"):
            error = decode_error(answer.error)
            found.extend((id_, error) for id_ in answer.ids)
            continue
        regions = tuple(answer.regions)
        columns = (answer.ids, answer.lssns, answer.entry_ids, answer.slots, answer.record_counts)
        if len(set(map(len, columns))) != 1 or not answer.ids or min(map(min, columns)) < 0:
            raise ProtocolError(f"invalid columns in a response: {list(map(list, columns))}")
        for id_, lssn, entry_id, slot, count in zip(*columns, strict=True):
            first = dlsn_in(answer.stream_id, lssn, entry_id, slot)
            found.append((id_, Appended(first, count, regions)))
    return found
