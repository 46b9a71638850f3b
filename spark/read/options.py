"""The read options of the data source, named like Kafka's options with the same meaning."""

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from ...core.protocol.dlsn import Dlsn
from ...core.protocol.errors import ConfigurationError, InvalidArgumentError
from .columns import ALL_COLUMNS

EARLIEST = "earliest"
LATEST = "latest"

_NOT_MS = "{!r} is not a whole number of milliseconds since 1970, such as 1767225600000"


@dataclass(frozen=True, slots=True)
class AtTimestamp:
    """A bound at the first record that was created at this time or later."""

    ms: int | Mapping[str, int]
    """Milliseconds since 1970, for all streams or by stream."""

    def for_stream(self, stream: str) -> int:
        """Return the time for a stream. Raises InvalidArgumentError if none was given."""
        if isinstance(self.ms, int):
            return self.ms
        if stream not in self.ms:
            raise InvalidArgumentError(
                f"the timestamps by stream have no value for stream {stream}"
            )
        return self.ms[stream]


Bound = str | dict[str, Dlsn] | AtTimestamp
"""A start or end of a query: EARLIEST, LATEST, a position for each stream, or a time."""


@dataclass(frozen=True, slots=True)
class Options:
    """The parsed read options of a query, pickled for executors. See ``parse_options``."""

    subscribe: tuple[str, ...]
    """``subscribe``: names of streams, separated by commas; empty if a pattern is given.

    A name that is given twice counts once.
    """
    pattern: str | None
    """``subscribePattern``: regular expression for whole names of streams.

    It is matched again for every micro-batch, so a streaming query includes later streams.
    """
    archive: str | None
    """``archive``: URI of the cold store. Without it, only records in ledgers are read."""
    metadata: str | None
    """``metadata``: URI of the cluster, or of its read proxies (``grpc://``).

    Without it, only the archive is read, and no server of the cluster is contacted.
    """
    namespace: str
    """``namespace``: namespace of the streams, by default ``default``."""
    region: str | None
    """``region``: region of the executors; required if the cluster has several regions."""
    starting: Bound
    """``startingOffsets``, ``startingTimestamp`` or ``startingOffsetsByTimestamp``: where to begin.

    The default is the earliest position in batch queries and the latest in streaming queries.
    """
    ending: Bound
    """``endingOffsets``, ``endingTimestamp`` or ``endingOffsetsByTimestamp``: where a batch ends.

    The position itself is not read. The default is the latest position. A streaming query has no
    end, so it does not accept these options.
    """
    late_start_begins_at_latest: bool
    """``startingOffsetsByTimestampStrategy``: what to do if the starting time is after all records.

    ``latest`` (True) begins at the end of the stream; ``error``, the default, fails the query.
    """
    max_offsets: int | None
    """``maxOffsetsPerTrigger``: maximum number of records of a micro-batch.

    Each stream with new records adds at least one entry, so a micro-batch can exceed the limit.
    """
    fails_on_data_loss: bool
    """``failOnDataLoss``: fail if records were deleted before they were read (default ``true``).

    With ``false``, the query continues with the records that still exist.
    """
    pushes_filters: bool
    """``pushFilters``: skip files and row groups that cannot pass the filters (default ``false``).

    Set it only for a DataFrame that is used with a single filter; see ``FilteringBatchReader``.
    """
    columns: tuple[str, ...]
    """``columns``: columns of the result in this order, separated by commas; all by default.

    Spark does not pass a Python source the columns that a query needs, so set it for large scans.
    """


def parse_options(given: Mapping[str, str], *, is_streaming: bool) -> Options:
    """Parse the read options of a query. Raises ConfigurationError that names every fault.

    Names are not case sensitive, as in Spark.
    """
    remaining = {name.lower(): value for name, value in given.items() if name.lower() != "path"}
    faults: list[str] = []

    def take(name: str, default: str | None = None) -> str | None:
        return remaining.pop(name.lower(), default)

    def take_bound(prefix: str, default: str) -> Bound:
        """Parse ``{prefix}Offsets``, ``{prefix}Timestamp`` or ``{prefix}OffsetsByTimestamp``."""
        forms: dict[str, Callable[[str], Bound]] = {
            f"{prefix}Offsets": _parse_bound,
            f"{prefix}Timestamp": lambda text: AtTimestamp(_parse_ms_text(text)),
            f"{prefix}OffsetsByTimestamp": lambda text: AtTimestamp(
                _parse_timestamps(_parse_json(text))
            ),
        }
        values = {name: text for name in forms if (text := take(name)) is not None}
        if len(values) > 1:
            faults.append(f"{' and '.join(values)}: only one of these options can be set")
        if values and prefix == "ending" and is_streaming:
            faults.append(
                f"{' and '.join(values)}: a streaming query has no end; remove the option, or use "
                "a batch query"
            )
            return default
        for name, text in values.items():
            try:
                return forms[name](text)
            except ValueError as error:
                faults.append(f"{name}: {error}")
        return default

    names = (part.strip() for part in (take("subscribe") or "").split(","))
    streams = tuple(dict.fromkeys(name for name in names if name))
    archive, metadata = take("archive"), take("metadata")
    columns = tuple(c.strip() for c in (take("columns") or ",".join(ALL_COLUMNS)).split(","))
    max_offsets = take("maxOffsetsPerTrigger")
    data_loss = (take("failOnDataLoss", "true") or "").lower()
    late_start = (take("startingOffsetsByTimestampStrategy", "error") or "").lower()
    push_filters = (take("pushFilters", "false") or "").lower()
    starting = take_bound("starting", LATEST if is_streaming else EARLIEST)
    ending = take_bound("ending", LATEST)
    options = Options(
        subscribe=streams,
        pattern=take("subscribePattern"),
        archive=archive,
        metadata=metadata,
        namespace=take("namespace") or "default",
        region=take("region"),
        starting=starting,
        ending=ending,
        late_start_begins_at_latest=late_start == "latest",
        max_offsets=int(max_offsets)
        if max_offsets is not None and max_offsets.isdecimal()
        else None,
        fails_on_data_loss=data_loss != "false",
        pushes_filters=push_filters == "true",
        columns=columns,
    )
    faults += _find_faults(
        options, max_offsets=max_offsets, data_loss=data_loss, is_streaming=is_streaming
    )
    if push_filters not in ("true", "false"):
        faults.append(f"pushFilters: {push_filters!r} is neither true nor false")
    if late_start not in ("error", "latest"):
        faults.append(
            f"startingOffsetsByTimestampStrategy: {late_start!r} is neither error nor latest"
        )
    faults += [f"{name}: unknown option" for name in sorted(remaining)]
    if faults:
        raise ConfigurationError("rhumbline data source: " + "; ".join(faults))
    return options


def _find_faults(
    options: Options, *, max_offsets: str | None, data_loss: str, is_streaming: bool
) -> list[str]:
    unknown = [name for name in options.columns if name not in ALL_COLUMNS]
    checks = [
        (
            bool(options.subscribe) is not bool(options.pattern),
            "subscribe, subscribePattern: set exactly one of them (stream names separated by "
            "commas, or a regular expression)",
        ),
        (
            _is_pattern(options.pattern),
            f"subscribePattern: {options.pattern!r} is not a regular expression",
        ),
        (
            options.archive or options.metadata,
            "archive, metadata: set at least one of them (the URI of the cold store, the URI of "
            "the cluster)",
        ),
        (
            not unknown,
            f"columns: unknown column {', '.join(unknown)}; known are {', '.join(ALL_COLUMNS)}",
        ),
        (len(set(options.columns)) == len(options.columns), "columns: a column is named twice"),
        (
            max_offsets is None or options.max_offsets,
            f"maxOffsetsPerTrigger: {max_offsets!r} is not a whole number above 0",
        ),
        (
            data_loss in ("true", "false"),
            f"failOnDataLoss: {data_loss!r} is neither true nor false",
        ),
        (
            is_streaming or options.starting != LATEST,
            "startingOffsets: a batch query cannot start at latest",
        ),
        (options.ending != EARLIEST, "endingOffsets: a batch query cannot end at earliest"),
    ]
    return [text for holds, text in checks if not holds]


def _is_pattern(text: str | None) -> bool:
    try:
        re.compile(text or "")
    except re.error:
        return False
    return True


def _parse_json(text: str) -> object:
    try:
        return json.loads(text)
    except ValueError as error:
        raise ValueError(f"{text!r} is not valid JSON: {error}") from error


def _parse_ms(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise ValueError(_NOT_MS.format(value))
    return value


def _parse_ms_text(text: str) -> int:
    if not (text.strip().isascii() and text.strip().isdecimal()):
        raise ValueError(_NOT_MS.format(text))
    return int(text)


def _parse_timestamps(given: object) -> dict[str, int]:
    if not isinstance(given, dict):
        raise ValueError(f'{given!r} is not of the form {{"stream": milliseconds}}')
    return {str(stream): _parse_ms(value) for stream, value in given.items()}


def _parse_bound(text: str) -> Bound:
    if text.strip().lower() in (EARLIEST, LATEST):
        return text.strip().lower()
    if not text.strip().startswith("{"):
        raise ValueError(
            f'{text!r} is neither earliest, latest nor of the form {{"stream": "lssn:entry:slot"}}'
        )
    return parse_offsets(_parse_json(text))


def parse_offsets(given: object) -> dict[str, Dlsn]:
    """Return positions by stream from decoded JSON, e.g. ``{"orders": "3:1041:0"}``.

    Raises ValueError.
    """
    if not isinstance(given, dict) or not all(
        isinstance(position, str) for position in given.values()
    ):
        raise ValueError(f'{given!r} is not of the form {{"stream": "lssn:entry:slot"}}')
    try:
        return {str(stream): Dlsn.parse(text) for stream, text in given.items()}
    except InvalidArgumentError as error:
        raise ValueError(str(error)) from error


def format_offsets(offsets: Mapping[str, Dlsn]) -> dict[str, str]:
    """Return positions in their JSON form: a flat object of strings, sorted by stream."""
    return {stream: str(offsets[stream]) for stream in sorted(offsets)}
