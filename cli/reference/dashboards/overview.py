"""The dashboard of a whole cluster."""

from .panels import Dashboard, Query, Row, panel, quantile, quantiles, rate, total

_VERDICTS = {
    "reduced": "yellow",
    "doubtful": "orange",
    "unavailable": "purple",
    "at_risk": "dark-orange",
    "lost": "red",
}
_BOOKIE_STATES = {
    "up": "green",
    "draining": "blue",
    "limbo": "purple",
    "incomplete": "dark-orange",
    "down": "orange",
    "lost": "red",
    "decommissioned": "gray",
}

_OTHER_REGION = 'origin="other_region"'

OVERVIEW = Dashboard(
    "rhumbline-overview",
    "Rhumbline: overview",
    (
        Row(
            "Is the data safe?",
            (
                panel(
                    "Ledgers that are not whole",
                    "short",
                    "Each ledger counts once, by its worst entry. Only 0 is as it should be.",
                    Query(
                        total('rhumbline_repair_durability_ledgers{verdict!="whole"}', "verdict"),
                        "{{verdict}}",
                    ),
                    colours=_VERDICTS,
                ),
                panel(
                    "One failure from loss",
                    "short",
                    "Ledgers with entries whose live copies all lie in one such domain.",
                    Query(
                        total("rhumbline_repair_durability_one_failure_from_loss", "level"),
                        "{{level}}",
                    ),
                ),
                panel(
                    "One failure from blocking",
                    "short",
                    "Open ledgers that the failure of one such domain would make unwritable.",
                    Query(
                        total("rhumbline_repair_durability_one_failure_from_blocking", "level"),
                        "{{level}}",
                    ),
                    Query(total("rhumbline_repair_durability_writes_blocked"), "blocked now"),
                ),
                panel(
                    "Bookies by state",
                    "short",
                    "As the auditing process sees them.",
                    Query("max by (state) (rhumbline_repair_durability_bookies)", "{{state}}"),
                    colours=_BOOKIE_STATES,
                ),
                panel(
                    "Writable bookies by region",
                    "short",
                    "Regions that an operator took out of service are left out.",
                    Query("max by (region) (rhumbline_repair_writable_bookies)", "{{region}}"),
                ),
                panel(
                    "Repair",
                    "short",
                    "Ledgers that could not be repaired yet, and ledgers repaired per minute.",
                    Query(total("rhumbline_repair_stuck"), "stuck"),
                    Query(
                        total("increase(rhumbline_repair_repaired_ledgers_total[1m])"),
                        "repaired per minute",
                    ),
                    colours={"stuck": "red", "repaired per minute": "green"},
                ),
            ),
        ),
        Row(
            "Writing",
            (
                panel(
                    "Records",
                    "ops",
                    "Acknowledged records per second.",
                    Query(total(rate("rhumbline_client_streams_records_total"), "job"), "{{job}}"),
                ),
                panel(
                    "Bytes",
                    "Bps",
                    "Acknowledged bytes per second.",
                    Query(total(rate("rhumbline_client_streams_bytes_total"), "job"), "{{job}}"),
                ),
                panel(
                    "Acknowledgement",
                    "s",
                    "From the first append of an entry to its acknowledgement.",
                    *quantiles("rhumbline_client_streams_acks_seconds"),
                    limit=1,
                ),
                panel(
                    "Regions at the acknowledgement",
                    "ops",
                    "Entries per second, by the number of regions that held them.",
                    Query(
                        total(rate("rhumbline_client_streams_acks_by_regions_total"), "regions"),
                        "{{regions}} regions",
                    ),
                ),
                panel(
                    "Ledgers",
                    "short",
                    "All ledgers that the auditing process knows.",
                    Query(total("rhumbline_repair_durability_ledgers", "state"), "{{state}}"),
                ),
                panel(
                    "Trouble while writing",
                    "ops",
                    "Slow bookies that writers replaced, and segments that failed, per second.",
                    Query(
                        total(rate("rhumbline_client_ledgers_slow_departures_total")),
                        "slow bookies replaced",
                    ),
                    Query(
                        total(rate("rhumbline_client_streams_segments_failed_total")),
                        "segments failed",
                    ),
                ),
            ),
        ),
        Row(
            "Reading",
            (
                panel(
                    "Read requests",
                    "ops",
                    "Requests to bookies per second, by the region of the bookie.",
                    Query(
                        total(rate("rhumbline_client_reads_responses_by_region_total"), "region"),
                        "{{region}}",
                    ),
                ),
                panel(
                    "Read latency",
                    "s",
                    "From a read request for entries to its response, by the bookie's region.",
                    *quantiles("rhumbline_client_reads_latency_seconds", "region"),
                ),
                panel(
                    "Lag of readers",
                    "s",
                    "Longest time since a reader last had everything.",
                    Query(
                        'max by (instance) ({__name__=~"rhumbline_proxy_read_behind_seconds|'
                        'rhumbline_client_streams_readers_behind_seconds"})',
                        "{{instance}}",
                    ),
                    limit=300,
                ),
                panel(
                    "WAN bytes per byte delivered",
                    "short",
                    "Bytes that read proxies received from bookies of other regions, for each byte "
                    "delivered to readers. Sharing keeps it far below 1.",
                    Query(
                        "sum by (instance) "
                        f"({rate('rhumbline_client_ledgers_received_bytes_total', _OTHER_REGION)})"
                        " / (sum by (instance) "
                        f"({rate('rhumbline_proxy_read_delivered_bytes_total')}) > 0)",
                        "{{instance}}",
                        may_be_empty=True,
                    ),
                ),
                panel(
                    "Lag of subscriptions",
                    "s",
                    "Age of the oldest record that some subscription has not passed.",
                    Query("max(rhumbline_repair_subscriptions_behind_seconds)", "oldest record"),
                    limit=3600,
                ),
            ),
        ),
        Row(
            "Servers",
            (
                panel(
                    "Servers that respond",
                    "short",
                    "Targets of Prometheus that were scraped.",
                    Query("sum by (job) (up{job=~'rhumbline-.*'})", "{{job}}"),
                ),
                panel(
                    "Versions",
                    "short",
                    "Processes by version.",
                    Query(
                        "count by (version, form) (rhumbline_build_info)", "{{version}} {{form}}"
                    ),
                ),
                panel(
                    "Streams of write proxies",
                    "short",
                    "Streams that each proxy owns.",
                    Query("rhumbline_proxy_write_streams", "{{instance}}"),
                ),
                panel(
                    "Refused and redirected",
                    "ops",
                    "Requests of producers per second that the proxies did not accept.",
                    Query(total(rate("rhumbline_proxy_write_refused_total")), "refused"),
                    Query(total(rate("rhumbline_proxy_write_redirected_total")), "redirected"),
                ),
                panel(
                    "CPU",
                    "percentunit",
                    "Busy cores by kind of server; 100 % is one core.",
                    Query(total(rate("process_cpu_seconds_total"), "job"), "{{job}}"),
                ),
                panel(
                    "Memory",
                    "bytes",
                    "Resident memory by kind of server.",
                    Query(total("process_resident_memory_bytes", "job"), "{{job}}"),
                ),
            ),
        ),
        Row(
            "Metadata store and archive",
            (
                panel(
                    "Metadata calls",
                    "ops",
                    "Calls per second, by operation.",
                    Query(
                        total(rate("rhumbline_client_metadata_calls_total"), "operation"),
                        "{{operation}}",
                    ),
                ),
                panel(
                    "Failed metadata calls",
                    "ops",
                    "Calls per second that got no answer.",
                    Query(
                        total(
                            rate(
                                "rhumbline_client_metadata_calls_total",
                                'result=~"unavailable|indeterminate|failed|cancelled"',
                            ),
                            "result",
                        ),
                        "{{result}}",
                    ),
                ),
                panel(
                    "Metadata latency",
                    "s",
                    "By kind of server (p99).",
                    Query(
                        quantile(0.99, "rhumbline_client_metadata_call_seconds", "job"), "{{job}}"
                    ),
                    limit=1,
                ),
                panel(
                    "Archive",
                    "s",
                    "Age of the oldest completed segment without an archive.",
                    Query("max(rhumbline_archive_behind_seconds)", "behind"),
                    limit=3600,
                ),
            ),
        ),
    ),
)
