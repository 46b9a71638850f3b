"""The dashboard of the bookies, of which the user selects some."""

from .panels import Dashboard, Query, Row, panel, quantile, quantiles, rate, total

BOOKIE = 'job="rhumbline-bookie",instance=~"$instance"'

BOOKIES = Dashboard(
    "rhumbline-bookies",
    "Rhumbline: bookies",
    (
        Row(
            "Requests",
            (
                panel(
                    "Operations",
                    "ops",
                    "Answered requests per second, by kind.",
                    Query(
                        total(rate("rhumbline_bookie_operations_total", BOOKIE), "kind"),
                        "{{kind}}",
                    ),
                ),
                panel(
                    "Operations that failed or were refused",
                    "ops",
                    "By result. `not_found` is a proper answer to a reader.",
                    Query(
                        total(
                            rate("rhumbline_bookie_operations_total", f'{BOOKIE},result!="ok"'),
                            "result",
                        ),
                        "{{result}}",
                    ),
                ),
                panel(
                    "Latency of adds",
                    "s",
                    "From the first add of a commit group to its responses.",
                    *quantiles("rhumbline_bookie_operation_seconds", labels=f'{BOOKIE},kind="add"'),
                ),
                panel(
                    "Latency of reads",
                    "s",
                    "Single and batch reads, and polls after they are woken (p99).",
                    Query(
                        quantile(
                            0.99,
                            "rhumbline_bookie_operation_seconds",
                            "kind",
                            f'{BOOKIE},kind=~"read|batch_read|poll"',
                        ),
                        "{{kind}}",
                    ),
                ),
                panel(
                    "Connections and waiting polls",
                    "short",
                    "Open client connections, and long polls that wait for an entry.",
                    Query(total(f"rhumbline_bookie_connections{{{BOOKIE}}}"), "connections"),
                    Query(total(f"rhumbline_bookie_parked_polls{{{BOOKIE}}}"), "polls"),
                ),
                panel(
                    "Closed connections",
                    "ops",
                    "Connections per second that bookies closed, by reason.",
                    Query(
                        total(rate("rhumbline_bookie_closed_total", BOOKIE), "reason"),
                        "{{reason}}",
                        may_be_empty=True,
                    ),
                    Query(
                        f"{total(rate('rhumbline_bookie_closed_total', BOOKIE))} or vector(0)",
                        "all",
                    ),
                ),
            ),
        ),
        Row(
            "Disk",
            (
                panel(
                    "Durable writes",
                    "s",
                    "Duration of fsync by bookie (p99).",
                    Query(
                        quantile(
                            0.99, "rhumbline_bookie_durable_writes_seconds", "instance", BOOKIE
                        ),
                        "{{instance}}",
                    ),
                    limit=0.5,
                ),
                panel(
                    "Commit groups",
                    "ops",
                    "Durable writes per second.",
                    Query(
                        total(rate("rhumbline_bookie_syncs_total", BOOKIE), "instance"),
                        "{{instance}}",
                    ),
                ),
                panel(
                    "Write log",
                    "Bps",
                    "Bytes per second.",
                    Query(
                        total(rate("rhumbline_bookie_log_bytes_total", BOOKIE), "instance"),
                        "{{instance}}",
                    ),
                ),
                panel(
                    "Free share of the disk",
                    "percentunit",
                    "Below its limit a bookie refuses new entries; the highest limit is shown.",
                    Query(
                        f"rhumbline_bookie_free_bytes{{{BOOKIE}}}"
                        f" / rhumbline_bookie_disk_bytes{{{BOOKIE}}}",
                        "{{instance}}",
                    ),
                    Query(
                        f"max(rhumbline_bookie_read_only_below_bytes{{{BOOKIE}}}"
                        f" / rhumbline_bookie_disk_bytes{{{BOOKIE}}})",
                        "limit",
                    ),
                    colours={"limit": "red"},
                ),
                panel(
                    "Stored data",
                    "bytes",
                    "Payload of the stored entries.",
                    Query(f"rhumbline_bookie_bytes{{{BOOKIE}}}", "{{instance}}"),
                ),
                panel(
                    "Read-only, full, in limbo",
                    "short",
                    "Number of bookies in each of these states.",
                    Query(total(f"rhumbline_bookie_read_only{{{BOOKIE}}}"), "read-only"),
                    Query(total(f"rhumbline_bookie_space_blocked{{{BOOKIE}}}"), "blocked"),
                    Query(total(f"rhumbline_bookie_space_exhausted{{{BOOKIE}}}"), "exhausted"),
                    Query(total(f"rhumbline_bookie_limbo{{{BOOKIE}}}"), "limbo"),
                ),
            ),
        ),
        Row(
            "Maintenance",
            (
                panel(
                    "Compaction",
                    "Bps",
                    "Bytes per second written to sorted files.",
                    Query(
                        total(rate("rhumbline_bookie_sorted_bytes_total", BOOKIE), "instance"),
                        "{{instance}}",
                    ),
                ),
                panel(
                    "Logs that wait for compaction",
                    "short",
                    "Full log files.",
                    Query(f"rhumbline_bookie_sealed_logs{{{BOOKIE}}}", "{{instance}}"),
                ),
                panel(
                    "Deleted ledgers",
                    "ops",
                    "Ledgers per second whose entries were removed.",
                    Query(total(rate("rhumbline_bookie_deleted_ledgers_total", BOOKIE)), "ledgers"),
                ),
                panel(
                    "Failures and damage",
                    "short",
                    "Failed rounds of maintenance in an hour, and damaged regions of files.",
                    Query(
                        f"sum(increase(rhumbline_bookie_maintenance_failures_total{{{BOOKIE}}}[1h]))",
                        "failures",
                    ),
                    Query(total(f"rhumbline_bookie_damaged_ranges{{{BOOKIE}}}"), "damaged ranges"),
                ),
            ),
        ),
        Row(
            "Process",
            (
                panel(
                    "CPU",
                    "percentunit",
                    "Busy cores; 100 % is one core.",
                    Query(rate("process_cpu_seconds_total", BOOKIE), "{{instance}}"),
                ),
                panel(
                    "Memory",
                    "bytes",
                    "Resident memory.",
                    Query(f"process_resident_memory_bytes{{{BOOKIE}}}", "{{instance}}"),
                ),
                panel(
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
