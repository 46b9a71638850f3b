"""What the numbers of ``statistics()`` mean: names, types, units, help; and Prometheus' text.

Nothing counts here: processes count in plain integers of their own, and this reads them when
somebody asks. A number's name is its path in the statistics, under what the process is (``bookie``,
``proxy``, ``repair``, ``client``); a path's part in braces is a label. Latencies are summaries.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from enum import StrEnum
from typing import Any, NamedTuple

Statistics = Callable[[], Mapping[str, Any]]
"""Called on the event loop of what it is about."""

Labels = tuple[tuple[str, str], ...]

QUANTILES = {"p50_ms": "0.5", "p99_ms": "0.99", "p999_ms": "0.999"}
"""Of ``Histogram.summary()``."""

_PREFIX = "rhumbline"
_SUMMARY_KEYS = {*QUANTILES, "count", "mean_ms", "max_ms"}
_PROMETHEUS_UNITS = {"By": "_bytes", "s": "_seconds"}
_ESCAPES = str.maketrans({"\\": r"\\", '"': r"\"", "\n": r"\n"})


class MetricType(StrEnum):
    """How a number moves."""

    COUNTER = "counter"
    """Only up, until the process ends."""
    GAUGE = "gauge"
    SUMMARY = "summary"
    """Quantiles since the process began, count and sum, in seconds."""


class Metric(NamedTuple):
    """One number, or one for each value of a label."""

    path: str
    """Dotted, e.g. ``client.ledgers.bookies.{bookie}.sent_bytes``."""
    type: MetricType
    unit: str
    """As UCUM writes it: ``By``, ``s``, ``{entry}``."""
    help: str

    @property
    def name(self) -> str:
        """Dotted, without labels, as OpenTelemetry names it."""
        return ".".join((_PREFIX, *(part for part in self.path.split(".") if part[0] != "{")))

    @property
    def prometheus_name(self) -> str:
        """As Prometheus names it: with its unit, and ``_total`` if it is a counter."""
        name = self.name.replace(".", "_")
        unit = _PROMETHEUS_UNITS.get(self.unit, "")
        name += "" if name.endswith(unit) else unit
        return f"{name}_total" if self.type is MetricType.COUNTER else name


class Sample(NamedTuple):
    """One value of a figure."""

    labels: Labels
    value: float
    part: str = ""
    """Of a summary: ``sum``, ``count``, or nothing, which is the quantile that a label says."""


def _figures(table: str) -> Iterator[Metric]:
    for line in table.strip().splitlines():
        path, type_, unit, help_ = line.split(maxsplit=3)
        yield Metric(path, MetricType(type_), unit, help_)


CATALOGUE = tuple(_figures("""
bookie.ready                       gauge   1         Whether it serves and takes entries.
bookie.entries                     gauge   {entry}   Entries that it holds.
bookie.bytes                       gauge   By        Payloads of the entries that it holds.
bookie.syncs                       counter {sync}    Durable writes of its log.
bookie.log_bytes                   counter By        Bytes written to its log.
bookie.ledgers                     gauge   {ledger}  Ledgers that it holds entries of.
bookie.connections                 gauge   {connection} Clients that are connected.
bookie.parked_polls                gauge   {request} Reads that wait for an entry to come.
bookie.pending_bytes               gauge   By        Bytes that wait for the next durable write.
bookie.tail_cache_bytes            gauge   By        Newest entries that are held in memory.
bookie.free_bytes                  gauge   By        Free space on its disk.
bookie.read_only                   gauge   1         Whether it refuses entries.
bookie.registered                  gauge   1         Whether it is registered in the metadata store.
bookie.sessions_lost               counter {session} Sessions with the metadata store that ended.
bookie.limbo                       gauge   1         Whether it answers with care since it may have lost entries.
bookie.restored_entries            counter {entry}   Entries that it may have lost and got back.
bookie.missing_entries             counter {entry}   Entries that it had lost and nobody had.
bookie.damages                     gauge   {damage}  Damaged places in its storage.
bookie.sealed_logs                 gauge   {file}    Logs that are full and not sorted yet.
bookie.sorted_files                gauge   {file}    Files of sorted entries.
bookie.sorted_bytes                counter By        Bytes written when sorting and compacting.
bookie.deleted_ledgers             counter {ledger}  Ledgers whose entries were removed.
bookie.ledgers_held_back           gauge   {ledger}  Ledgers that seem to be deleted and are kept for now.
bookie.repaired_entries            counter {entry}   Entries that were damaged and were fetched again.
bookie.maintenance_failures        counter {failure} Rounds of maintenance that failed.
bookie.half_frame_bytes            gauge   By        Requests that have arrived in part.
bookie.closed.{reason}             counter {connection} Connections that were closed, by reason.
bookie.durable_writes              summary s         Duration of durable writes (fsync).
proxy.ready                        gauge   1         Whether it should get new clients.
proxy.registered                   gauge   1         Whether it is registered in the metadata store.
proxy.sessions_lost                counter {session} Sessions with the metadata store that ended.
proxy.calls                        gauge   {call}    Append and read calls that are open.
proxy.write.streams                gauge   {stream}  Streams that it owns, takes or gives up now.
proxy.write.records                gauge   {record}  Records taken, of the streams that it owns now.
proxy.write.sets                   gauge   {set}     Record sets taken, of the streams that it owns now.
proxy.write.taken                  counter {stream}  Streams taken over.
proxy.write.lost                   counter {stream}  Streams lost: fenced, failed, or the session ended.
proxy.write.released               counter {stream}  Streams given up in an orderly way.
proxy.write.moved                  counter {stream}  Streams given up since another proxy should have them.
proxy.write.redirected             counter {set}     Times that a client was sent elsewhere.
proxy.write.refused                counter {set}     Times that a client was refused for a limit.
proxy.read.readers                 gauge   {reader}  Readers that are connected.
proxy.read.tails                   gauge   {stream}  Streams that are read at their ends.
proxy.read.cached_bytes            gauge   By        Entries held for its readers.
proxy.read.tail_entries            gauge   {entry}   Entries read at the ends of the streams read now.
repair.ready                       gauge   1         Whether it works.
repair.auditor                     gauge   1         Whether it is the process that looks for what is missing.
repair.working                     gauge   1         Whether it works.
repair.looks                       counter {look}    Whole looks at the cluster.
repair.ledgers                     gauge   {ledger}  Ledgers that the last look saw.
repair.wanted                      counter {ledger}  Ledgers that were found to lack copies.
repair.lists_compared              counter {list}    Bookies' lists of entries that were compared with the metadata.
repair.region_violations           gauge   {fragment} Fragments that do not keep their region rule.
repair.unreadable_ledgers          gauge   {ledger} Ledgers whose metadata is damaged: neither audited nor mended.
repair.unreferenced_removed        counter {ledger} Ledgers that were made for a segment, that none named, and that were deleted.
repair.fragile_fragments           gauge   {fragment} Fragments in which one bookie sits in every set that may acknowledge.
repair.entries_at_risk.{region}    gauge   {entry}   Entries that would be lost, or unreadable, with that region.
repair.streams_at_risk.{region}    gauge   {stream}  Streams that have such entries.
repair.mended.ledgers              counter {ledger}  Ledgers mended.
repair.mended.fragments_moved      counter {fragment} Fragments that got another bookie.
repair.mended.entries              counter {entry}   Entries copied.
repair.mended.bytes                counter By        Bytes copied.
repair.stuck                       gauge   {ledger}  Ledgers that could not be mended yet.
client.streams.entries             counter {entry}   Entries that were acknowledged.
client.streams.records             counter {record}  Records that were acknowledged.
client.streams.bytes               counter By        Payloads, with a few bytes a record, that were acknowledged.
client.streams.control_entries     counter {entry}   Acknowledged entries without records of applications.
client.streams.segments_failed     counter {segment} Ledgers that failed under their writers.
client.streams.acks                summary s         From an entry's first append to its acknowledgement.
client.streams.acks_by_regions.{regions} counter {entry} Entries, by the number of regions that held them when they were acknowledged.
client.ledgers.open_handles        gauge   {ledger}  Ledgers that are open.
client.ledgers.adds                summary s         From an entry's sending to its acknowledgement.
client.ledgers.bookies.{bookie}.sent_bytes     counter By Bytes sent to a bookie.
client.ledgers.bookies.{bookie}.received_bytes counter By Bytes received from a bookie.
client.reads.questions             counter {request} Reads that bookies were asked for.
client.reads.extra                 counter {request} Second bookies that were asked since the first was slow.
client.reads.extra_denied          counter {request} Times that no second bookie was asked, for the limit.
client.reads.extra_won             counter {request} Times that the second bookie answered first.
client.reads.sunk                  counter {bookie}  Times that a bookie was put last for its failures.
client.reads.came_back             counter {bookie}  Times that such a bookie was well again.
client.reads.answers_by_region.{region}        counter {request} Answers to reads, by the bookie's region.
client.reads.latency_ms.{region}.{quantile}    gauge   ms Latency of reads lately, by the bookie's region.
"""))  # fmt: skip  # noqa: E501

_BY_PARTS = {tuple(figure.path.split(".")): figure for figure in CATALOGUE}


def known_metric(parts: tuple[str, ...]) -> tuple[Metric, Labels] | None:
    """The figure at a path of the statistics, and the labels that are in the path."""
    found = _BY_PARTS.get(parts)
    if found is not None:
        return found, ()
    for pattern, figure in _BY_PARTS.items():
        if len(pattern) == len(parts) and all(
            part == one or part[0] == "{" for part, one in zip(pattern, parts, strict=True)
        ):
            pairs = zip(pattern, parts, strict=True)
            return figure, tuple((name[1:-1], one) for name, one in pairs if name[0] == "{")
    return None


def samples(service: str, statistics: Mapping[str, Any]) -> dict[Metric, list[Sample]]:
    """The values of all figures in the statistics of a process, in the catalogue's order.

    What the catalogue does not know is left out. The statistics of a client may be within.
    """
    found: dict[Metric, list[Sample]] = {}
    for parts, value in _leaves((service,), statistics):
        if parts[1:2] == ("client",):
            parts = parts[1:]
        known = known_metric(parts)
        if known is not None:
            figure, labels = known
            found.setdefault(figure, []).extend(_samples(labels, value))
    order = {figure: index for index, figure in enumerate(CATALOGUE)}
    return {figure: found[figure] for figure in sorted(found, key=order.__getitem__)}


def prometheus_text(values: Mapping[Metric, Iterable[Sample]]) -> str:
    """The values in Prometheus' text format 0.0.4."""
    lines: list[str] = []
    for figure, some in values.items():
        name = figure.prometheus_name
        lines += (f"# HELP {name} {figure.help}", f"# TYPE {name} {figure.type}")
        for one in some:
            shown = ",".join(f'{key}="{text.translate(_ESCAPES)}"' for key, text in one.labels)
            part = f"_{one.part}" if one.part else ""
            lines.append(f"{name}{part}{{{shown}}} {one.value}" if shown else
                         f"{name}{part} {one.value}")  # fmt: skip
    return "\n".join(lines) + "\n"


def _leaves(
    parts: tuple[str, ...], statistics: Mapping[str, Any]
) -> Iterator[tuple[tuple[str, ...], Any]]:
    for key, value in statistics.items():
        below = (*parts, str(key))
        if isinstance(value, Mapping) and value.keys() != _SUMMARY_KEYS:
            yield from _leaves(below, value)
        elif isinstance(value, Mapping | int | float):
            yield below, value


def _samples(labels: Labels, value: Any) -> Iterator[Sample]:  # noqa: ANN401 - a leaf
    if not isinstance(value, Mapping):
        yield Sample(labels, int(value) if isinstance(value, bool) else value)
        return
    for key, quantile in QUANTILES.items():
        yield Sample((*labels, ("quantile", quantile)), value[key] / 1000)
    yield Sample(labels, value["mean_ms"] * value["count"] / 1000, "sum")
    yield Sample(labels, value["count"], "count")
