"""The catalogue of metrics, and their values in the statistics of components.

Components count in plain integers and return them from ``statistics()``; nothing is counted here.
The name of a metric is the path of its value in those statistics, below the name of the service
(``bookie``, ``proxy``, ``repair``, ``archive``, ``client``). A path element in braces is a label.
Latencies are histograms. Metrics are in base units (bytes, seconds): a value in milliseconds, whose
path ends in ``_ms``, is converted.
"""

from collections.abc import Callable, Iterator, Mapping
from enum import StrEnum
from typing import Any, NamedTuple

from .histogram import BOUNDS_S, Histogram

Statistics = Callable[[], Mapping[str, Any]]
"""Returns the statistics of a component; called on the component's event loop."""

Labels = tuple[tuple[str, str], ...]

REGIONAL = "regional"
"""Key of the statistics of regional metadata stores, by region."""
STORE_LABEL = "store"

_PREFIX = "rhumbline"
_HISTOGRAM_KEYS = Histogram().summary().keys()
_PROMETHEUS_UNITS = {"By": "_bytes", "s": "_seconds"}
_BOUND_LABELS = tuple(f"{bound:.6f}".rstrip("0") for bound in BOUNDS_S)


class MetricType(StrEnum):
    """The kind of a metric."""

    COUNTER = "counter"
    """Never decreases during the lifetime of the process."""
    GAUGE = "gauge"
    """Increases and decreases."""
    HISTOGRAM = "histogram"
    """Counts of durations up to some bounds, their number and their sum, in seconds."""


class Metric(NamedTuple):
    """A metric: one value, or one for each value of its labels."""

    path: str
    """Dotted path in the statistics, e.g. ``client.ledgers.bookies.{bookie}.sent_bytes``."""
    type: MetricType
    unit: str
    """In UCUM notation: ``By``, ``s``, ``{entry}``."""
    help: str

    @property
    def name(self) -> str:
        """The OpenTelemetry name: dotted, without labels and units."""
        names = [part for part in self.path.split(".") if part[0] != "{"]
        if self.is_in_ms:
            names[-1] = names[-1].removesuffix("_ms")
        return ".".join((_PREFIX, *names))

    @property
    def labels(self) -> tuple[str, ...]:
        """The names of its labels."""
        return tuple(part[1:-1] for part in self.path.split(".") if part[0] == "{")

    @property
    def is_in_ms(self) -> bool:
        """True if the value in the statistics is in milliseconds; the metric is in seconds."""
        return self.unit == "s" and self.path.endswith("_ms")

    @property
    def prometheus_name(self) -> str:
        """The Prometheus name: with the unit, and with ``_total`` if it is a counter."""
        name = self.name.replace(".", "_")
        unit = _PROMETHEUS_UNITS.get(self.unit, "")
        name += "" if name.endswith(unit) else unit
        return f"{name}_total" if self.type is MetricType.COUNTER else name


class Sample(NamedTuple):
    """One value of a metric."""

    labels: Labels
    value: float
    part: str = ""
    """The part of a histogram: ``bucket`` (its bound is the label ``le``), ``sum`` or ``count``."""


def _certificate_remaining(service: str) -> Metric:
    return Metric(
        f"{service}.tls.certificate_remaining_ms",
        MetricType.GAUGE,
        "s",
        "Time until the certificate of the server expires; 0 if it has expired.",
    )


def _usage_of(label: str, key: str) -> tuple[Metric, ...]:
    path = f"proxy.quotas.{key}.{{{label}}}"
    return (
        Metric(f"{path}.append_bytes", MetricType.COUNTER, "By", f"Bytes appended by {label}."),
        Metric(
            f"{path}.append_records",
            MetricType.COUNTER,
            "{record}",
            f"Records appended by {label}.",
        ),
        Metric(
            f"{path}.read_bytes", MetricType.COUNTER, "By", f"Bytes sent to readers by {label}."
        ),
        Metric(
            f"{path}.refused",
            MetricType.COUNTER,
            "{request}",
            f"Requests refused because of a quota by {label}.",
        ),
    )


CATALOGUE = (
    Metric("bookie.ready", MetricType.GAUGE, "1", "1 while the bookie serves and accepts entries."),
    Metric("bookie.entries", MetricType.GAUGE, "{entry}", "Entries stored."),
    Metric("bookie.bytes", MetricType.GAUGE, "By", "Payload bytes of the stored entries."),
    Metric("bookie.syncs", MetricType.COUNTER, "{sync}", "Durable writes of the write log."),
    Metric("bookie.log_bytes", MetricType.COUNTER, "By", "Bytes written to the write log."),
    Metric("bookie.ledgers", MetricType.GAUGE, "{ledger}", "Ledgers with stored entries."),
    Metric("bookie.connections", MetricType.GAUGE, "{connection}", "Open client connections."),
    Metric(
        "bookie.parked_polls",
        MetricType.GAUGE,
        "{request}",
        "Long-poll reads that wait for the next entry.",
    ),
    Metric(
        "bookie.pending_bytes",
        MetricType.GAUGE,
        "By",
        "Bytes that wait for the next durable write.",
    ),
    Metric(
        "bookie.tail_cache_bytes", MetricType.GAUGE, "By", "Size of the cache of recent entries."
    ),
    Metric("bookie.free_bytes", MetricType.GAUGE, "By", "Free space on the bookie's disk."),
    Metric("bookie.disk_bytes", MetricType.GAUGE, "By", "Capacity of the bookie's disk."),
    Metric(
        "bookie.read_only_below_bytes",
        MetricType.GAUGE,
        "By",
        "Free space below which plain adds are refused; lowered on a small disk.",
    ),
    Metric(
        "bookie.reserve_below_bytes",
        MetricType.GAUGE,
        "By",
        "Free space below which recovery adds are refused too; lowered on a small disk.",
    ),
    Metric(
        "bookie.maintenance_reserve_bytes",
        MetricType.GAUGE,
        "By",
        "Disk space that only maintenance may use, as it should be.",
    ),
    Metric(
        "bookie.maintenance_reserve_missing_bytes",
        MetricType.GAUGE,
        "By",
        "Part of the maintenance reserve that is lent, or that the disk has no room for.",
    ),
    Metric(
        "bookie.space_short",
        MetricType.GAUGE,
        "1",
        "1 while plain adds are refused because of little disk space.",
    ),
    Metric(
        "bookie.space_blocked",
        MetricType.GAUGE,
        "1",
        "1 while space is short and an obstacle keeps maintenance from freeing it.",
    ),
    Metric(
        "bookie.space_exhausted",
        MetricType.GAUGE,
        "1",
        "1 while space is short and everything on the disk is live.",
    ),
    Metric(
        "bookie.maintenance_obstacles",
        MetricType.GAUGE,
        "{obstacle}",
        "Kinds of maintenance work that failed at the last attempt, or that wait for a repair.",
    ),
    Metric(
        "bookie.garbage_files_removed",
        MetricType.COUNTER,
        "{file}",
        "Files without live entries that were removed, without copying anything.",
    ),
    Metric("bookie.read_only", MetricType.GAUGE, "1", "1 while the bookie refuses new entries."),
    Metric(
        "bookie.registered",
        MetricType.GAUGE,
        "1",
        "1 while the bookie is registered in the metadata store.",
    ),
    Metric(
        "bookie.sessions_lost",
        MetricType.COUNTER,
        "{session}",
        "Metadata store sessions that expired.",
    ),
    Metric(
        "bookie.limbo",
        MetricType.GAUGE,
        "1",
        "1 while the bookie is in limbo (possible data loss).",
    ),
    Metric(
        "bookie.restored_entries",
        MetricType.COUNTER,
        "{entry}",
        "Entries possibly lost and fetched again from other replicas.",
    ),
    Metric(
        "bookie.missing_entries",
        MetricType.GAUGE,
        "{entry}",
        "Entries that a bookie in limbo lacks and that no other replica provides now.",
    ),
    Metric(
        "bookie.damaged_ranges",
        MetricType.GAUGE,
        "{damage}",
        "Damaged byte ranges of the bookie's files.",
    ),
    Metric("bookie.data_directories", MetricType.GAUGE, "{directory}", "Data directories."),
    Metric(
        "bookie.data_directories_failed",
        MetricType.GAUGE,
        "{directory}",
        "Data directories that failed since the start.",
    ),
    Metric(
        "bookie.data_directories_full",
        MetricType.GAUGE,
        "{directory}",
        "Data directories that get no new files, because they have too little free space.",
    ),
    Metric(
        "bookie.data_directory.{directory}.free_bytes",
        MetricType.GAUGE,
        "By",
        "Free space of a data directory.",
    ),
    Metric(
        "bookie.data_directory.{directory}.disk_bytes",
        MetricType.GAUGE,
        "By",
        "Capacity of the device of a data directory.",
    ),
    Metric(
        "bookie.data_directory.{directory}.files",
        MetricType.GAUGE,
        "{file}",
        "Sorted files in a data directory.",
    ),
    Metric(
        "bookie.data_directory.{directory}.failed",
        MetricType.GAUGE,
        "1",
        "1 if the data directory has failed.",
    ),
    Metric(
        "bookie.data_directory.{directory}.full",
        MetricType.GAUGE,
        "1",
        "1 if the data directory gets no new files, because it has too little free space.",
    ),
    Metric(
        "bookie.incomplete_ledgers",
        MetricType.GAUGE,
        "{ledger}",
        "Ledgers whose copies were lost with a data directory and may not be restored yet.",
    ),
    Metric(
        "bookie.lost_files",
        MetricType.GAUGE,
        "{file}",
        "Sorted files in failed data directories, with entries that have no other copy here yet.",
    ),
    Metric(
        "bookie.lost_entries",
        MetricType.GAUGE,
        "{entry}",
        "Entries of lost files that no replica provided in the last attempt.",
    ),
    Metric(
        "bookie.sealed_logs",
        MetricType.GAUGE,
        "{file}",
        "Full log files that are not compacted yet.",
    ),
    Metric("bookie.sorted_files", MetricType.GAUGE, "{file}", "Sorted files."),
    Metric(
        "bookie.sorted_bytes",
        MetricType.COUNTER,
        "By",
        "Bytes written to sorted files by compaction.",
    ),
    Metric(
        "bookie.deleted_ledgers",
        MetricType.COUNTER,
        "{ledger}",
        "Ledgers whose entries were removed.",
    ),
    Metric(
        "bookie.ledgers_returned",
        MetricType.COUNTER,
        "{ledger}",
        "Ledgers whose surplus copies were removed, because they were moved to other bookies.",
    ),
    Metric(
        "bookie.ledgers_surplus",
        MetricType.GAUGE,
        "{ledger}",
        "Ledgers that were found to be surplus here, and are retained for now.",
    ),
    Metric(
        "bookie.ledgers_held_back",
        MetricType.GAUGE,
        "{ledger}",
        "Ledgers that look deleted but are retained for now.",
    ),
    Metric(
        "bookie.repaired_entries",
        MetricType.COUNTER,
        "{entry}",
        "Damaged entries that were replaced by another replica's copy.",
    ),
    Metric(
        "bookie.maintenance_failures",
        MetricType.COUNTER,
        "{failure}",
        "Maintenance rounds that failed.",
    ),
    Metric(
        "bookie.partial_frame_bytes",
        MetricType.GAUGE,
        "By",
        "Bytes buffered for partially received requests.",
    ),
    Metric(
        "bookie.unsent_bytes",
        MetricType.GAUGE,
        "By",
        "Bytes of responses that clients have not read, of connections with 16 KiB or more.",
    ),
    Metric(
        "bookie.closed.{reason}",
        MetricType.COUNTER,
        "{connection}",
        "Connections closed by the bookie, by reason.",
    ),
    Metric(
        "bookie.operations.{kind}.{result}",
        MetricType.COUNTER,
        "{operation}",
        "Requests of clients that were answered, by kind and result.",
    ),
    Metric(
        "bookie.operation.{kind}",
        MetricType.HISTOGRAM,
        "s",
        "Time from a request to its response, by kind. An add is measured from the first add of "
        "its connection in the same commit group, and a long poll from when it is woken.",
    ),
    Metric(
        "bookie.durable_writes", MetricType.HISTOGRAM, "s", "Duration of durable writes (fsync)."
    ),
    Metric(
        "client.discovery.proxies",
        MetricType.GAUGE,
        "{proxy}",
        "Proxies in the list of a thin client; 0: it has no list.",
    ),
    Metric(
        "client.discovery.ejected",
        MetricType.GAUGE,
        "{proxy}",
        "Proxies that a thin client avoids because they failed.",
    ),
    Metric(
        "client.discovery.ejections",
        MetricType.COUNTER,
        "{proxy}",
        "Proxies that a thin client began to avoid.",
    ),
    Metric(
        "client.discovery.refreshes",
        MetricType.COUNTER,
        "{refresh}",
        "Lists of proxies that a thin client has read.",
    ),
    Metric(
        "client.discovery.failed_refreshes",
        MetricType.COUNTER,
        "{refresh}",
        "Refreshes of the list in which no proxy responded.",
    ),
    Metric(
        "proxy.unknown_callers_refused",
        MetricType.COUNTER,
        "{call}",
        "Calls refused because the caller had no valid certificate or token.",
    ),
    Metric(
        "proxy.access.refusals.{action}",
        MetricType.COUNTER,
        "{refusal}",
        "Calls and items of calls that were refused because no grant allows them, by action.",
    ),
    Metric("proxy.access.grants", MetricType.GAUGE, "{grant}", "Grants that the proxy knows."),
    Metric(
        "proxy.access.grants_age_ms",
        MetricType.GAUGE,
        "s",
        "Time since the proxy has read the grants. Above `security.grants_stale_ms_max` it refuses "
        "every call.",
    ),
    Metric("proxy.quotas.quotas", MetricType.GAUGE, "{quota}", "Quotas that apply."),
    Metric(
        "proxy.quotas.calls_paused",
        MetricType.COUNTER,
        "{pause}",
        "Pauses of append calls whose principal had too much in flight beside others.",
    ),
    Metric(
        "proxy.quotas.full_namespaces",
        MetricType.GAUGE,
        "{namespace}",
        "Namespaces that store as much as their quota allows: appends to them are refused.",
    ),
    *_usage_of("principal", "principals"),
    *_usage_of("namespace", "namespaces"),
    Metric("proxy.ready", MetricType.GAUGE, "1", "1 while the proxy accepts new clients."),
    Metric(
        "proxy.registered",
        MetricType.GAUGE,
        "1",
        "1 while the proxy is registered in the metadata store.",
    ),
    Metric(
        "proxy.group_members",
        MetricType.GAUGE,
        "{member}",
        "Members of consumer groups whose sessions the proxy holds.",
    ),
    Metric(
        "proxy.sessions_lost",
        MetricType.COUNTER,
        "{session}",
        "Metadata store sessions that expired.",
    ),
    Metric(
        "proxy.removed",
        MetricType.COUNTER,
        "{registration}",
        "Registrations of this proxy that were found deleted: other proxies declared it lost, or "
        "its session had expired.",
    ),
    Metric(
        "proxy.probing.watched",
        MetricType.GAUGE,
        "{proxy}",
        "Proxies that this proxy watches.",
    ),
    Metric(
        "proxy.probing.lateness_ms",
        MetricType.GAUGE,
        "s",
        "Worst lateness of the proxy's event loop in the last two seconds.",
    ),
    Metric(
        "proxy.probing.cpu_wait",
        MetricType.GAUGE,
        "1",
        "Share of time in which the main thread of the proxy waited for a CPU lately.",
    ),
    Metric("proxy.probing.probes", MetricType.COUNTER, "{probe}", "Probes sent to other proxies."),
    Metric(
        "proxy.probing.reports",
        MetricType.COUNTER,
        "{report}",
        "Reports of clients and of waiting takeovers about another proxy.",
    ),
    Metric(
        "proxy.probing.suspected",
        MetricType.COUNTER,
        "{proxy}",
        "Times that a watched proxy was silent, so that other proxies were asked about it.",
    ),
    Metric(
        "proxy.probing.withheld",
        MetricType.COUNTER,
        "{proxy}",
        "Silent proxies that were left to their sessions, for lack of evidence.",
    ),
    Metric(
        "proxy.probing.lost_gone",
        MetricType.COUNTER,
        "{proxy}",
        "Proxies that this proxy declared lost because no process listens at their address.",
    ),
    Metric(
        "proxy.probing.lost_silent",
        MetricType.COUNTER,
        "{proxy}",
        "Proxies that this proxy declared lost because they did not respond.",
    ),
    Metric(
        "proxy.probing.ended",
        MetricType.COUNTER,
        "{registration}",
        "Removed registrations whose proxy had another one already, or none.",
    ),
    Metric(
        "proxy.homes_moved",
        MetricType.COUNTER,
        "{stream}",
        "Streams whose home region the proxy moved to the region that writes most of it.",
    ),
    Metric("proxy.calls", MetricType.GAUGE, "{call}", "Open append and read calls."),
    Metric(
        "proxy.write.streams",
        MetricType.GAUGE,
        "{stream}",
        "Streams that the proxy owns, acquires or releases now.",
    ),
    Metric(
        "proxy.write.records",
        MetricType.COUNTER,
        "{record}",
        "Records accepted.",
    ),
    Metric(
        "proxy.write.sets",
        MetricType.COUNTER,
        "{set}",
        "Record sets accepted.",
    ),
    Metric("proxy.write.acquired", MetricType.COUNTER, "{stream}", "Streams acquired."),
    Metric(
        "proxy.write.lost",
        MetricType.COUNTER,
        "{stream}",
        "Streams lost: fenced, failed, or session expired.",
    ),
    Metric(
        "proxy.write.released",
        MetricType.COUNTER,
        "{stream}",
        "Streams released in an orderly way.",
    ),
    Metric(
        "proxy.write.moved",
        MetricType.COUNTER,
        "{stream}",
        "Streams released because another proxy is preferred for them, or they are assigned to it.",
    ),
    Metric(
        "proxy.write.redirected",
        MetricType.COUNTER,
        "{set}",
        "Requests redirected to another proxy.",
    ),
    Metric(
        "proxy.write.refused", MetricType.COUNTER, "{set}", "Requests refused because of a limit."
    ),
    Metric(
        "proxy.balance.load",
        MetricType.GAUGE,
        "1",
        "Load of the streams that the proxy serves: record sets per second, and one more for each "
        "16 KiB per second.",
    ),
    Metric(
        "proxy.balance.cpu",
        MetricType.GAUGE,
        "1",
        "CPU time of the process in the last interval; 1 is one core, all that its event loop can "
        "use.",
    ),
    Metric(
        "proxy.balance.queue_ms",
        MetricType.GAUGE,
        "s",
        "Longest delay of the event loop in the last interval.",
    ),
    Metric(
        "proxy.balance.elected",
        MetricType.GAUGE,
        "1",
        "1 while the proxy balances the load of its region.",
    ),
    Metric(
        "proxy.balance.moves",
        MetricType.COUNTER,
        "{stream}",
        "Streams that this proxy, as the elected balancer, assigned to another proxy.",
    ),
    Metric(
        "proxy.balance.imbalance",
        MetricType.GAUGE,
        "1",
        "Highest load of a write proxy of the region divided by the mean; 0 unless the proxy is "
        "the elected balancer.",
    ),
    Metric("proxy.read.readers", MetricType.GAUGE, "{reader}", "Connected readers."),
    Metric("proxy.read.streams", MetricType.GAUGE, "{stream}", "Streams with connected readers."),
    Metric(
        "proxy.read.runs",
        MetricType.GAUGE,
        "{position}",
        "Positions at which the proxy reads streams; readers near one position share it.",
    ),
    Metric(
        "proxy.read.fetches_waiting",
        MetricType.GAUGE,
        "{fetch}",
        "Fetches of readers behind the end of their stream that wait, because "
        "proxy.catch_up_fetches_max others are in progress.",
    ),
    Metric(
        "proxy.read.behind_ms",
        MetricType.GAUGE,
        "s",
        "Longest time since a client of the read proxy last had everything of its stream; 0 if all "
        "have it.",
    ),
    Metric(
        "proxy.read.cached_bytes",
        MetricType.GAUGE,
        "By",
        "Memory of the entries that are cached for readers.",
    ),
    Metric(
        "proxy.read.fetched_entries",
        MetricType.COUNTER,
        "{entry}",
        "Entries read from bookies and archives for readers.",
    ),
    Metric(
        "proxy.read.fetched_bytes",
        MetricType.COUNTER,
        "By",
        "Bytes of the entries read from bookies and archives for readers.",
    ),
    Metric(
        "proxy.read.delivered_bytes",
        MetricType.COUNTER,
        "By",
        "Bytes of the entries delivered to readers.",
    ),
    Metric(
        "proxy.read.cache_hits",
        MetricType.COUNTER,
        "{block}",
        "Blocks of entries that readers found in the cache.",
    ),
    Metric(
        "proxy.read.cache_misses",
        MetricType.COUNTER,
        "{block}",
        "Times that a reader waited for a fetch, alone or together with others.",
    ),
    Metric(
        "proxy.read.cache_evictions",
        MetricType.COUNTER,
        "{block}",
        "Blocks of entries removed from the cache to make room.",
    ),
    _certificate_remaining("bookie"),
    _certificate_remaining("proxy"),
    _certificate_remaining("repair"),
    _certificate_remaining("archive"),
    Metric(
        "bookie.gate.waiting",
        MetricType.GAUGE,
        "{connection}",
        "Connections whose TLS handshake is not complete.",
    ),
    Metric(
        "bookie.gate.handshakes",
        MetricType.COUNTER,
        "{connection}",
        "Connections that completed their TLS handshake.",
    ),
    Metric(
        "bookie.gate.handshakes_failed",
        MetricType.COUNTER,
        "{connection}",
        "Connections closed because their TLS handshake failed or was late.",
    ),
    Metric(
        "bookie.gate.plain_accepted",
        MetricType.COUNTER,
        "{connection}",
        "Connections accepted without TLS, which tls.required would refuse.",
    ),
    Metric(
        "bookie.gate.clients_refused",
        MetricType.COUNTER,
        "{connection}",
        "Connections refused because their certificate has no role of the cluster itself.",
    ),
    Metric(
        "bookie.gate.plain_refused",
        MetricType.COUNTER,
        "{connection}",
        "Connections refused because they began without TLS.",
    ),
    Metric(
        "bookie.access.refusals.{action}",
        MetricType.COUNTER,
        "{refusal}",
        "Requests of applications that were refused because no grant allows them, by action.",
    ),
    Metric("bookie.access.grants", MetricType.GAUGE, "{grant}", "Grants that the bookie knows."),
    Metric(
        "bookie.access.grants_age_ms",
        MetricType.GAUGE,
        "s",
        "Time since the bookie has read the grants. Above `security.grants_stale_ms_max` it "
        "refuses every request of an application.",
    ),
    Metric("repair.ready", MetricType.GAUGE, "1", "1 while the repair process works."),
    Metric("repair.auditor", MetricType.GAUGE, "1", "1 in the process that audits the cluster."),
    Metric("repair.working", MetricType.GAUGE, "1", "1 while the repair process works."),
    Metric("repair.audits", MetricType.COUNTER, "{audit}", "Complete audits of the cluster."),
    Metric("repair.ledgers", MetricType.GAUGE, "{ledger}", "Ledgers that the last audit examined."),
    Metric(
        "repair.under_replicated",
        MetricType.COUNTER,
        "{ledger}",
        "Ledgers found to be under-replicated.",
    ),
    Metric(
        "repair.lists_compared",
        MetricType.COUNTER,
        "{list}",
        "Bookies' entry lists that were compared with the metadata.",
    ),
    Metric(
        "repair.region_violations",
        MetricType.GAUGE,
        "{fragment}",
        "Fragments that violate their region rule.",
    ),
    Metric(
        "repair.unreadable_ledgers",
        MetricType.GAUGE,
        "{ledger}",
        "Ledgers with damaged metadata, neither audited nor repaired.",
    ),
    Metric(
        "repair.unreferenced_removed",
        MetricType.COUNTER,
        "{ledger}",
        "Ledgers deleted because no segment refers to them.",
    ),
    Metric(
        "repair.ownerless_ended",
        MetricType.COUNTER,
        "{ledger}",
        "Open ledgers that were ended because their writer was presumed dead.",
    ),
    Metric(
        "repair.fragile_fragments",
        MetricType.GAUGE,
        "{fragment}",
        "Fragments in which one bookie is in every possible ack quorum.",
    ),
    Metric(
        "repair.entries_at_risk.{region}",
        MetricType.GAUGE,
        "{entry}",
        "Entries of which no live copy is certain to be left if the region is lost now.",
    ),
    Metric(
        "repair.streams_at_risk.{region}",
        MetricType.GAUGE,
        "{stream}",
        "Streams with such entries.",
    ),
    Metric(
        "repair.durability.known",
        MetricType.GAUGE,
        "1",
        "1 if the durability is known: the process audits, and neither the ledgers nor the "
        "bookies' states that it has read are old. Otherwise the other durability metrics are "
        "absent.",
    ),
    Metric(
        "repair.durability.age",
        MetricType.GAUGE,
        "s",
        "Time since all ledgers, or the states of the bookies, were read, whichever is longer ago.",
    ),
    Metric(
        "repair.durability.ledgers.{verdict}.{state}",
        MetricType.GAUGE,
        "{ledger}",
        "Ledgers by the verdict on their copies (whole, reduced, at_risk, doubtful, unavailable, "
        "lost) and by state (open, closed).",
    ),
    Metric(
        "repair.durability.one_failure_from_loss.{level}.{state}",
        MetricType.GAUGE,
        "{ledger}",
        "Ledgers with entries whose live copies all lie in one bookie, host, rack, zone or region.",
    ),
    Metric(
        "repair.durability.one_failure_from_blocking.{level}",
        MetricType.GAUGE,
        "{ledger}",
        "Open ledgers that the failure of one bookie, host, rack, zone or region would make "
        "unwritable.",
    ),
    Metric(
        "repair.durability.writes_blocked",
        MetricType.GAUGE,
        "{ledger}",
        "Open ledgers that cannot be written now, with any bookies that are up.",
    ),
    Metric(
        "repair.durability.streams_at_risk",
        MetricType.GAUGE,
        "{stream}",
        "Streams with a ledger that is at risk, doubtful, unavailable or lost.",
    ),
    Metric(
        "repair.durability.bookies.{state}",
        MetricType.GAUGE,
        "{bookie}",
        "Bookies by the state of their copies: up, draining, limbo, down, lost, decommissioned.",
    ),
    Metric(
        "repair.writable_bookies.{region}",
        MetricType.GAUGE,
        "{bookie}",
        "Bookies that accept new entries, by region, as the auditing process sees them. A region "
        "whose bookies were all drained or taken offline by an operator is left out.",
    ),
    Metric("repair.repaired.ledgers", MetricType.COUNTER, "{ledger}", "Ledgers repaired."),
    Metric(
        "repair.repaired.fragments_moved",
        MetricType.COUNTER,
        "{fragment}",
        "Fragments whose ensemble was changed by repair.",
    ),
    Metric("repair.repaired.entries", MetricType.COUNTER, "{entry}", "Entries copied by repair."),
    Metric("repair.repaired.bytes", MetricType.COUNTER, "By", "Bytes copied by repair."),
    Metric(
        "repair.rebalance.moved_copies",
        MetricType.COUNTER,
        "{copy}",
        "Copies moved for the current rebalancing request.",
    ),
    Metric(
        "repair.rebalance.moved_bytes",
        MetricType.COUNTER,
        "By",
        "Approximate bytes moved for the current rebalancing request.",
    ),
    Metric(
        "repair.rebalance.left_bytes",
        MetricType.GAUGE,
        "By",
        "Approximate bytes that the current round of rebalancing still has to move.",
    ),
    Metric("repair.retention.passes", MetricType.COUNTER, "{pass}", "Passes over all streams."),
    Metric("repair.retention.streams", MetricType.GAUGE, "{stream}", "Streams of the last pass."),
    Metric("repair.retention.purged", MetricType.COUNTER, "{segment}", "Segments purged."),
    Metric(
        "repair.retention.retired",
        MetricType.COUNTER,
        "{segment}",
        "Segments that lost their hot copy to their archive.",
    ),
    Metric(
        "repair.retention.expired",
        MetricType.COUNTER,
        "{segment}",
        "Archives of purged segments deleted.",
    ),
    Metric(
        "repair.retention.failures",
        MetricType.COUNTER,
        "{stream}",
        "Passes that failed for a stream; the next one retries.",
    ),
    Metric(
        "repair.retention.overdue_ms",
        MetricType.GAUGE,
        "s",
        "Time for which the oldest overdue data has been overdue, as of the last pass.",
    ),
    Metric("repair.retention.pass_ms", MetricType.GAUGE, "s", "Duration of the last pass."),
    Metric(
        "repair.subscriptions.examined",
        MetricType.GAUGE,
        "{subscription}",
        "Subscriptions whose lag the auditing process measured last; 0 in the others.",
    ),
    Metric(
        "repair.subscriptions.unknown",
        MetricType.GAUGE,
        "{subscription}",
        "Subscriptions whose lag is not known, because bookies do not respond.",
    ),
    Metric(
        "repair.subscriptions.lag_records",
        MetricType.GAUGE,
        "{record}",
        "Readable records that the slowest subscription has not passed yet.",
    ),
    Metric(
        "repair.subscriptions.lag_bytes",
        MetricType.GAUGE,
        "By",
        "Bytes of the records that the subscription with most of them has not passed yet.",
    ),
    Metric(
        "repair.subscriptions.behind_ms",
        MetricType.GAUGE,
        "s",
        "Age of the oldest readable record that some subscription has not passed yet.",
    ),
    Metric(
        "repair.subscriptions.by_name.{namespace}.{stream}.{subscription}.lag_records",
        MetricType.GAUGE,
        "{record}",
        "Lag of single subscriptions, or of namespaces, if `telemetry.series_by` says so.",
    ),
    Metric(
        "repair.subscriptions.by_name.{namespace}.{stream}.{subscription}.lag_bytes",
        MetricType.GAUGE,
        "By",
        "Lag of such a subscription in bytes, exact in wholly unread completed segments.",
    ),
    Metric(
        "repair.subscriptions.by_name.{namespace}.{stream}.{subscription}.behind_ms",
        MetricType.GAUGE,
        "s",
        "Age of the oldest record that such a subscription has not passed yet.",
    ),
    Metric(
        "repair.subscriptions.by_group.{namespace}.{topic}.{group}.lag_records",
        MetricType.GAUGE,
        "{record}",
        "Lag of consumer groups over all partitions, if `telemetry.series_by` is stream.",
    ),
    Metric(
        "repair.subscriptions.by_group.{namespace}.{topic}.{group}.lag_bytes",
        MetricType.GAUGE,
        "By",
        "Lag of such a group in bytes, over all partitions.",
    ),
    Metric(
        "repair.subscriptions.by_group.{namespace}.{topic}.{group}.behind_ms",
        MetricType.GAUGE,
        "s",
        "Age of the oldest record that such a group has not committed yet.",
    ),
    Metric("repair.stuck", MetricType.GAUGE, "{ledger}", "Ledgers that could not be repaired yet."),
    Metric("archive.ready", MetricType.GAUGE, "1", "1 while the archiver works."),
    Metric("archive.passes", MetricType.COUNTER, "{pass}", "Passes over all streams."),
    Metric("archive.archived", MetricType.COUNTER, "{segment}", "Segments archived."),
    Metric(
        "archive.retired",
        MetricType.COUNTER,
        "{segment}",
        "Segments that lost their hot copy to their archive.",
    ),
    Metric("archive.purged", MetricType.COUNTER, "{segment}", "Segments purged."),
    Metric(
        "archive.expired", MetricType.COUNTER, "{segment}", "Archives of purged segments deleted."
    ),
    Metric(
        "archive.failures",
        MetricType.COUNTER,
        "{failure}",
        "Streams for which a pass failed, and passes that failed as a whole.",
    ),
    Metric(
        "archive.waiting_segments",
        MetricType.GAUGE,
        "{segment}",
        "Completed segments without an archive after the last pass.",
    ),
    Metric(
        "archive.behind_ms",
        MetricType.GAUGE,
        "s",
        "Age of the oldest completed segment that has no archive; 0 if all have one.",
    ),
    Metric(
        "archive.index.passes",
        MetricType.COUNTER,
        "{pass}",
        "Passes that look for changes that the index of the namespace lacks.",
    ),
    Metric(
        "archive.index.written",
        MetricType.COUNTER,
        "{generation}",
        "Generations of the index that this process wrote.",
    ),
    Metric(
        "archive.index.rebuilt",
        MetricType.COUNTER,
        "{generation}",
        "Generations that were written from the manifests alone: there was no index, or a damaged "
        "one.",
    ),
    Metric(
        "archive.index.failures",
        MetricType.COUNTER,
        "{failure}",
        "Passes that failed because of the cold store.",
    ),
    Metric(
        "archive.index.waiting_changes",
        MetricType.GAUGE,
        "{stream}",
        "Streams whose changes the index lacked after the last pass, because another process was "
        "faster.",
    ),
    Metric(
        "archive.tables.passes",
        MetricType.COUNTER,
        "{pass}",
        "Passes that compare archives with their tables.",
    ),
    Metric(
        "archive.tables.registered",
        MetricType.COUNTER,
        "{segment}",
        "Archived segments registered in tables.",
    ),
    Metric(
        "archive.tables.removed",
        MetricType.COUNTER,
        "{commit}",
        "Commits that removed segments from tables because their archives were deleted.",
    ),
    Metric(
        "archive.tables.expired",
        MetricType.COUNTER,
        "{snapshot}",
        "Snapshots that were removed from tables because they were too old.",
    ),
    Metric(
        "archive.tables.failures",
        MetricType.COUNTER,
        "{failure}",
        "Tables for which a pass failed, and passes that failed as a whole.",
    ),
    Metric(
        "archive.tables.waiting_segments",
        MetricType.GAUGE,
        "{segment}",
        "Archived segments that their tables do not have after the last pass.",
    ),
    Metric(
        "archive.tables.behind_ms",
        MetricType.GAUGE,
        "s",
        "Time for which a table has lacked an archived segment; 0 if none lacks any.",
    ),
    Metric("client.streams.entries", MetricType.COUNTER, "{entry}", "Entries acknowledged."),
    Metric("client.streams.records", MetricType.COUNTER, "{record}", "Records acknowledged."),
    Metric(
        "client.streams.bytes",
        MetricType.COUNTER,
        "By",
        "Bytes acknowledged: payloads and a few bytes per record.",
    ),
    Metric(
        "client.streams.control_entries",
        MetricType.COUNTER,
        "{entry}",
        "Acknowledged entries without application records.",
    ),
    Metric(
        "client.streams.segments_failed",
        MetricType.COUNTER,
        "{segment}",
        "Ledgers that failed while they were written.",
    ),
    Metric(
        "client.streams.failed_records.{error}",
        MetricType.COUNTER,
        "{record}",
        "Records that were sent and not acknowledged, by the code of the error.",
    ),
    Metric(
        "client.streams.delivered_records",
        MetricType.COUNTER,
        "{record}",
        "Records handed to the application.",
    ),
    Metric(
        "client.streams.acks",
        MetricType.HISTOGRAM,
        "s",
        "Time from an entry's first append to its acknowledgement.",
    ),
    Metric(
        "client.streams.acks_by_regions.{regions}",
        MetricType.COUNTER,
        "{entry}",
        "Entries, by the number of regions that held them when acknowledged.",
    ),
    Metric(
        "client.streams.readers.open",
        MetricType.GAUGE,
        "{reader}",
        "Readers that have begun to read and were not closed. The streams that a read proxy reads "
        "for its clients count once.",
    ),
    Metric(
        "client.streams.readers.behind_ms",
        MetricType.GAUGE,
        "s",
        "Longest time since a reader of the process last waited at the end of its stream; 0 if all "
        "wait there. No entry that a reader has not fetched is older.",
    ),
    Metric(
        "client.by_stream.{namespace}.{stream}.entries",
        MetricType.COUNTER,
        "{entry}",
        "Entries acknowledged, by namespace and stream if `telemetry.series_by` says so.",
    ),
    Metric(
        "client.by_stream.{namespace}.{stream}.records",
        MetricType.COUNTER,
        "{record}",
        "Records acknowledged, by namespace and stream if `telemetry.series_by` says so.",
    ),
    Metric(
        "client.by_stream.{namespace}.{stream}.bytes",
        MetricType.COUNTER,
        "By",
        "Bytes acknowledged, by namespace and stream if `telemetry.series_by` says so.",
    ),
    Metric(
        "client.by_stream.{namespace}.{stream}.readers.open",
        MetricType.GAUGE,
        "{reader}",
        "Readers that are open, by namespace and stream if `telemetry.series_by` says so.",
    ),
    Metric(
        "client.by_stream.{namespace}.{stream}.readers.behind_ms",
        MetricType.GAUGE,
        "s",
        "Longest time since such a reader last waited at the end of its stream.",
    ),
    Metric("client.ledgers.open_handles", MetricType.GAUGE, "{ledger}", "Open ledger handles."),
    Metric(
        "client.ledgers.slow_departures",
        MetricType.COUNTER,
        "{departure}",
        "Slow bookies that writers of ledgers replaced.",
    ),
    Metric(
        "client.ledgers.adds",
        MetricType.HISTOGRAM,
        "s",
        "Time from sending an entry to its acknowledgement.",
    ),
    Metric(
        "client.ledgers.bookies.{bookie}.sent_bytes",
        MetricType.COUNTER,
        "By",
        "Bytes sent to the bookie.",
    ),
    Metric(
        "client.ledgers.bookies.{bookie}.received_bytes",
        MetricType.COUNTER,
        "By",
        "Bytes received from the bookie.",
    ),
    Metric(
        "client.ledgers.bookies.{bookie}.add_ms",
        MetricType.GAUGE,
        "s",
        "Median time of some adds to the bookie in the last 10 s; absent if there were too few.",
    ),
    Metric(
        "client.ledgers.received.{origin}",
        MetricType.COUNTER,
        "By",
        "Bytes received from bookies, by origin: own_region, other_region, or unknown where the "
        "region of the process or of the bookie is not known.",
    ),
    Metric(
        "client.cold.read_bytes",
        MetricType.COUNTER,
        "By",
        "Bytes of archived segments read from the cold store.",
    ),
    Metric(
        "client.metadata.unavailable",
        MetricType.GAUGE,
        "1",
        "1 while readers use old metadata because the metadata store is unavailable.",
    ),
    Metric(
        "client.metadata.stale_age_ms",
        MetricType.GAUGE,
        "s",
        "Time since the metadata store last confirmed what readers use; 0 if it responds.",
    ),
    Metric(
        "client.metadata.stale_reads",
        MetricType.COUNTER,
        "{value}",
        "Values that readers got without confirmation by the metadata store.",
    ),
    Metric(
        "client.metadata.cached",
        MetricType.GAUGE,
        "{value}",
        "Values that readers can use if the metadata store does not respond.",
    ),
    Metric(
        "client.metadata.calls.{operation}.{result}",
        MetricType.COUNTER,
        "{call}",
        "Calls of the metadata store, by operation and result.",
    ),
    Metric(
        "client.metadata.call.{operation}",
        MetricType.HISTOGRAM,
        "s",
        "Duration of the calls of the metadata store, by operation.",
    ),
    Metric(
        "client.placement.searches",
        MetricType.COUNTER,
        "{search}",
        "Searches for the layouts of ensembles; results are cached.",
    ),
    Metric(
        "client.placement.inexact_searches",
        MetricType.COUNTER,
        "{search}",
        "Searches that were cut short: the layout is legal, but possibly not the best one.",
    ),
    Metric(
        "client.placement.crowded.{level}",
        MetricType.COUNTER,
        "{ensemble}",
        "Chosen ensembles in which a write set lies in fewer zones, racks or hosts than exist.",
    ),
    Metric(
        "client.reads.requests", MetricType.COUNTER, "{request}", "Read requests sent to bookies."
    ),
    Metric(
        "client.reads.speculative",
        MetricType.COUNTER,
        "{request}",
        "Speculative read requests, sent because the first bookie was slow.",
    ),
    Metric(
        "client.reads.speculative_denied",
        MetricType.COUNTER,
        "{request}",
        "Speculative read requests not sent because of the limit.",
    ),
    Metric(
        "client.reads.speculative_won",
        MetricType.COUNTER,
        "{request}",
        "Speculative read requests whose response came first.",
    ),
    Metric(
        "client.reads.demoted",
        MetricType.COUNTER,
        "{bookie}",
        "Bookies moved to the end of the read order because of failures.",
    ),
    Metric(
        "client.reads.restored",
        MetricType.COUNTER,
        "{bookie}",
        "Bookies restored to their normal place in the read order.",
    ),
    Metric(
        "client.reads.responses_by_region.{region}",
        MetricType.COUNTER,
        "{request}",
        "Read responses, by the bookie's region.",
    ),
    Metric(
        "client.reads.latency.{region}",
        MetricType.HISTOGRAM,
        "s",
        "Time from a read request for entries to its response, by the bookie's region.",
    ),
)

_BY_PARTS = {tuple(metric.path.split(".")): metric for metric in CATALOGUE}


def known_metric(parts: tuple[str, ...]) -> tuple[Metric, Labels] | None:
    """Return the metric at a path of the statistics, and the labels in that path."""
    found = _BY_PARTS.get(parts)
    if found is not None:
        return found, ()
    for pattern, metric in _BY_PARTS.items():
        if len(pattern) == len(parts) and all(
            expected == part or expected[0] == "{"
            for expected, part in zip(pattern, parts, strict=True)
        ):
            pairs = zip(pattern, parts, strict=True)
            return metric, tuple((name[1:-1], part) for name, part in pairs if name[0] == "{")
    return None


def samples(service: str, statistics: Mapping[str, Any]) -> dict[Metric, list[Sample]]:
    """Return the values of all metrics in the statistics of a process, in catalogue order.

    Values that are not in the catalogue are left out. The statistics may contain those of a client
    under the key ``client``, and those of regional metadata stores under ``regional`` by region:
    their metrics have the region in the label ``store``, which those of the global store lack.
    """
    found: dict[Metric, list[Sample]] = {}
    for parts, value in _leaves((service,), statistics):
        if parts[1:2] == ("client",):
            parts = parts[1:]
        store: Labels = ()
        if parts[1:2] == (REGIONAL,):
            store = ((STORE_LABEL, parts[2]),)
            parts = (parts[0], *parts[3:])
        known = known_metric(parts)
        if known is not None:
            metric, labels = known
            found.setdefault(metric, []).extend(_samples(metric, (*labels, *store), value))
    order = {metric: index for index, metric in enumerate(CATALOGUE)}
    return {metric: found[metric] for metric in sorted(found, key=order.__getitem__)}


def _leaves(
    parts: tuple[str, ...], statistics: Mapping[str, Any]
) -> Iterator[tuple[tuple[str, ...], Any]]:
    for key, value in statistics.items():
        below = (*parts, str(key))
        if isinstance(value, Mapping) and value.keys() != _HISTOGRAM_KEYS:
            yield from _leaves(below, value)
        elif isinstance(value, Mapping | int | float):
            yield below, value


def _samples(
    metric: Metric,
    labels: Labels,
    value: Any,  # noqa: ANN401 - a leaf
) -> Iterator[Sample]:
    if not isinstance(value, Mapping):
        plain = int(value) if isinstance(value, bool) else value
        yield Sample(labels, plain / 1000 if metric.is_in_ms else plain)
        return
    for bound, count in zip(_BOUND_LABELS, value["buckets"], strict=True):
        yield Sample((*labels, ("le", bound)), count, "bucket")
    yield Sample((*labels, ("le", "+Inf")), value["count"], "bucket")
    yield Sample(labels, value["count"], "count")
    yield Sample(labels, value["sum_s"], "sum")
