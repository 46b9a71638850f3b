from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class ProxyHealth(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    PROXY_HEALTH_UNKNOWN: _ClassVar[ProxyHealth]
    PROXY_HEALTH_ALIVE: _ClassVar[ProxyHealth]
    PROXY_HEALTH_SILENT: _ClassVar[ProxyHealth]
    PROXY_HEALTH_LOST: _ClassVar[ProxyHealth]
PROXY_HEALTH_UNKNOWN: ProxyHealth
PROXY_HEALTH_ALIVE: ProxyHealth
PROXY_HEALTH_SILENT: ProxyHealth
PROXY_HEALTH_LOST: ProxyHealth

class Position(_message.Message):
    __slots__ = ("lssn", "entry_id", "slot", "stream_id")
    LSSN_FIELD_NUMBER: _ClassVar[int]
    ENTRY_ID_FIELD_NUMBER: _ClassVar[int]
    SLOT_FIELD_NUMBER: _ClassVar[int]
    STREAM_ID_FIELD_NUMBER: _ClassVar[int]
    lssn: int
    entry_id: int
    slot: int
    stream_id: str
    def __init__(self, lssn: _Optional[int] = ..., entry_id: _Optional[int] = ..., slot: _Optional[int] = ..., stream_id: _Optional[str] = ...) -> None: ...

class Error(_message.Message):
    __slots__ = ("code", "message", "retryable", "owner", "first_active", "retry_after_ms", "end", "served_at")
    CODE_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    RETRYABLE_FIELD_NUMBER: _ClassVar[int]
    OWNER_FIELD_NUMBER: _ClassVar[int]
    FIRST_ACTIVE_FIELD_NUMBER: _ClassVar[int]
    RETRY_AFTER_MS_FIELD_NUMBER: _ClassVar[int]
    END_FIELD_NUMBER: _ClassVar[int]
    SERVED_AT_FIELD_NUMBER: _ClassVar[int]
    code: str
    message: str
    retryable: bool
    owner: str
    first_active: Position
    retry_after_ms: int
    end: Position
    served_at: str
    def __init__(self, code: _Optional[str] = ..., message: _Optional[str] = ..., retryable: _Optional[bool] = ..., owner: _Optional[str] = ..., first_active: _Optional[_Union[Position, _Mapping]] = ..., retry_after_ms: _Optional[int] = ..., end: _Optional[_Union[Position, _Mapping]] = ..., served_at: _Optional[str] = ...) -> None: ...

class StatusDetails(_message.Message):
    __slots__ = ("code", "message", "details")
    CODE_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    DETAILS_FIELD_NUMBER: _ClassVar[int]
    code: int
    message: str
    details: _containers.RepeatedCompositeFieldContainer[DetailsAny]
    def __init__(self, code: _Optional[int] = ..., message: _Optional[str] = ..., details: _Optional[_Iterable[_Union[DetailsAny, _Mapping]]] = ...) -> None: ...

class DetailsAny(_message.Message):
    __slots__ = ("type_url", "value")
    TYPE_URL_FIELD_NUMBER: _ClassVar[int]
    VALUE_FIELD_NUMBER: _ClassVar[int]
    type_url: str
    value: bytes
    def __init__(self, type_url: _Optional[str] = ..., value: _Optional[bytes] = ...) -> None: ...

class AppendRequest(_message.Message):
    __slots__ = ("items", "client_region")
    ITEMS_FIELD_NUMBER: _ClassVar[int]
    CLIENT_REGION_FIELD_NUMBER: _ClassVar[int]
    items: _containers.RepeatedCompositeFieldContainer[AppendItem]
    client_region: str
    def __init__(self, items: _Optional[_Iterable[_Union[AppendItem, _Mapping]]] = ..., client_region: _Optional[str] = ...) -> None: ...

class AppendItem(_message.Message):
    __slots__ = ("id", "namespace", "stream", "record_set", "payloads", "producer", "first_sequence", "keeps_txids", "restarts", "tried", "traceparent", "attributes", "expected")
    ID_FIELD_NUMBER: _ClassVar[int]
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    STREAM_FIELD_NUMBER: _ClassVar[int]
    RECORD_SET_FIELD_NUMBER: _ClassVar[int]
    PAYLOADS_FIELD_NUMBER: _ClassVar[int]
    PRODUCER_FIELD_NUMBER: _ClassVar[int]
    FIRST_SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    KEEPS_TXIDS_FIELD_NUMBER: _ClassVar[int]
    RESTARTS_FIELD_NUMBER: _ClassVar[int]
    TRIED_FIELD_NUMBER: _ClassVar[int]
    TRACEPARENT_FIELD_NUMBER: _ClassVar[int]
    ATTRIBUTES_FIELD_NUMBER: _ClassVar[int]
    EXPECTED_FIELD_NUMBER: _ClassVar[int]
    id: int
    namespace: str
    stream: str
    record_set: bytes
    payloads: _containers.RepeatedScalarFieldContainer[bytes]
    producer: bytes
    first_sequence: int
    keeps_txids: bool
    restarts: bool
    tried: _containers.RepeatedScalarFieldContainer[str]
    traceparent: str
    attributes: _containers.RepeatedCompositeFieldContainer[RecordAttributes]
    expected: Position
    def __init__(self, id: _Optional[int] = ..., namespace: _Optional[str] = ..., stream: _Optional[str] = ..., record_set: _Optional[bytes] = ..., payloads: _Optional[_Iterable[bytes]] = ..., producer: _Optional[bytes] = ..., first_sequence: _Optional[int] = ..., keeps_txids: _Optional[bool] = ..., restarts: _Optional[bool] = ..., tried: _Optional[_Iterable[str]] = ..., traceparent: _Optional[str] = ..., attributes: _Optional[_Iterable[_Union[RecordAttributes, _Mapping]]] = ..., expected: _Optional[_Union[Position, _Mapping]] = ...) -> None: ...

class RecordAttributes(_message.Message):
    __slots__ = ("key", "headers", "event_time")
    KEY_FIELD_NUMBER: _ClassVar[int]
    HEADERS_FIELD_NUMBER: _ClassVar[int]
    EVENT_TIME_FIELD_NUMBER: _ClassVar[int]
    key: bytes
    headers: _containers.RepeatedCompositeFieldContainer[Header]
    event_time: int
    def __init__(self, key: _Optional[bytes] = ..., headers: _Optional[_Iterable[_Union[Header, _Mapping]]] = ..., event_time: _Optional[int] = ...) -> None: ...

class Header(_message.Message):
    __slots__ = ("name", "value")
    NAME_FIELD_NUMBER: _ClassVar[int]
    VALUE_FIELD_NUMBER: _ClassVar[int]
    name: str
    value: bytes
    def __init__(self, name: _Optional[str] = ..., value: _Optional[bytes] = ...) -> None: ...

class AppendResponse(_message.Message):
    __slots__ = ("answers",)
    ANSWERS_FIELD_NUMBER: _ClassVar[int]
    answers: _containers.RepeatedCompositeFieldContainer[AppendAnswer]
    def __init__(self, answers: _Optional[_Iterable[_Union[AppendAnswer, _Mapping]]] = ...) -> None: ...

class AppendAnswer(_message.Message):
    __slots__ = ("ids", "lssns", "entry_ids", "slots", "record_counts", "regions", "error", "stream_id")
    IDS_FIELD_NUMBER: _ClassVar[int]
    LSSNS_FIELD_NUMBER: _ClassVar[int]
    ENTRY_IDS_FIELD_NUMBER: _ClassVar[int]
    SLOTS_FIELD_NUMBER: _ClassVar[int]
    RECORD_COUNTS_FIELD_NUMBER: _ClassVar[int]
    REGIONS_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    STREAM_ID_FIELD_NUMBER: _ClassVar[int]
    ids: _containers.RepeatedScalarFieldContainer[int]
    lssns: _containers.RepeatedScalarFieldContainer[int]
    entry_ids: _containers.RepeatedScalarFieldContainer[int]
    slots: _containers.RepeatedScalarFieldContainer[int]
    record_counts: _containers.RepeatedScalarFieldContainer[int]
    regions: _containers.RepeatedScalarFieldContainer[str]
    error: Error
    stream_id: str
    def __init__(self, ids: _Optional[_Iterable[int]] = ..., lssns: _Optional[_Iterable[int]] = ..., entry_ids: _Optional[_Iterable[int]] = ..., slots: _Optional[_Iterable[int]] = ..., record_counts: _Optional[_Iterable[int]] = ..., regions: _Optional[_Iterable[str]] = ..., error: _Optional[_Union[Error, _Mapping]] = ..., stream_id: _Optional[str] = ...) -> None: ...

class ReadRequest(_message.Message):
    __slots__ = ("namespace", "stream", "earliest", "latest", "position", "txid", "sequence_id", "created_ms", "event_ms", "event_ahead_ms", "credit_bytes", "stops_at_end", "advances_if_truncated", "tried", "heartbeat_ms", "decodes_records", "credit_records")
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    STREAM_FIELD_NUMBER: _ClassVar[int]
    EARLIEST_FIELD_NUMBER: _ClassVar[int]
    LATEST_FIELD_NUMBER: _ClassVar[int]
    POSITION_FIELD_NUMBER: _ClassVar[int]
    TXID_FIELD_NUMBER: _ClassVar[int]
    SEQUENCE_ID_FIELD_NUMBER: _ClassVar[int]
    CREATED_MS_FIELD_NUMBER: _ClassVar[int]
    EVENT_MS_FIELD_NUMBER: _ClassVar[int]
    EVENT_AHEAD_MS_FIELD_NUMBER: _ClassVar[int]
    CREDIT_BYTES_FIELD_NUMBER: _ClassVar[int]
    STOPS_AT_END_FIELD_NUMBER: _ClassVar[int]
    ADVANCES_IF_TRUNCATED_FIELD_NUMBER: _ClassVar[int]
    TRIED_FIELD_NUMBER: _ClassVar[int]
    HEARTBEAT_MS_FIELD_NUMBER: _ClassVar[int]
    DECODES_RECORDS_FIELD_NUMBER: _ClassVar[int]
    CREDIT_RECORDS_FIELD_NUMBER: _ClassVar[int]
    namespace: str
    stream: str
    earliest: bool
    latest: bool
    position: Position
    txid: int
    sequence_id: int
    created_ms: int
    event_ms: int
    event_ahead_ms: int
    credit_bytes: int
    stops_at_end: bool
    advances_if_truncated: bool
    tried: _containers.RepeatedScalarFieldContainer[str]
    heartbeat_ms: int
    decodes_records: bool
    credit_records: int
    def __init__(self, namespace: _Optional[str] = ..., stream: _Optional[str] = ..., earliest: _Optional[bool] = ..., latest: _Optional[bool] = ..., position: _Optional[_Union[Position, _Mapping]] = ..., txid: _Optional[int] = ..., sequence_id: _Optional[int] = ..., created_ms: _Optional[int] = ..., event_ms: _Optional[int] = ..., event_ahead_ms: _Optional[int] = ..., credit_bytes: _Optional[int] = ..., stops_at_end: _Optional[bool] = ..., advances_if_truncated: _Optional[bool] = ..., tried: _Optional[_Iterable[str]] = ..., heartbeat_ms: _Optional[int] = ..., decodes_records: _Optional[bool] = ..., credit_records: _Optional[int] = ...) -> None: ...

class ReadResponse(_message.Message):
    __slots__ = ("start", "lssn", "start_sequence_id", "first_entry_id", "entries", "is_end", "records")
    START_FIELD_NUMBER: _ClassVar[int]
    LSSN_FIELD_NUMBER: _ClassVar[int]
    START_SEQUENCE_ID_FIELD_NUMBER: _ClassVar[int]
    FIRST_ENTRY_ID_FIELD_NUMBER: _ClassVar[int]
    ENTRIES_FIELD_NUMBER: _ClassVar[int]
    IS_END_FIELD_NUMBER: _ClassVar[int]
    RECORDS_FIELD_NUMBER: _ClassVar[int]
    start: ReadStart
    lssn: int
    start_sequence_id: int
    first_entry_id: int
    entries: _containers.RepeatedScalarFieldContainer[bytes]
    is_end: bool
    records: _containers.RepeatedCompositeFieldContainer[Record]
    def __init__(self, start: _Optional[_Union[ReadStart, _Mapping]] = ..., lssn: _Optional[int] = ..., start_sequence_id: _Optional[int] = ..., first_entry_id: _Optional[int] = ..., entries: _Optional[_Iterable[bytes]] = ..., is_end: _Optional[bool] = ..., records: _Optional[_Iterable[_Union[Record, _Mapping]]] = ...) -> None: ...

class Record(_message.Message):
    __slots__ = ("position", "payload", "txid", "sequence_id", "created_ms", "producer", "sequence", "traceparent", "key", "headers", "event_time")
    POSITION_FIELD_NUMBER: _ClassVar[int]
    PAYLOAD_FIELD_NUMBER: _ClassVar[int]
    TXID_FIELD_NUMBER: _ClassVar[int]
    SEQUENCE_ID_FIELD_NUMBER: _ClassVar[int]
    CREATED_MS_FIELD_NUMBER: _ClassVar[int]
    PRODUCER_FIELD_NUMBER: _ClassVar[int]
    SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    TRACEPARENT_FIELD_NUMBER: _ClassVar[int]
    KEY_FIELD_NUMBER: _ClassVar[int]
    HEADERS_FIELD_NUMBER: _ClassVar[int]
    EVENT_TIME_FIELD_NUMBER: _ClassVar[int]
    position: Position
    payload: bytes
    txid: int
    sequence_id: int
    created_ms: int
    producer: bytes
    sequence: int
    traceparent: str
    key: bytes
    headers: _containers.RepeatedCompositeFieldContainer[Header]
    event_time: int
    def __init__(self, position: _Optional[_Union[Position, _Mapping]] = ..., payload: _Optional[bytes] = ..., txid: _Optional[int] = ..., sequence_id: _Optional[int] = ..., created_ms: _Optional[int] = ..., producer: _Optional[bytes] = ..., sequence: _Optional[int] = ..., traceparent: _Optional[str] = ..., key: _Optional[bytes] = ..., headers: _Optional[_Iterable[_Union[Header, _Mapping]]] = ..., event_time: _Optional[int] = ...) -> None: ...

class ReadStart(_message.Message):
    __slots__ = ("position", "first_txid", "truncated", "metadata_age_ms")
    POSITION_FIELD_NUMBER: _ClassVar[int]
    FIRST_TXID_FIELD_NUMBER: _ClassVar[int]
    TRUNCATED_FIELD_NUMBER: _ClassVar[int]
    METADATA_AGE_MS_FIELD_NUMBER: _ClassVar[int]
    position: Position
    first_txid: int
    truncated: Position
    metadata_age_ms: int
    def __init__(self, position: _Optional[_Union[Position, _Mapping]] = ..., first_txid: _Optional[int] = ..., truncated: _Optional[_Union[Position, _Mapping]] = ..., metadata_age_ms: _Optional[int] = ...) -> None: ...

class Policy(_message.Message):
    __slots__ = ("ensemble_size", "write_quorum", "ack_quorum", "min_regions", "flush_ms", "flush_bytes", "codec", "record_bytes_max", "roll_bytes", "roll_ms", "retention_ms", "visibility_ms", "truncates_by_subscriptions", "purge_grace_ms", "hot_retention_ms", "keepalive_ms", "regions", "archive_retention_ms", "spread")
    ENSEMBLE_SIZE_FIELD_NUMBER: _ClassVar[int]
    WRITE_QUORUM_FIELD_NUMBER: _ClassVar[int]
    ACK_QUORUM_FIELD_NUMBER: _ClassVar[int]
    MIN_REGIONS_FIELD_NUMBER: _ClassVar[int]
    FLUSH_MS_FIELD_NUMBER: _ClassVar[int]
    FLUSH_BYTES_FIELD_NUMBER: _ClassVar[int]
    CODEC_FIELD_NUMBER: _ClassVar[int]
    RECORD_BYTES_MAX_FIELD_NUMBER: _ClassVar[int]
    ROLL_BYTES_FIELD_NUMBER: _ClassVar[int]
    ROLL_MS_FIELD_NUMBER: _ClassVar[int]
    RETENTION_MS_FIELD_NUMBER: _ClassVar[int]
    VISIBILITY_MS_FIELD_NUMBER: _ClassVar[int]
    TRUNCATES_BY_SUBSCRIPTIONS_FIELD_NUMBER: _ClassVar[int]
    PURGE_GRACE_MS_FIELD_NUMBER: _ClassVar[int]
    HOT_RETENTION_MS_FIELD_NUMBER: _ClassVar[int]
    KEEPALIVE_MS_FIELD_NUMBER: _ClassVar[int]
    REGIONS_FIELD_NUMBER: _ClassVar[int]
    ARCHIVE_RETENTION_MS_FIELD_NUMBER: _ClassVar[int]
    SPREAD_FIELD_NUMBER: _ClassVar[int]
    ensemble_size: int
    write_quorum: int
    ack_quorum: int
    min_regions: int
    flush_ms: int
    flush_bytes: int
    codec: str
    record_bytes_max: int
    roll_bytes: int
    roll_ms: int
    retention_ms: int
    visibility_ms: int
    truncates_by_subscriptions: bool
    purge_grace_ms: int
    hot_retention_ms: int
    keepalive_ms: int
    regions: _containers.RepeatedScalarFieldContainer[str]
    archive_retention_ms: int
    spread: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, ensemble_size: _Optional[int] = ..., write_quorum: _Optional[int] = ..., ack_quorum: _Optional[int] = ..., min_regions: _Optional[int] = ..., flush_ms: _Optional[int] = ..., flush_bytes: _Optional[int] = ..., codec: _Optional[str] = ..., record_bytes_max: _Optional[int] = ..., roll_bytes: _Optional[int] = ..., roll_ms: _Optional[int] = ..., retention_ms: _Optional[int] = ..., visibility_ms: _Optional[int] = ..., truncates_by_subscriptions: _Optional[bool] = ..., purge_grace_ms: _Optional[int] = ..., hot_retention_ms: _Optional[int] = ..., keepalive_ms: _Optional[int] = ..., regions: _Optional[_Iterable[str]] = ..., archive_retention_ms: _Optional[int] = ..., spread: _Optional[_Iterable[str]] = ...) -> None: ...

class CreateStreamRequest(_message.Message):
    __slots__ = ("namespace", "stream", "policy", "home_region")
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    STREAM_FIELD_NUMBER: _ClassVar[int]
    POLICY_FIELD_NUMBER: _ClassVar[int]
    HOME_REGION_FIELD_NUMBER: _ClassVar[int]
    namespace: str
    stream: str
    policy: Policy
    home_region: str
    def __init__(self, namespace: _Optional[str] = ..., stream: _Optional[str] = ..., policy: _Optional[_Union[Policy, _Mapping]] = ..., home_region: _Optional[str] = ...) -> None: ...

class CreateStreamResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class DeleteStreamRequest(_message.Message):
    __slots__ = ("namespace", "stream", "identity")
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    STREAM_FIELD_NUMBER: _ClassVar[int]
    IDENTITY_FIELD_NUMBER: _ClassVar[int]
    namespace: str
    stream: str
    identity: str
    def __init__(self, namespace: _Optional[str] = ..., stream: _Optional[str] = ..., identity: _Optional[str] = ...) -> None: ...

class DeleteStreamResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ListStreamsRequest(_message.Message):
    __slots__ = ("namespace", "prefix", "after", "limit")
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    PREFIX_FIELD_NUMBER: _ClassVar[int]
    AFTER_FIELD_NUMBER: _ClassVar[int]
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    namespace: str
    prefix: str
    after: str
    limit: int
    def __init__(self, namespace: _Optional[str] = ..., prefix: _Optional[str] = ..., after: _Optional[str] = ..., limit: _Optional[int] = ...) -> None: ...

class ListStreamsResponse(_message.Message):
    __slots__ = ("streams",)
    STREAMS_FIELD_NUMBER: _ClassVar[int]
    streams: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, streams: _Optional[_Iterable[str]] = ...) -> None: ...

class DescribeStreamRequest(_message.Message):
    __slots__ = ("namespace", "stream")
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    STREAM_FIELD_NUMBER: _ClassVar[int]
    namespace: str
    stream: str
    def __init__(self, namespace: _Optional[str] = ..., stream: _Optional[str] = ...) -> None: ...

class DescribeStreamResponse(_message.Message):
    __slots__ = ("stream", "created_ms", "policy", "follows_namespace", "start", "epoch", "segments", "home_region", "metadata_age_ms", "preferred_owner", "identity", "is_sealed", "grace_ends_ms")
    STREAM_FIELD_NUMBER: _ClassVar[int]
    CREATED_MS_FIELD_NUMBER: _ClassVar[int]
    POLICY_FIELD_NUMBER: _ClassVar[int]
    FOLLOWS_NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    START_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    SEGMENTS_FIELD_NUMBER: _ClassVar[int]
    HOME_REGION_FIELD_NUMBER: _ClassVar[int]
    METADATA_AGE_MS_FIELD_NUMBER: _ClassVar[int]
    PREFERRED_OWNER_FIELD_NUMBER: _ClassVar[int]
    IDENTITY_FIELD_NUMBER: _ClassVar[int]
    IS_SEALED_FIELD_NUMBER: _ClassVar[int]
    GRACE_ENDS_MS_FIELD_NUMBER: _ClassVar[int]
    stream: str
    created_ms: int
    policy: Policy
    follows_namespace: bool
    start: Position
    epoch: int
    segments: _containers.RepeatedCompositeFieldContainer[Segment]
    home_region: str
    metadata_age_ms: int
    preferred_owner: str
    identity: str
    is_sealed: bool
    grace_ends_ms: int
    def __init__(self, stream: _Optional[str] = ..., created_ms: _Optional[int] = ..., policy: _Optional[_Union[Policy, _Mapping]] = ..., follows_namespace: _Optional[bool] = ..., start: _Optional[_Union[Position, _Mapping]] = ..., epoch: _Optional[int] = ..., segments: _Optional[_Iterable[_Union[Segment, _Mapping]]] = ..., home_region: _Optional[str] = ..., metadata_age_ms: _Optional[int] = ..., preferred_owner: _Optional[str] = ..., identity: _Optional[str] = ..., is_sealed: _Optional[bool] = ..., grace_ends_ms: _Optional[int] = ...) -> None: ...

class Segment(_message.Message):
    __slots__ = ("lssn", "ledger_id", "created_ms", "is_completed", "completed_ms", "last_entry_id", "record_count", "length_bytes", "last_txid", "start_sequence_id", "ends_stream", "epoch", "doubt")
    LSSN_FIELD_NUMBER: _ClassVar[int]
    LEDGER_ID_FIELD_NUMBER: _ClassVar[int]
    CREATED_MS_FIELD_NUMBER: _ClassVar[int]
    IS_COMPLETED_FIELD_NUMBER: _ClassVar[int]
    COMPLETED_MS_FIELD_NUMBER: _ClassVar[int]
    LAST_ENTRY_ID_FIELD_NUMBER: _ClassVar[int]
    RECORD_COUNT_FIELD_NUMBER: _ClassVar[int]
    LENGTH_BYTES_FIELD_NUMBER: _ClassVar[int]
    LAST_TXID_FIELD_NUMBER: _ClassVar[int]
    START_SEQUENCE_ID_FIELD_NUMBER: _ClassVar[int]
    ENDS_STREAM_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    DOUBT_FIELD_NUMBER: _ClassVar[int]
    lssn: int
    ledger_id: int
    created_ms: int
    is_completed: bool
    completed_ms: int
    last_entry_id: int
    record_count: int
    length_bytes: int
    last_txid: int
    start_sequence_id: int
    ends_stream: bool
    epoch: int
    doubt: str
    def __init__(self, lssn: _Optional[int] = ..., ledger_id: _Optional[int] = ..., created_ms: _Optional[int] = ..., is_completed: _Optional[bool] = ..., completed_ms: _Optional[int] = ..., last_entry_id: _Optional[int] = ..., record_count: _Optional[int] = ..., length_bytes: _Optional[int] = ..., last_txid: _Optional[int] = ..., start_sequence_id: _Optional[int] = ..., ends_stream: _Optional[bool] = ..., epoch: _Optional[int] = ..., doubt: _Optional[str] = ...) -> None: ...

class TruncateStreamRequest(_message.Message):
    __slots__ = ("namespace", "stream", "position")
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    STREAM_FIELD_NUMBER: _ClassVar[int]
    POSITION_FIELD_NUMBER: _ClassVar[int]
    namespace: str
    stream: str
    position: Position
    def __init__(self, namespace: _Optional[str] = ..., stream: _Optional[str] = ..., position: _Optional[_Union[Position, _Mapping]] = ...) -> None: ...

class TruncateStreamResponse(_message.Message):
    __slots__ = ("start",)
    START_FIELD_NUMBER: _ClassVar[int]
    start: Position
    def __init__(self, start: _Optional[_Union[Position, _Mapping]] = ...) -> None: ...

class UntruncateStreamRequest(_message.Message):
    __slots__ = ("namespace", "stream", "position")
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    STREAM_FIELD_NUMBER: _ClassVar[int]
    POSITION_FIELD_NUMBER: _ClassVar[int]
    namespace: str
    stream: str
    position: Position
    def __init__(self, namespace: _Optional[str] = ..., stream: _Optional[str] = ..., position: _Optional[_Union[Position, _Mapping]] = ...) -> None: ...

class UntruncateStreamResponse(_message.Message):
    __slots__ = ("start",)
    START_FIELD_NUMBER: _ClassVar[int]
    start: Position
    def __init__(self, start: _Optional[_Union[Position, _Mapping]] = ...) -> None: ...

class GetOwnerRequest(_message.Message):
    __slots__ = ("namespace", "stream")
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    STREAM_FIELD_NUMBER: _ClassVar[int]
    namespace: str
    stream: str
    def __init__(self, namespace: _Optional[str] = ..., stream: _Optional[str] = ...) -> None: ...

class GetOwnerResponse(_message.Message):
    __slots__ = ("owner", "preferred_owner", "home_region")
    OWNER_FIELD_NUMBER: _ClassVar[int]
    PREFERRED_OWNER_FIELD_NUMBER: _ClassVar[int]
    HOME_REGION_FIELD_NUMBER: _ClassVar[int]
    owner: str
    preferred_owner: str
    home_region: str
    def __init__(self, owner: _Optional[str] = ..., preferred_owner: _Optional[str] = ..., home_region: _Optional[str] = ...) -> None: ...

class ReleaseStreamRequest(_message.Message):
    __slots__ = ("namespace", "stream")
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    STREAM_FIELD_NUMBER: _ClassVar[int]
    namespace: str
    stream: str
    def __init__(self, namespace: _Optional[str] = ..., stream: _Optional[str] = ...) -> None: ...

class ReleaseStreamResponse(_message.Message):
    __slots__ = ("was_owned",)
    WAS_OWNED_FIELD_NUMBER: _ClassVar[int]
    was_owned: bool
    def __init__(self, was_owned: _Optional[bool] = ...) -> None: ...

class EndStreamRequest(_message.Message):
    __slots__ = ("namespace", "stream", "tried")
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    STREAM_FIELD_NUMBER: _ClassVar[int]
    TRIED_FIELD_NUMBER: _ClassVar[int]
    namespace: str
    stream: str
    tried: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, namespace: _Optional[str] = ..., stream: _Optional[str] = ..., tried: _Optional[_Iterable[str]] = ...) -> None: ...

class EndStreamResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class SetPolicyRequest(_message.Message):
    __slots__ = ("namespace", "stream", "policy")
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    STREAM_FIELD_NUMBER: _ClassVar[int]
    POLICY_FIELD_NUMBER: _ClassVar[int]
    namespace: str
    stream: str
    policy: Policy
    def __init__(self, namespace: _Optional[str] = ..., stream: _Optional[str] = ..., policy: _Optional[_Union[Policy, _Mapping]] = ...) -> None: ...

class SetPolicyResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class SetHomeRegionRequest(_message.Message):
    __slots__ = ("namespace", "stream", "region")
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    STREAM_FIELD_NUMBER: _ClassVar[int]
    REGION_FIELD_NUMBER: _ClassVar[int]
    namespace: str
    stream: str
    region: str
    def __init__(self, namespace: _Optional[str] = ..., stream: _Optional[str] = ..., region: _Optional[str] = ...) -> None: ...

class SetHomeRegionResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class SetAcceptingRequest(_message.Message):
    __slots__ = ("is_accepting",)
    IS_ACCEPTING_FIELD_NUMBER: _ClassVar[int]
    is_accepting: bool
    def __init__(self, is_accepting: _Optional[bool] = ...) -> None: ...

class SetAcceptingResponse(_message.Message):
    __slots__ = ("stream_count",)
    STREAM_COUNT_FIELD_NUMBER: _ClassVar[int]
    stream_count: int
    def __init__(self, stream_count: _Optional[int] = ...) -> None: ...

class ProbeProxyRequest(_message.Message):
    __slots__ = ("address", "is_indirect", "is_forwarded")
    ADDRESS_FIELD_NUMBER: _ClassVar[int]
    IS_INDIRECT_FIELD_NUMBER: _ClassVar[int]
    IS_FORWARDED_FIELD_NUMBER: _ClassVar[int]
    address: str
    is_indirect: bool
    is_forwarded: bool
    def __init__(self, address: _Optional[str] = ..., is_indirect: _Optional[bool] = ..., is_forwarded: _Optional[bool] = ...) -> None: ...

class ProbeProxyResponse(_message.Message):
    __slots__ = ("health", "member_ids", "is_stopping", "lateness_ms")
    HEALTH_FIELD_NUMBER: _ClassVar[int]
    MEMBER_IDS_FIELD_NUMBER: _ClassVar[int]
    IS_STOPPING_FIELD_NUMBER: _ClassVar[int]
    LATENESS_MS_FIELD_NUMBER: _ClassVar[int]
    health: ProxyHealth
    member_ids: _containers.RepeatedScalarFieldContainer[str]
    is_stopping: bool
    lateness_ms: int
    def __init__(self, health: _Optional[_Union[ProxyHealth, str]] = ..., member_ids: _Optional[_Iterable[str]] = ..., is_stopping: _Optional[bool] = ..., lateness_ms: _Optional[int] = ...) -> None: ...

class DescribeNamespaceRequest(_message.Message):
    __slots__ = ("namespace",)
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    namespace: str
    def __init__(self, namespace: _Optional[str] = ...) -> None: ...

class DescribeNamespaceResponse(_message.Message):
    __slots__ = ("policy",)
    POLICY_FIELD_NUMBER: _ClassVar[int]
    policy: Policy
    def __init__(self, policy: _Optional[_Union[Policy, _Mapping]] = ...) -> None: ...

class ListProxiesRequest(_message.Message):
    __slots__ = ("viewer_region", "with_load")
    VIEWER_REGION_FIELD_NUMBER: _ClassVar[int]
    WITH_LOAD_FIELD_NUMBER: _ClassVar[int]
    viewer_region: str
    with_load: bool
    def __init__(self, viewer_region: _Optional[str] = ..., with_load: _Optional[bool] = ...) -> None: ...

class ListProxiesResponse(_message.Message):
    __slots__ = ("proxies", "region")
    PROXIES_FIELD_NUMBER: _ClassVar[int]
    REGION_FIELD_NUMBER: _ClassVar[int]
    proxies: _containers.RepeatedCompositeFieldContainer[Proxy]
    region: str
    def __init__(self, proxies: _Optional[_Iterable[_Union[Proxy, _Mapping]]] = ..., region: _Optional[str] = ...) -> None: ...

class Proxy(_message.Message):
    __slots__ = ("address", "connect_address", "region", "roles", "is_accepting", "version", "load_permille", "stream_count", "operator_address")
    ADDRESS_FIELD_NUMBER: _ClassVar[int]
    CONNECT_ADDRESS_FIELD_NUMBER: _ClassVar[int]
    REGION_FIELD_NUMBER: _ClassVar[int]
    ROLES_FIELD_NUMBER: _ClassVar[int]
    IS_ACCEPTING_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    LOAD_PERMILLE_FIELD_NUMBER: _ClassVar[int]
    STREAM_COUNT_FIELD_NUMBER: _ClassVar[int]
    OPERATOR_ADDRESS_FIELD_NUMBER: _ClassVar[int]
    address: str
    connect_address: str
    region: str
    roles: _containers.RepeatedScalarFieldContainer[str]
    is_accepting: bool
    version: str
    load_permille: int
    stream_count: int
    operator_address: str
    def __init__(self, address: _Optional[str] = ..., connect_address: _Optional[str] = ..., region: _Optional[str] = ..., roles: _Optional[_Iterable[str]] = ..., is_accepting: _Optional[bool] = ..., version: _Optional[str] = ..., load_permille: _Optional[int] = ..., stream_count: _Optional[int] = ..., operator_address: _Optional[str] = ...) -> None: ...

class DescribeHomeRequest(_message.Message):
    __slots__ = ("namespace", "stream")
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    STREAM_FIELD_NUMBER: _ClassVar[int]
    namespace: str
    stream: str
    def __init__(self, namespace: _Optional[str] = ..., stream: _Optional[str] = ...) -> None: ...

class DescribeHomeResponse(_message.Message):
    __slots__ = ("home_region", "owner", "owner_region", "rates", "observed_ms", "suggested_region", "reason")
    HOME_REGION_FIELD_NUMBER: _ClassVar[int]
    OWNER_FIELD_NUMBER: _ClassVar[int]
    OWNER_REGION_FIELD_NUMBER: _ClassVar[int]
    RATES_FIELD_NUMBER: _ClassVar[int]
    OBSERVED_MS_FIELD_NUMBER: _ClassVar[int]
    SUGGESTED_REGION_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    home_region: str
    owner: str
    owner_region: str
    rates: _containers.RepeatedCompositeFieldContainer[RegionRate]
    observed_ms: int
    suggested_region: str
    reason: str
    def __init__(self, home_region: _Optional[str] = ..., owner: _Optional[str] = ..., owner_region: _Optional[str] = ..., rates: _Optional[_Iterable[_Union[RegionRate, _Mapping]]] = ..., observed_ms: _Optional[int] = ..., suggested_region: _Optional[str] = ..., reason: _Optional[str] = ...) -> None: ...

class RegionRate(_message.Message):
    __slots__ = ("region", "records_per_s")
    REGION_FIELD_NUMBER: _ClassVar[int]
    RECORDS_PER_S_FIELD_NUMBER: _ClassVar[int]
    region: str
    records_per_s: float
    def __init__(self, region: _Optional[str] = ..., records_per_s: _Optional[float] = ...) -> None: ...

class FindEndRequest(_message.Message):
    __slots__ = ("namespace", "stream", "may_be_old")
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    STREAM_FIELD_NUMBER: _ClassVar[int]
    MAY_BE_OLD_FIELD_NUMBER: _ClassVar[int]
    namespace: str
    stream: str
    may_be_old: bool
    def __init__(self, namespace: _Optional[str] = ..., stream: _Optional[str] = ..., may_be_old: _Optional[bool] = ...) -> None: ...

class FindEndResponse(_message.Message):
    __slots__ = ("position",)
    POSITION_FIELD_NUMBER: _ClassVar[int]
    position: Position
    def __init__(self, position: _Optional[_Union[Position, _Mapping]] = ...) -> None: ...

class SealStreamRequest(_message.Message):
    __slots__ = ("namespace", "stream")
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    STREAM_FIELD_NUMBER: _ClassVar[int]
    namespace: str
    stream: str
    def __init__(self, namespace: _Optional[str] = ..., stream: _Optional[str] = ...) -> None: ...

class SealStreamResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class UnsealStreamRequest(_message.Message):
    __slots__ = ("namespace", "stream")
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    STREAM_FIELD_NUMBER: _ClassVar[int]
    namespace: str
    stream: str
    def __init__(self, namespace: _Optional[str] = ..., stream: _Optional[str] = ...) -> None: ...

class UnsealStreamResponse(_message.Message):
    __slots__ = ("was_sealed",)
    WAS_SEALED_FIELD_NUMBER: _ClassVar[int]
    was_sealed: bool
    def __init__(self, was_sealed: _Optional[bool] = ...) -> None: ...

class RollStreamRequest(_message.Message):
    __slots__ = ("namespace", "stream")
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    STREAM_FIELD_NUMBER: _ClassVar[int]
    namespace: str
    stream: str
    def __init__(self, namespace: _Optional[str] = ..., stream: _Optional[str] = ...) -> None: ...

class RollStreamResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class SchemaHistory(_message.Message):
    __slots__ = ("compatibility", "schemas")
    COMPATIBILITY_FIELD_NUMBER: _ClassVar[int]
    SCHEMAS_FIELD_NUMBER: _ClassVar[int]
    compatibility: str
    schemas: _containers.RepeatedCompositeFieldContainer[StreamSchema]
    def __init__(self, compatibility: _Optional[str] = ..., schemas: _Optional[_Iterable[_Union[StreamSchema, _Mapping]]] = ...) -> None: ...

class StreamSchema(_message.Message):
    __slots__ = ("kind", "definition")
    KIND_FIELD_NUMBER: _ClassVar[int]
    DEFINITION_FIELD_NUMBER: _ClassVar[int]
    kind: str
    definition: str
    def __init__(self, kind: _Optional[str] = ..., definition: _Optional[str] = ...) -> None: ...

class ReadSchemasRequest(_message.Message):
    __slots__ = ("namespace", "stream")
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    STREAM_FIELD_NUMBER: _ClassVar[int]
    namespace: str
    stream: str
    def __init__(self, namespace: _Optional[str] = ..., stream: _Optional[str] = ...) -> None: ...

class ReadSchemasResponse(_message.Message):
    __slots__ = ("history",)
    HISTORY_FIELD_NUMBER: _ClassVar[int]
    history: SchemaHistory
    def __init__(self, history: _Optional[_Union[SchemaHistory, _Mapping]] = ...) -> None: ...

class ReplaceSchemasRequest(_message.Message):
    __slots__ = ("namespace", "stream", "before", "after")
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    STREAM_FIELD_NUMBER: _ClassVar[int]
    BEFORE_FIELD_NUMBER: _ClassVar[int]
    AFTER_FIELD_NUMBER: _ClassVar[int]
    namespace: str
    stream: str
    before: SchemaHistory
    after: SchemaHistory
    def __init__(self, namespace: _Optional[str] = ..., stream: _Optional[str] = ..., before: _Optional[_Union[SchemaHistory, _Mapping]] = ..., after: _Optional[_Union[SchemaHistory, _Mapping]] = ...) -> None: ...

class ReplaceSchemasResponse(_message.Message):
    __slots__ = ("was_replaced",)
    WAS_REPLACED_FIELD_NUMBER: _ClassVar[int]
    was_replaced: bool
    def __init__(self, was_replaced: _Optional[bool] = ...) -> None: ...

class CreateNamespaceRequest(_message.Message):
    __slots__ = ("namespace", "policy", "region")
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    POLICY_FIELD_NUMBER: _ClassVar[int]
    REGION_FIELD_NUMBER: _ClassVar[int]
    namespace: str
    policy: Policy
    region: str
    def __init__(self, namespace: _Optional[str] = ..., policy: _Optional[_Union[Policy, _Mapping]] = ..., region: _Optional[str] = ...) -> None: ...

class CreateNamespaceResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ListNamespacesRequest(_message.Message):
    __slots__ = ("after", "limit")
    AFTER_FIELD_NUMBER: _ClassVar[int]
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    after: str
    limit: int
    def __init__(self, after: _Optional[str] = ..., limit: _Optional[int] = ...) -> None: ...

class ListNamespacesResponse(_message.Message):
    __slots__ = ("namespaces",)
    NAMESPACES_FIELD_NUMBER: _ClassVar[int]
    namespaces: _containers.RepeatedCompositeFieldContainer[NamespaceEntry]
    def __init__(self, namespaces: _Optional[_Iterable[_Union[NamespaceEntry, _Mapping]]] = ...) -> None: ...

class NamespaceEntry(_message.Message):
    __slots__ = ("namespace", "region")
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    REGION_FIELD_NUMBER: _ClassVar[int]
    namespace: str
    region: str
    def __init__(self, namespace: _Optional[str] = ..., region: _Optional[str] = ...) -> None: ...

class DeleteNamespaceRequest(_message.Message):
    __slots__ = ("namespace",)
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    namespace: str
    def __init__(self, namespace: _Optional[str] = ...) -> None: ...

class DeleteNamespaceResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class CreateSubscriptionRequest(_message.Message):
    __slots__ = ("namespace", "stream", "subscription", "position")
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    STREAM_FIELD_NUMBER: _ClassVar[int]
    SUBSCRIPTION_FIELD_NUMBER: _ClassVar[int]
    POSITION_FIELD_NUMBER: _ClassVar[int]
    namespace: str
    stream: str
    subscription: str
    position: Position
    def __init__(self, namespace: _Optional[str] = ..., stream: _Optional[str] = ..., subscription: _Optional[str] = ..., position: _Optional[_Union[Position, _Mapping]] = ...) -> None: ...

class ReadSubscriptionRequest(_message.Message):
    __slots__ = ("namespace", "stream", "subscription")
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    STREAM_FIELD_NUMBER: _ClassVar[int]
    SUBSCRIPTION_FIELD_NUMBER: _ClassVar[int]
    namespace: str
    stream: str
    subscription: str
    def __init__(self, namespace: _Optional[str] = ..., stream: _Optional[str] = ..., subscription: _Optional[str] = ...) -> None: ...

class CommitSubscriptionRequest(_message.Message):
    __slots__ = ("namespace", "stream", "subscription", "position", "generation")
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    STREAM_FIELD_NUMBER: _ClassVar[int]
    SUBSCRIPTION_FIELD_NUMBER: _ClassVar[int]
    POSITION_FIELD_NUMBER: _ClassVar[int]
    GENERATION_FIELD_NUMBER: _ClassVar[int]
    namespace: str
    stream: str
    subscription: str
    position: Position
    generation: int
    def __init__(self, namespace: _Optional[str] = ..., stream: _Optional[str] = ..., subscription: _Optional[str] = ..., position: _Optional[_Union[Position, _Mapping]] = ..., generation: _Optional[int] = ...) -> None: ...

class ResetSubscriptionRequest(_message.Message):
    __slots__ = ("namespace", "stream", "subscription", "position")
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    STREAM_FIELD_NUMBER: _ClassVar[int]
    SUBSCRIPTION_FIELD_NUMBER: _ClassVar[int]
    POSITION_FIELD_NUMBER: _ClassVar[int]
    namespace: str
    stream: str
    subscription: str
    position: Position
    def __init__(self, namespace: _Optional[str] = ..., stream: _Optional[str] = ..., subscription: _Optional[str] = ..., position: _Optional[_Union[Position, _Mapping]] = ...) -> None: ...

class SubscriptionResponse(_message.Message):
    __slots__ = ("position", "generation", "acknowledgements")
    POSITION_FIELD_NUMBER: _ClassVar[int]
    GENERATION_FIELD_NUMBER: _ClassVar[int]
    ACKNOWLEDGEMENTS_FIELD_NUMBER: _ClassVar[int]
    position: Position
    generation: int
    acknowledgements: Acknowledgements
    def __init__(self, position: _Optional[_Union[Position, _Mapping]] = ..., generation: _Optional[int] = ..., acknowledgements: _Optional[_Union[Acknowledgements, _Mapping]] = ...) -> None: ...

class Acknowledgements(_message.Message):
    __slots__ = ("owner", "delivered_to", "ranges", "deliveries")
    OWNER_FIELD_NUMBER: _ClassVar[int]
    DELIVERED_TO_FIELD_NUMBER: _ClassVar[int]
    RANGES_FIELD_NUMBER: _ClassVar[int]
    DELIVERIES_FIELD_NUMBER: _ClassVar[int]
    owner: str
    delivered_to: Position
    ranges: _containers.RepeatedCompositeFieldContainer[AcknowledgedRange]
    deliveries: _containers.RepeatedCompositeFieldContainer[DeliveryCount]
    def __init__(self, owner: _Optional[str] = ..., delivered_to: _Optional[_Union[Position, _Mapping]] = ..., ranges: _Optional[_Iterable[_Union[AcknowledgedRange, _Mapping]]] = ..., deliveries: _Optional[_Iterable[_Union[DeliveryCount, _Mapping]]] = ...) -> None: ...

class AcknowledgedRange(_message.Message):
    __slots__ = ("first", "after")
    FIRST_FIELD_NUMBER: _ClassVar[int]
    AFTER_FIELD_NUMBER: _ClassVar[int]
    first: Position
    after: Position
    def __init__(self, first: _Optional[_Union[Position, _Mapping]] = ..., after: _Optional[_Union[Position, _Mapping]] = ...) -> None: ...

class DeliveryCount(_message.Message):
    __slots__ = ("position", "count")
    POSITION_FIELD_NUMBER: _ClassVar[int]
    COUNT_FIELD_NUMBER: _ClassVar[int]
    position: Position
    count: int
    def __init__(self, position: _Optional[_Union[Position, _Mapping]] = ..., count: _Optional[int] = ...) -> None: ...

class TakeOverSubscriptionRequest(_message.Message):
    __slots__ = ("namespace", "stream", "subscription", "owner")
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    STREAM_FIELD_NUMBER: _ClassVar[int]
    SUBSCRIPTION_FIELD_NUMBER: _ClassVar[int]
    OWNER_FIELD_NUMBER: _ClassVar[int]
    namespace: str
    stream: str
    subscription: str
    owner: str
    def __init__(self, namespace: _Optional[str] = ..., stream: _Optional[str] = ..., subscription: _Optional[str] = ..., owner: _Optional[str] = ...) -> None: ...

class StoreAcknowledgementsRequest(_message.Message):
    __slots__ = ("namespace", "stream", "subscription", "position", "generation", "acknowledgements")
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    STREAM_FIELD_NUMBER: _ClassVar[int]
    SUBSCRIPTION_FIELD_NUMBER: _ClassVar[int]
    POSITION_FIELD_NUMBER: _ClassVar[int]
    GENERATION_FIELD_NUMBER: _ClassVar[int]
    ACKNOWLEDGEMENTS_FIELD_NUMBER: _ClassVar[int]
    namespace: str
    stream: str
    subscription: str
    position: Position
    generation: int
    acknowledgements: Acknowledgements
    def __init__(self, namespace: _Optional[str] = ..., stream: _Optional[str] = ..., subscription: _Optional[str] = ..., position: _Optional[_Union[Position, _Mapping]] = ..., generation: _Optional[int] = ..., acknowledgements: _Optional[_Union[Acknowledgements, _Mapping]] = ...) -> None: ...

class DeleteSubscriptionRequest(_message.Message):
    __slots__ = ("namespace", "stream", "subscription")
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    STREAM_FIELD_NUMBER: _ClassVar[int]
    SUBSCRIPTION_FIELD_NUMBER: _ClassVar[int]
    namespace: str
    stream: str
    subscription: str
    def __init__(self, namespace: _Optional[str] = ..., stream: _Optional[str] = ..., subscription: _Optional[str] = ...) -> None: ...

class DeleteSubscriptionResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ListSubscriptionsRequest(_message.Message):
    __slots__ = ("namespace", "stream", "after", "limit")
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    STREAM_FIELD_NUMBER: _ClassVar[int]
    AFTER_FIELD_NUMBER: _ClassVar[int]
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    namespace: str
    stream: str
    after: str
    limit: int
    def __init__(self, namespace: _Optional[str] = ..., stream: _Optional[str] = ..., after: _Optional[str] = ..., limit: _Optional[int] = ...) -> None: ...

class ListSubscriptionsResponse(_message.Message):
    __slots__ = ("subscriptions",)
    SUBSCRIPTIONS_FIELD_NUMBER: _ClassVar[int]
    subscriptions: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, subscriptions: _Optional[_Iterable[str]] = ...) -> None: ...

class CreateTopicRequest(_message.Message):
    __slots__ = ("namespace", "topic", "partition_count", "policy")
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    PARTITION_COUNT_FIELD_NUMBER: _ClassVar[int]
    POLICY_FIELD_NUMBER: _ClassVar[int]
    namespace: str
    topic: str
    partition_count: int
    policy: Policy
    def __init__(self, namespace: _Optional[str] = ..., topic: _Optional[str] = ..., partition_count: _Optional[int] = ..., policy: _Optional[_Union[Policy, _Mapping]] = ...) -> None: ...

class DescribeTopicRequest(_message.Message):
    __slots__ = ("namespace", "topic")
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    namespace: str
    topic: str
    def __init__(self, namespace: _Optional[str] = ..., topic: _Optional[str] = ...) -> None: ...

class TopicResponse(_message.Message):
    __slots__ = ("topic", "partition_count", "first_count")
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    PARTITION_COUNT_FIELD_NUMBER: _ClassVar[int]
    FIRST_COUNT_FIELD_NUMBER: _ClassVar[int]
    topic: str
    partition_count: int
    first_count: int
    def __init__(self, topic: _Optional[str] = ..., partition_count: _Optional[int] = ..., first_count: _Optional[int] = ...) -> None: ...

class GrowTopicRequest(_message.Message):
    __slots__ = ("namespace", "topic", "partition_count", "policy")
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    PARTITION_COUNT_FIELD_NUMBER: _ClassVar[int]
    POLICY_FIELD_NUMBER: _ClassVar[int]
    namespace: str
    topic: str
    partition_count: int
    policy: Policy
    def __init__(self, namespace: _Optional[str] = ..., topic: _Optional[str] = ..., partition_count: _Optional[int] = ..., policy: _Optional[_Union[Policy, _Mapping]] = ...) -> None: ...

class ListGroupsRequest(_message.Message):
    __slots__ = ("namespace", "topic")
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    namespace: str
    topic: str
    def __init__(self, namespace: _Optional[str] = ..., topic: _Optional[str] = ...) -> None: ...

class ListGroupsResponse(_message.Message):
    __slots__ = ("groups",)
    GROUPS_FIELD_NUMBER: _ClassVar[int]
    groups: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, groups: _Optional[_Iterable[str]] = ...) -> None: ...

class DeleteTopicRequest(_message.Message):
    __slots__ = ("namespace", "topic")
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    namespace: str
    topic: str
    def __init__(self, namespace: _Optional[str] = ..., topic: _Optional[str] = ...) -> None: ...

class DeleteTopicResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ListTopicsRequest(_message.Message):
    __slots__ = ("namespace", "prefix", "after", "limit")
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    PREFIX_FIELD_NUMBER: _ClassVar[int]
    AFTER_FIELD_NUMBER: _ClassVar[int]
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    namespace: str
    prefix: str
    after: str
    limit: int
    def __init__(self, namespace: _Optional[str] = ..., prefix: _Optional[str] = ..., after: _Optional[str] = ..., limit: _Optional[int] = ...) -> None: ...

class ListTopicsResponse(_message.Message):
    __slots__ = ("topics",)
    TOPICS_FIELD_NUMBER: _ClassVar[int]
    topics: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, topics: _Optional[_Iterable[str]] = ...) -> None: ...

class GroupRequest(_message.Message):
    __slots__ = ("id", "namespace", "topic", "group", "session_ttl_ms", "read", "list", "create", "put", "delete", "leave", "read_topic")
    ID_FIELD_NUMBER: _ClassVar[int]
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    GROUP_FIELD_NUMBER: _ClassVar[int]
    SESSION_TTL_MS_FIELD_NUMBER: _ClassVar[int]
    READ_FIELD_NUMBER: _ClassVar[int]
    LIST_FIELD_NUMBER: _ClassVar[int]
    CREATE_FIELD_NUMBER: _ClassVar[int]
    PUT_FIELD_NUMBER: _ClassVar[int]
    DELETE_FIELD_NUMBER: _ClassVar[int]
    LEAVE_FIELD_NUMBER: _ClassVar[int]
    READ_TOPIC_FIELD_NUMBER: _ClassVar[int]
    id: int
    namespace: str
    topic: str
    group: str
    session_ttl_ms: int
    read: str
    list: str
    create: GroupNode
    put: GroupNode
    delete: GroupNode
    leave: bool
    read_topic: bool
    def __init__(self, id: _Optional[int] = ..., namespace: _Optional[str] = ..., topic: _Optional[str] = ..., group: _Optional[str] = ..., session_ttl_ms: _Optional[int] = ..., read: _Optional[str] = ..., list: _Optional[str] = ..., create: _Optional[_Union[GroupNode, _Mapping]] = ..., put: _Optional[_Union[GroupNode, _Mapping]] = ..., delete: _Optional[_Union[GroupNode, _Mapping]] = ..., leave: _Optional[bool] = ..., read_topic: _Optional[bool] = ...) -> None: ...

class GroupNode(_message.Message):
    __slots__ = ("path", "data", "expected_version", "is_ephemeral")
    PATH_FIELD_NUMBER: _ClassVar[int]
    DATA_FIELD_NUMBER: _ClassVar[int]
    EXPECTED_VERSION_FIELD_NUMBER: _ClassVar[int]
    IS_EPHEMERAL_FIELD_NUMBER: _ClassVar[int]
    path: str
    data: bytes
    expected_version: str
    is_ephemeral: bool
    def __init__(self, path: _Optional[str] = ..., data: _Optional[bytes] = ..., expected_version: _Optional[str] = ..., is_ephemeral: _Optional[bool] = ...) -> None: ...

class GroupResponse(_message.Message):
    __slots__ = ("id", "error", "data", "version", "names", "has_changed")
    ID_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    DATA_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    NAMES_FIELD_NUMBER: _ClassVar[int]
    HAS_CHANGED_FIELD_NUMBER: _ClassVar[int]
    id: int
    error: Error
    data: bytes
    version: str
    names: _containers.RepeatedScalarFieldContainer[str]
    has_changed: bool
    def __init__(self, id: _Optional[int] = ..., error: _Optional[_Union[Error, _Mapping]] = ..., data: _Optional[bytes] = ..., version: _Optional[str] = ..., names: _Optional[_Iterable[str]] = ..., has_changed: _Optional[bool] = ...) -> None: ...
