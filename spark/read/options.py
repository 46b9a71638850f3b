"""The read options of the data source, named like Kafka's options with the same meaning."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from ...client.units import parse_ms
from ...core.protocol.errors import ConfigurationError, InvalidArgumentError
from ..secure_files import SecureFiles, take_secure_files
from .bounds import EARLIEST, LATEST, Bound, bound_parsers, names_bound
from .columns import ALL_COLUMNS
from .conditions import Conditions, parse_conditions

MAX_TRIGGER_DELAY_MS = 15 * 60_000
"""Default of ``maxTriggerDelay``, the same as in Spark's Kafka source."""


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
    min_offsets: int | None
    """``minOffsetsPerTrigger``: a micro-batch waits until there are so many new records."""
    max_trigger_delay_ms: int
    """``maxTriggerDelay``: longest wait for ``minOffsetsPerTrigger``, by default ``15m``."""
    min_partitions: int | None
    """``minPartitions``: divide the records among at least so many tasks, if there are enough.

    Only whole entries are divided. Without it, small parts of the archive share a task.
    """
    max_partition_records: int | None
    """``maxRecordsPerPartition``: about the maximum number of records of a task.

    Entries of a segment count as equally large, and are not divided.
    """
    fails_on_data_loss: bool
    """``failOnDataLoss``: fail if records were deleted before they were read (default ``true``).

    With ``false``, the query continues with the records that still exist.
    """
    where: Conditions
    """``where``: conditions on positions, txids and times that the rows of a batch query meet.

    Files and row groups without such rows are not read.
    """
    columns: tuple[str, ...]
    """``columns``: columns of the result in this order, separated by commas; all by default.

    Spark does not pass a Python source the columns that a query needs, so set it for large scans.
    """
    files: SecureFiles = field(default_factory=SecureFiles)
    """``tlsCa``, ``tlsCertificate``, ``tlsKey``, ``tlsServerName``, ``tokenFile``."""


def parse_options(given: Mapping[str, str], *, is_streaming: bool) -> Options:
    """Parse the read options of a query. Raises ConfigurationError that names every fault.

    Names are not case sensitive, as in Spark.
    """
    found = _Given(given)
    names = (part.strip() for part in (found.take("subscribe") or "").split(","))
    late_start = (found.take("startingOffsetsByTimestampStrategy") or "error").lower()
    if late_start not in ("error", "latest"):
        found.faults.append(
            f"startingOffsetsByTimestampStrategy: {late_start!r} is neither error nor latest"
        )
    columns = found.take("columns") or ",".join(ALL_COLUMNS)
    options = Options(
        subscribe=tuple(dict.fromkeys(name for name in names if name)),
        pattern=found.take("subscribePattern"),
        archive=found.take("archive"),
        metadata=found.take("metadata"),
        namespace=found.take("namespace") or "default",
        region=found.take("region"),
        starting=found.take_bound("starting", LATEST if is_streaming else EARLIEST),
        ending=found.take_end(is_streaming=is_streaming),
        late_start_begins_at_latest=late_start == "latest",
        max_offsets=found.take_count("maxOffsetsPerTrigger"),
        min_offsets=found.take_count("minOffsetsPerTrigger"),
        max_trigger_delay_ms=found.take_ms("maxTriggerDelay", MAX_TRIGGER_DELAY_MS),
        min_partitions=found.take_count("minPartitions"),
        max_partition_records=found.take_count("maxRecordsPerPartition"),
        fails_on_data_loss=found.take_flag("failOnDataLoss", "true"),
        where=found.take_conditions(is_streaming=is_streaming),
        columns=tuple(name.strip() for name in columns.split(",")),
        files=take_secure_files(found.take, found.faults),
    )
    faults = found.faults + _find_faults(options, is_streaming=is_streaming)
    faults += [f"{name}: unknown option" for name in sorted(found.remaining)]
    if faults:
        raise ConfigurationError("rhumbline data source: " + "; ".join(faults))
    return options


class _Given:
    """The options that a query was given; those that are taken are removed, faults are noted."""

    def __init__(self, given: Mapping[str, str]) -> None:
        self.remaining = {
            name.lower(): value for name, value in given.items() if name.lower() != "path"
        }
        self.faults: list[str] = []

    def take(self, name: str) -> str | None:
        return self.remaining.pop(name.lower(), None)

    def take_count(self, name: str) -> int | None:
        text = self.take(name)
        if text is None:
            return None
        if not (text.isascii() and text.isdecimal() and int(text)):
            self.faults.append(f"{name}: {text!r} is not a whole number above 0")
            return None
        return int(text)

    def take_flag(self, name: str, default: str) -> bool:
        text = (self.take(name) or default).lower()
        if text not in ("true", "false"):
            self.faults.append(f"{name}: {text!r} is neither true nor false")
        return text == "true"

    def take_ms(self, name: str, default_ms: int) -> int:
        try:
            return default_ms if (text := self.take(name)) is None else parse_ms(text)
        except InvalidArgumentError as error:
            self.faults.append(f"{name}: {error}")
            return default_ms

    def take_conditions(self, *, is_streaming: bool) -> Conditions:
        """Take ``where``. A streaming query plans by positions alone, so it has none."""
        text = self.take("where")
        try:
            found = Conditions() if text is None else parse_conditions(text)
        except ValueError as error:
            self.faults.append(f"where: {error}")
            return Conditions()
        if text is not None and is_streaming:
            self.faults.append("where: use the filters of Spark in a streaming query")
        return found

    def take_end(self, *, is_streaming: bool) -> Bound:
        """Take the end of a batch query; a streaming query has none."""
        names = [name for name in bound_parsers("ending") if name.lower() in self.remaining]
        bound = self.take_bound("ending", LATEST)
        if names and is_streaming:
            self.faults.append(
                f"{' and '.join(names)}: a streaming query has no end; remove the option, or use "
                "a batch query"
            )
            return LATEST
        return bound

    def take_bound(self, prefix: str, default: str) -> Bound:
        """Take ``{prefix}Offsets``, ``{prefix}Timestamp`` or ``{prefix}OffsetsByTimestamp``."""
        forms = bound_parsers(prefix)
        values = {name: text for name in forms if (text := self.take(name)) is not None}
        if len(values) > 1:
            self.faults.append(f"{' and '.join(values)}: only one of these options can be set")
        for name, text in values.items():
            try:
                return forms[name](text)
            except ValueError as error:
                self.faults.append(f"{name}: {error}")
        return default


def _find_faults(options: Options, *, is_streaming: bool) -> list[str]:
    unknown = [name for name in options.columns if name not in ALL_COLUMNS]
    least, most = options.min_offsets, options.max_offsets
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
            least is None or most is None or least <= most,
            f"minOffsetsPerTrigger: {least} is above maxOffsetsPerTrigger, which is {most}",
        ),
        (
            is_streaming or not names_bound(options.starting, LATEST),
            "startingOffsets: a batch query cannot start at latest",
        ),
        (
            not names_bound(options.ending, EARLIEST),
            "endingOffsets: a batch query cannot end at earliest",
        ),
    ]
    return [text for holds, text in checks if not holds]


def _is_pattern(text: str | None) -> bool:
    try:
        re.compile(text or "")
    except re.error:
        return False
    return True
