"""The panels of the Grafana dashboards: titles, units and queries."""

from collections.abc import Sequence
from typing import NamedTuple

BOOKIE = 'job="rhumbline-bookie",instance=~"$instance"'


class Query(NamedTuple):
    """A query of a panel, and the legend of its series."""

    expression: str
    legend: str
    may_be_empty: bool = False
    """True if a healthy cluster may have no such series."""


class Panel(NamedTuple):
    """A panel. ``unit`` is one of Grafana's, such as ``s``, ``bytes``, ``Bps`` or ``ops``."""

    title: str
    unit: str
    queries: tuple[Query, ...]
    help: str


class Row(NamedTuple):
    """A row of panels under a title."""

    title: str
    panels: tuple[Panel, ...]


class Dashboard(NamedTuple):
    """A dashboard. With ``has_instances`` the user selects bookies in the variable $instance."""

    uid: str
    title: str
    rows: tuple[Row, ...]
    has_instances: bool = False


def _rate(metric: str, labels: str = "") -> str:
    selector = f"{metric}{{{labels}}}" if labels else metric
    return f"rate({selector}[$__rate_interval])"


def _quantile(share: float, metric: str, by: str = "", labels: str = "") -> str:
    group = f"le, {by}" if by else "le"
    rate = _rate(f"{metric}_bucket", labels)
    return f"histogram_quantile({share}, sum by ({group}) ({rate}))"


def _quantiles(metric: str, by: str = "", labels: str = "") -> tuple[Query, ...]:
    legend = f"{{{{{by}}}}} " if by else ""
    return tuple(
        Query(_quantile(share, metric, by, labels), f"{legend}{name}")
        for share, name in ((0.5, "p50"), (0.99, "p99"))
    )


def _sum(expression: str, by: str = "") -> str:
    return f"sum by ({by}) ({expression})" if by else f"sum({expression})"


def _panel(title: str, unit: str, text: str, *queries: Query) -> Panel:
    return Panel(title, unit, queries, text)


OVERVIEW = Dashboard(
    "rhumbline-overview",
    "Rhumbline: overview",
    (
        Row(
            "Is the data safe?",
            (
                _panel(
                    "Ledgers by verdict",
                    "short",
                    "Each ledger counts once, by its worst entry. Only `whole` is as it should be.",
                    Query(_sum("rhumbline_repair_durability_ledgers", "verdict"), "{{verdict}}"),
                ),
                _panel(
                    "One failure from loss",
                    "short",
                    "Ledgers with entries whose live copies all lie in one such domain.",
                    Query(
                        _sum("rhumbline_repair_durability_one_failure_from_loss", "level"),
                        "{{level}}",
                    ),
                ),
                _panel(
                    "One failure from blocking",
                    "short",
                    "Open ledgers that the failure of one such domain would make unwritable.",
                    Query(
                        _sum("rhumbline_repair_durability_one_failure_from_blocking", "level"),
                        "{{level}}",
                    ),
                    Query(_sum("rhumbline_repair_durability_writes_blocked"), "blocked now"),
                ),
                _panel(
                    "Bookies by state",
                    "short",
                    "As the auditing process sees them.",
                    Query("max by (state) (rhumbline_repair_durability_bookies)", "{{state}}"),
                ),
                _panel(
                    "Writable bookies by region",
                    "short",
                    "Regions that an operator took out of service are left out.",
                    Query("max by (region) (rhumbline_repair_writable_bookies)", "{{region}}"),
                ),
                _panel(
                    "Repair",
                    "short",
                    "Ledgers that repair could not mend yet, and ledgers mended per second.",
                    Query(_sum("rhumbline_repair_stuck"), "stuck"),
                    Query(
                        _sum(_rate("rhumbline_repair_mended_ledgers_total")), "mended per second"
                    ),
                ),
            ),
        ),
        Row(
            "Writing",
            (
                _panel(
                    "Records",
                    "ops",
                    "Acknowledged records per second.",
                    Query(_sum(_rate("rhumbline_client_streams_records_total"), "job"), "{{job}}"),
                ),
                _panel(
                    "Bytes",
                    "Bps",
                    "Acknowledged bytes per second.",
                    Query(_sum(_rate("rhumbline_client_streams_bytes_total"), "job"), "{{job}}"),
                ),
                _panel(
                    "Acknowledgement",
                    "s",
                    "From the first append of an entry to its acknowledgement.",
                    *_quantiles("rhumbline_client_streams_acks_seconds"),
                ),
                _panel(
                    "Regions at the acknowledgement",
                    "ops",
                    "Entries per second, by the number of regions that held them.",
                    Query(
                        _sum(_rate("rhumbline_client_streams_acks_by_regions_total"), "regions"),
                        "{{regions}} regions",
                    ),
                ),
            ),
        ),
        Row(
            "Reading",
            (
                _panel(
                    "Read requests",
                    "ops",
                    "Requests to bookies per second, by the region of the bookie.",
                    Query(
                        _sum(_rate("rhumbline_client_reads_answers_by_region_total"), "region"),
                        "{{region}}",
                    ),
                ),
                _panel(
                    "Read latency",
                    "s",
                    "From a read request for entries to its response, by the bookie's region.",
                    *_quantiles("rhumbline_client_reads_latency_seconds", "region"),
                ),
                _panel(
                    "Lag of readers",
                    "s",
                    "Longest time since a reader last had everything.",
                    Query(
                        "max by (instance) (rhumbline_proxy_read_behind_seconds)", "{{instance}}"
                    ),
                ),
                _panel(
                    "Lag of subscriptions",
                    "s",
                    "Age of the oldest record that some subscription has not passed.",
                    Query("max(rhumbline_repair_subscriptions_behind_seconds)", "oldest record"),
                ),
            ),
        ),
        Row(
            "Servers",
            (
                _panel(
                    "Servers that respond",
                    "short",
                    "Targets of Prometheus that were scraped.",
                    Query("sum by (job) (up{job=~'rhumbline-.*'})", "{{job}}"),
                ),
                _panel(
                    "Versions",
                    "short",
                    "Processes by version.",
                    Query(
                        "count by (version, form) (rhumbline_build_info)", "{{version}} {{form}}"
                    ),
                ),
                _panel(
                    "Streams of write proxies",
                    "short",
                    "Streams that each proxy owns.",
                    Query("rhumbline_proxy_write_streams", "{{instance}}"),
                ),
                _panel(
                    "Refused and redirected",
                    "ops",
                    "Requests of producers per second that the proxies did not accept.",
                    Query(_sum(_rate("rhumbline_proxy_write_refused_total")), "refused"),
                    Query(_sum(_rate("rhumbline_proxy_write_redirected_total")), "redirected"),
                ),
                _panel(
                    "CPU",
                    "short",
                    "Busy cores by kind of server.",
                    Query(_sum(_rate("process_cpu_seconds_total"), "job"), "{{job}}"),
                ),
                _panel(
                    "Memory",
                    "bytes",
                    "Resident memory by kind of server.",
                    Query(_sum("process_resident_memory_bytes", "job"), "{{job}}"),
                ),
            ),
        ),
        Row(
            "Metadata store and archive",
            (
                _panel(
                    "Metadata calls",
                    "ops",
                    "Calls per second, by operation.",
                    Query(
                        _sum(_rate("rhumbline_client_metadata_calls_total"), "operation"),
                        "{{operation}}",
                    ),
                ),
                _panel(
                    "Failed metadata calls",
                    "ops",
                    "Calls per second that got no answer.",
                    Query(
                        _sum(
                            _rate(
                                "rhumbline_client_metadata_calls_total",
                                'result=~"unavailable|indeterminate|failed|cancelled"',
                            ),
                            "result",
                        ),
                        "{{result}}",
                    ),
                ),
                _panel(
                    "Metadata latency",
                    "s",
                    "By kind of server (p99).",
                    Query(
                        _quantile(0.99, "rhumbline_client_metadata_call_seconds", "job"), "{{job}}"
                    ),
                ),
                _panel(
                    "Archive",
                    "s",
                    "Age of the oldest completed segment without an archive.",
                    Query("max(rhumbline_archive_behind_seconds)", "behind"),
                ),
            ),
        ),
    ),
)

BOOKIES = Dashboard(
    "rhumbline-bookies",
    "Rhumbline: bookies",
    (
        Row(
            "Requests",
            (
                _panel(
                    "Operations",
                    "ops",
                    "Answered requests per second, by kind.",
                    Query(
                        _sum(_rate("rhumbline_bookie_operations_total", BOOKIE), "kind"), "{{kind}}"
                    ),
                ),
                _panel(
                    "Operations that failed or were refused",
                    "ops",
                    "By result. `not_found` is a proper answer to a reader.",
                    Query(
                        _sum(
                            _rate("rhumbline_bookie_operations_total", f'{BOOKIE},result!="ok"'),
                            "result",
                        ),
                        "{{result}}",
                    ),
                ),
                _panel(
                    "Latency of adds",
                    "s",
                    "From the first add of a commit group to its responses.",
                    *_quantiles(
                        "rhumbline_bookie_operation_seconds", labels=f'{BOOKIE},kind="add"'
                    ),
                ),
                _panel(
                    "Latency of reads",
                    "s",
                    "Single and batch reads, and polls after they are woken (p99).",
                    Query(
                        _quantile(
                            0.99,
                            "rhumbline_bookie_operation_seconds",
                            "kind",
                            f'{BOOKIE},kind=~"read|batch_read|poll"',
                        ),
                        "{{kind}}",
                    ),
                ),
                _panel(
                    "Connections and waiting polls",
                    "short",
                    "Open client connections, and long polls that wait for an entry.",
                    Query(_sum(f"rhumbline_bookie_connections{{{BOOKIE}}}"), "connections"),
                    Query(_sum(f"rhumbline_bookie_parked_polls{{{BOOKIE}}}"), "polls"),
                ),
                _panel(
                    "Closed connections",
                    "ops",
                    "Connections per second that bookies closed, by reason.",
                    Query(
                        _sum(_rate("rhumbline_bookie_closed_total", BOOKIE), "reason"),
                        "{{reason}}",
                        may_be_empty=True,
                    ),
                ),
            ),
        ),
        Row(
            "Disk",
            (
                _panel(
                    "Durable writes",
                    "s",
                    "Duration of fsync by bookie (p99).",
                    Query(
                        _quantile(
                            0.99, "rhumbline_bookie_durable_writes_seconds", "instance", BOOKIE
                        ),
                        "{{instance}}",
                    ),
                ),
                _panel(
                    "Commit groups",
                    "ops",
                    "Durable writes per second.",
                    Query(
                        _sum(_rate("rhumbline_bookie_syncs_total", BOOKIE), "instance"),
                        "{{instance}}",
                    ),
                ),
                _panel(
                    "Write log",
                    "Bps",
                    "Bytes per second.",
                    Query(
                        _sum(_rate("rhumbline_bookie_log_bytes_total", BOOKIE), "instance"),
                        "{{instance}}",
                    ),
                ),
                _panel(
                    "Free space",
                    "bytes",
                    "Below the limit a bookie refuses new entries.",
                    Query(f"rhumbline_bookie_free_bytes{{{BOOKIE}}}", "{{instance}}"),
                    Query(f"max(rhumbline_bookie_read_only_below_bytes{{{BOOKIE}}})", "limit"),
                ),
                _panel(
                    "Stored data",
                    "bytes",
                    "Payload of the stored entries.",
                    Query(f"rhumbline_bookie_bytes{{{BOOKIE}}}", "{{instance}}"),
                ),
                _panel(
                    "Read-only, full, in limbo",
                    "short",
                    "Number of bookies in each of these states.",
                    Query(_sum(f"rhumbline_bookie_read_only{{{BOOKIE}}}"), "read-only"),
                    Query(_sum(f"rhumbline_bookie_space_blocked{{{BOOKIE}}}"), "blocked"),
                    Query(_sum(f"rhumbline_bookie_space_exhausted{{{BOOKIE}}}"), "exhausted"),
                    Query(_sum(f"rhumbline_bookie_limbo{{{BOOKIE}}}"), "limbo"),
                ),
            ),
        ),
        Row(
            "Maintenance",
            (
                _panel(
                    "Compaction",
                    "Bps",
                    "Bytes per second written to sorted files.",
                    Query(
                        _sum(_rate("rhumbline_bookie_sorted_bytes_total", BOOKIE), "instance"),
                        "{{instance}}",
                    ),
                ),
                _panel(
                    "Logs that wait for compaction",
                    "short",
                    "Full log files.",
                    Query(f"rhumbline_bookie_sealed_logs{{{BOOKIE}}}", "{{instance}}"),
                ),
                _panel(
                    "Deleted ledgers",
                    "ops",
                    "Ledgers per second whose entries were removed.",
                    Query(_sum(_rate("rhumbline_bookie_deleted_ledgers_total", BOOKIE)), "ledgers"),
                ),
                _panel(
                    "Failures and damage",
                    "short",
                    "Failed rounds of maintenance in an hour, and damaged regions of files.",
                    Query(
                        f"sum(increase(rhumbline_bookie_maintenance_failures_total{{{BOOKIE}}}[1h]))",
                        "failures",
                    ),
                    Query(_sum(f"rhumbline_bookie_damages{{{BOOKIE}}}"), "damages"),
                ),
            ),
        ),
        Row(
            "Process",
            (
                _panel(
                    "CPU",
                    "short",
                    "Busy cores.",
                    Query(_rate("process_cpu_seconds_total", BOOKIE), "{{instance}}"),
                ),
                _panel(
                    "Memory",
                    "bytes",
                    "Resident memory.",
                    Query(f"process_resident_memory_bytes{{{BOOKIE}}}", "{{instance}}"),
                ),
                _panel(
                    "Open files",
                    "short",
                    "File descriptors in use.",
                    Query(f"process_open_fds{{{BOOKIE}}}", "{{instance}}"),
                ),
            ),
        ),
    ),
    has_instances=True,
)

DASHBOARDS: Sequence[Dashboard] = (OVERVIEW, BOOKIES)
