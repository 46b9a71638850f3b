"""The options of the data source, named as Kafka's where they mean the same."""

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from ...core.protocol.dlsn import Dlsn
from ...core.protocol.errors import ConfigurationError, InvalidArgumentError
from .columns import ALL_COLUMNS

EARLIEST = "earliest"
LATEST = "latest"


@dataclass(frozen=True, slots=True)
class AtTimestamp:
    """The first record that was made at this time or later; see ``Planner.resolve``."""

    ms: int | Mapping[str, int]
    """Since 1970; for all streams, or for each of them."""

    def of(self, stream: str) -> int:
        """The time for a stream. Raises InvalidArgumentError when none was given."""
        if isinstance(self.ms, int):
            return self.ms
        if stream not in self.ms:
            raise InvalidArgumentError(f"the timestamps say nothing of stream {stream}")
        return self.ms[stream]


Bound = str | dict[str, Dlsn] | AtTimestamp
"""EARLIEST, LATEST, a position for each stream, or a time."""


@dataclass(frozen=True, slots=True)
class Options:
    """What a query asked for; travels to executors. Made by ``parse_options``."""

    subscribe: tuple[str, ...]
    """Streams; empty where a pattern says which."""
    pattern: str | None
    """Regular expression for whole names of streams; who matches is looked up again and again."""
    archive: str | None
    """URI of the cold store. Without it only what is in ledgers is read."""
    metadata: str | None
    """URI of the cluster. Without it only the archive is read, and no server is asked."""
    namespace: str
    region: str | None
    """Region of the executors; needed where the cluster has several."""
    starting: Bound
    ending: Bound
    late_start_begins_at_latest: bool
    """When no record is as late as the starting time: begin at the end, instead of failing."""
    max_offsets: int | None
    """Most records of a micro-batch; a single entry may exceed it."""
    fails_on_data_loss: bool
    pushes_filters: bool
    """See ``FilteringBatchReader``: for a DataFrame that is used with one filter."""
    columns: tuple[str, ...]
    """Of the result, in this order: Spark does not tell a Python source which ones it needs."""


def parse_options(given: Mapping[str, str], *, is_streaming: bool) -> Options:
    """Reads the options of a query. Raises ConfigurationError naming every fault.

    Names are taken in any case, as Spark does.
    """
    left = {name.lower(): value for name, value in given.items() if name.lower() != "path"}
    faults: list[str] = []

    def take(name: str, default: str | None = None) -> str | None:
        return left.pop(name.lower(), default)

    def bound(word: str, default: str) -> Bound:
        """From startingOffsets, startingTimestamp or startingOffsetsByTimestamp (or ending...)."""
        forms: dict[str, Callable[[str], Bound]] = {
            f"{word}Offsets": _bound,
            f"{word}Timestamp": lambda text: AtTimestamp(_whole(json.loads(text))),
            f"{word}OffsetsByTimestamp": lambda text: AtTimestamp(_times(json.loads(text))),
        }
        values = {name: text for name in forms if (text := take(name)) is not None}
        if len(values) > 1:
            faults.append(f"{' and '.join(values)}: give one of them")
        for name, text in values.items():
            try:
                return forms[name](text)
            except ValueError as error:
                faults.append(f"{name}: {error}")
        return default

    streams = tuple(part.strip() for part in (take("subscribe") or "").split(",") if part.strip())
    archive, metadata = take("archive"), take("metadata")
    columns = tuple(c.strip() for c in (take("columns") or ",".join(ALL_COLUMNS)).split(","))
    limit = take("maxOffsetsPerTrigger")
    loss = (take("failOnDataLoss", "true") or "").lower()
    late = (take("startingOffsetsByTimestampStrategy", "error") or "").lower()
    pushes = (take("pushFilters", "false") or "").lower()
    starting = bound("starting", LATEST if is_streaming else EARLIEST)
    ending = bound("ending", LATEST)
    found = Options(
        subscribe=streams,
        pattern=take("subscribePattern"),
        archive=archive,
        metadata=metadata,
        namespace=take("namespace") or "default",
        region=take("region"),
        starting=starting,
        ending=ending,
        late_start_begins_at_latest=late == "latest",
        max_offsets=int(limit) if limit is not None and limit.isdecimal() else None,
        fails_on_data_loss=loss != "false",
        pushes_filters=pushes == "true",
        columns=columns,
    )
    faults += _faults(found, limit=limit, loss=loss, is_streaming=is_streaming)
    if pushes not in ("true", "false"):
        faults.append(f"pushFilters: {pushes!r} is neither true nor false")
    if late not in ("error", "latest"):
        faults.append(f"startingOffsetsByTimestampStrategy: {late!r} is neither error nor latest")
    faults += [f"{name}: no such option" for name in sorted(left)]
    if faults:
        raise ConfigurationError("rhumbline data source: " + "; ".join(faults))
    return found


def _faults(found: Options, *, limit: str | None, loss: str, is_streaming: bool) -> list[str]:
    unknown = [name for name in found.columns if name not in ALL_COLUMNS]
    checks = [
        (
            bool(found.subscribe) is not bool(found.pattern),
            "subscribe: name a stream, or several with commas; or give subscribePattern",
        ),
        (_is_pattern(found.pattern), "subscribePattern: not a regular expression"),
        (found.archive or found.metadata, "archive or metadata: say where the records are"),
        (
            not unknown,
            f"columns: no {', '.join(unknown)}; there are {', '.join(ALL_COLUMNS)}",
        ),
        (len(set(found.columns)) == len(found.columns), "columns: one is named twice"),
        (
            limit is None or found.max_offsets,
            f"maxOffsetsPerTrigger: {limit!r} is no number above 0",
        ),
        (loss in ("true", "false"), f"failOnDataLoss: {loss!r} is neither true nor false"),
        (
            is_streaming or found.starting != LATEST,
            "startingOffsets: a batch cannot begin at the latest",
        ),
        (found.ending != EARLIEST, "endingOffsets: nothing is before the earliest"),
    ]
    return [text for is_well, text in checks if not is_well]


def _is_pattern(text: str | None) -> bool:
    try:
        re.compile(text or "")
    except re.error:
        return False
    return True


def _whole(value: object) -> int:
    if not isinstance(value, int) or value < 0:
        raise ValueError(f"{value!r}: write milliseconds since 1970")
    return value


def _times(given: object) -> dict[str, int]:
    if not isinstance(given, dict):
        raise ValueError(f'{given!r}: write {{"stream": milliseconds}}')
    return {str(stream): _whole(value) for stream, value in given.items()}


def _bound(text: str) -> Bound:
    if text.strip().lower() in (EARLIEST, LATEST):
        return text.strip().lower()
    return parse_offsets(json.loads(text))


def parse_offsets(given: object) -> dict[str, Dlsn]:
    """Positions by stream from their JSON form, e.g. ``{"orders": "3:1041:0"}``.

    Raises ValueError.
    """
    if not isinstance(given, dict) or not all(isinstance(one, str) for one in given.values()):
        raise ValueError(f'{given!r}: write {{"stream": "lssn:entry:slot"}}')
    try:
        return {str(stream): Dlsn.parse(text) for stream, text in given.items()}
    except InvalidArgumentError as error:
        raise ValueError(str(error)) from error


def format_offsets(offsets: Mapping[str, Dlsn]) -> dict[str, str]:
    """The JSON form of positions: flat, of primitives, with the streams in order."""
    return {stream: str(offsets[stream]) for stream in sorted(offsets)}
