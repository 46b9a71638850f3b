"""Series with which each alert fires, and series with which it must not."""

from typing import NamedTuple


class AlertCase(NamedTuple):
    """Series in the notation of promtool (value at the start, and change per minute)."""

    alert: str
    firing: dict[str, str]
    quiet: dict[str, str]
    labels: dict[str, str]
    summary: str
    minutes: int = 20
    """When the alert is looked at; it has fired for a while then."""


def _at(instance: str, **more: str) -> dict[str, str]:
    return {**more, "instance": instance}


def _constant(series: str, value: float) -> dict[str, str]:
    return {series: f"{value:g}x400"}


def _latency(name: str, labels: str, *, slow: bool) -> dict[str, str]:
    """Return a histogram of which all durations lie in one bucket: 2 to 4 s, or below 1 ms."""
    bounds = ("0.001024", "2.097152", "4.194304", "+Inf")
    first = 2 if slow else 0
    separator = "," if labels else ""
    return {
        f'{name}_bucket{{{labels}{separator}le="{bound}"}}': (
            "0+60x400" if index >= first else "0x400"
        )
        for index, bound in enumerate(bounds)
    }


_LEDGERS = "rhumbline_repair_durability_ledgers"
_LOSS = "rhumbline_repair_durability_one_failure_from_loss"
_BLOCKING = "rhumbline_repair_durability_one_failure_from_blocking"
_CALLS = "rhumbline_client_metadata_calls_total"
_B1 = 'job="rhumbline-bookie",instance="b1"'
_P1 = 'job="rhumbline-proxy",instance="p1"'
_OF_B1 = _at("b1", job="rhumbline-bookie")
_OF_P1 = _at("p1", job="rhumbline-proxy")


def _bookie(name: str, value: float) -> dict[str, str]:
    return _constant(f"rhumbline_bookie_{name}{{{_B1}}}", value)


def _up(job: str, instance: str, value: int) -> dict[str, str]:
    return _constant(f'up{{job="{job}",instance="{instance}"}}', value)


CASES = (
    AlertCase(
        "RhumblineDataLost",
        _constant(f'{_LEDGERS}{{verdict="lost",state="closed"}}', 2),
        _constant(f'{_LEDGERS}{{verdict="lost",state="closed"}}', 0),
        {},
        "2 ledgers have entries without any copy that is left or can return",
    ),
    AlertCase(
        "RhumblineDataAtRisk",
        _constant(f'{_LEDGERS}{{verdict="at_risk",state="open"}}', 3)
        | _constant(f'{_LEDGERS}{{verdict="unavailable",state="closed"}}', 1),
        _constant(f'{_LEDGERS}{{verdict="whole",state="open"}}', 9)
        | _constant(f'{_LEDGERS}{{verdict="reduced",state="open"}}', 9),
        {},
        "4 ledgers have fewer live copies than their writers were promised",
    ),
    AlertCase(
        "RhumblineCopiesMissing",
        _constant(f'{_LEDGERS}{{verdict="reduced",state="closed"}}', 3),
        _constant(f'{_LEDGERS}{{verdict="whole",state="closed"}}', 3)
        | _constant(f'{_LEDGERS}{{verdict="reduced",state="closed"}}', 0),
        {},
        "3 ledgers lack copies, and repair has not made new ones; what is promised still holds",
        minutes=75,
    ),
    AlertCase(
        "RhumblineOneFailureFromLoss",
        _constant(f'{_LOSS}{{level="bookie",state="closed"}}', 5),
        _constant(f'{_LOSS}{{level="region",state="closed"}}', 5)
        | _constant(f'{_LOSS}{{level="bookie",state="closed"}}', 0),
        {"level": "bookie"},
        "the failure of one bookie would lose entries of 5 ledgers",
    ),
    AlertCase(
        "RhumblineOneFailureFromBlocking",
        _constant(f'{_BLOCKING}{{level="host"}}', 1),
        _constant(f'{_BLOCKING}{{level="region"}}', 1),
        {"level": "host"},
        "the failure of one host would stop the writers of 1 ledgers",
    ),
    AlertCase(
        "RhumblineWritesBlocked",
        _constant("rhumbline_repair_durability_writes_blocked", 7),
        _constant("rhumbline_repair_durability_writes_blocked", 0),
        {},
        "7 ledgers cannot be written, with any bookies that are up",
    ),
    AlertCase(
        "RhumblineDurabilityUnknown",
        _constant('rhumbline_repair_durability_known{instance="r1"}', 0)
        | _constant('rhumbline_repair_durability_known{instance="r1",store="oslo"}', 1),
        _constant('rhumbline_repair_durability_known{instance="r1"}', 1)
        | _constant('rhumbline_repair_durability_known{instance="r2"}', 0),
        {},
        "no process knows how safe the data is, so the alerts about it are silent",
    ),
    AlertCase(
        "RhumblineDamagedData",
        _bookie("damaged_ranges", 1),
        _bookie("damaged_ranges", 0) | _bookie("missing_entries", 0),
        _OF_B1,
        "b1 has damaged or missing entries that it could not replace",
        minutes=45,
    ),
    AlertCase(
        "RhumblineBookieDown",
        _up("rhumbline-bookie", "b1", 0),
        _up("rhumbline-bookie", "b1", 1) | _up("other", "b2", 0),
        _OF_B1,
        "bookie b1 does not respond",
    ),
    AlertCase(
        "RhumblineBookieUnregistered",
        _bookie("registered", 0),
        _bookie("registered", 1),
        _OF_B1,
        "bookie b1 runs, but clients cannot find it",
    ),
    AlertCase(
        "RhumblineBookieReadOnly",
        _bookie("read_only", 1),
        _bookie("read_only", 0),
        _OF_B1,
        "bookie b1 refuses new entries",
    ),
    AlertCase(
        "RhumblineDiskSpaceLow",
        _bookie("free_bytes", 1.25 * 2**30)
        | _bookie("read_only_below_bytes", 2**30)
        | _bookie("read_only", 0),
        _bookie("free_bytes", 0.5 * 2**30)
        | _bookie("read_only_below_bytes", 2**30)
        | _bookie("read_only", 1),
        _OF_B1,
        "bookie b1 has 1.25GiB of free space and will soon refuse new entries",
    ),
    AlertCase(
        "RhumblineDiskExhausted",
        _bookie("space_exhausted", 1),
        _bookie("space_exhausted", 0),
        _OF_B1,
        "the disk of bookie b1 is full of live data",
    ),
    AlertCase(
        "RhumblineDataDirectoryFailed",
        _constant(f'rhumbline_bookie_data_directory_failed{{{_B1},directory="/d1"}}', 1),
        _constant(f'rhumbline_bookie_data_directory_failed{{{_B1},directory="/d1"}}', 0),
        {**_OF_B1, "directory": "/d1"},
        "data directory /d1 of bookie b1 has failed; its copies are made again elsewhere",
    ),
    AlertCase(
        "RhumblineDataDirectoryFull",
        _constant(f'rhumbline_bookie_data_directory_full{{{_B1},directory="/d1"}}', 1),
        _constant(f'rhumbline_bookie_data_directory_full{{{_B1},directory="/d1"}}', 0),
        {**_OF_B1, "directory": "/d1"},
        "data directory /d1 of bookie b1 is full and gets no new files",
    ),
    AlertCase(
        "RhumblineMaintenanceBlocked",
        _bookie("space_blocked", 1),
        _bookie("space_blocked", 0),
        _OF_B1,
        "bookie b1 is full and cannot free space",
    ),
    AlertCase(
        "RhumblineMaintenanceFailing",
        {f"rhumbline_bookie_maintenance_failures_total{{{_B1}}}": "0+1x400"},
        {f"rhumbline_bookie_maintenance_failures_total{{{_B1}}}": "165x400"},
        _OF_B1,
        "maintenance of bookie b1 fails repeatedly",
        minutes=45,
    ),
    AlertCase(
        "RhumblineDiskSlow",
        _latency("rhumbline_bookie_durable_writes_seconds", _B1, slow=True),
        _latency("rhumbline_bookie_durable_writes_seconds", _B1, slow=False),
        _OF_B1,
        "the disk of bookie b1 needs 4.173s for a durable write (p99)",
    ),
    AlertCase(
        "RhumblineRegionWithoutWritableBookie",
        _constant('rhumbline_repair_writable_bookies{region="oslo"}', 0)
        | _constant('rhumbline_repair_writable_bookies{region="bonn"}', 2),
        _constant('rhumbline_repair_writable_bookies{region="oslo"}', 1),
        {"region": "oslo"},
        "no bookie of region oslo accepts new entries",
    ),
    AlertCase(
        "RhumblineAuditorMissing",
        _constant('rhumbline_repair_auditor{instance="r1"}', 1)
        | _constant('rhumbline_repair_auditor{instance="r2",store="oslo"}', 0),
        _constant('rhumbline_repair_auditor{instance="r1"}', 0)
        | _constant('rhumbline_repair_auditor{instance="r2"}', 1),
        {"store": "oslo"},
        "no process audits the cluster: nothing is repaired, and retention stands still",
    ),
    AlertCase(
        "RhumblineRepairStuck",
        _constant("rhumbline_repair_stuck", 2),
        _constant("rhumbline_repair_stuck", 0),
        {},
        "2 ledgers cannot be repaired",
        minutes=45,
    ),
    AlertCase(
        "RhumblineUnreadableLedgers",
        _constant("rhumbline_repair_unreadable_ledgers", 1),
        _constant("rhumbline_repair_unreadable_ledgers", 0),
        {},
        "the metadata of 1 ledgers is damaged; they are not repaired",
    ),
    AlertCase(
        "RhumblineDrainUnfinished",
        _constant('rhumbline_repair_durability_bookies{state="draining"}', 1),
        _constant('rhumbline_repair_durability_bookies{state="up"}', 6)
        | _constant('rhumbline_repair_durability_bookies{state="draining"}', 0),
        {},
        "1 bookies are still draining",
        minutes=400,
    ),
    AlertCase(
        "RhumblineRetentionOverdue",
        _constant("rhumbline_repair_retention_overdue_seconds", 172_800),
        _constant("rhumbline_repair_retention_overdue_seconds", 3_600),
        {},
        "data that should have been deleted 2d 0h 0m 0s ago is still stored",
        minutes=90,
    ),
    AlertCase(
        "RhumblineArchiverDown",
        _up("rhumbline-archive", "a1", 0),
        _up("rhumbline-archive", "a1", 1),
        _at("a1", job="rhumbline-archive"),
        "archiver a1 does not respond",
    ),
    AlertCase(
        "RhumblineArchiverBehind",
        _constant('rhumbline_archive_behind_seconds{job="rhumbline-archive"}', 7_200),
        _constant('rhumbline_archive_behind_seconds{job="rhumbline-archive"}', 60),
        {"job": "rhumbline-archive"},
        "a segment that was completed 2h 0m 0s ago has no archive",
    ),
    AlertCase(
        "RhumblineMetadataStoreUnavailable",
        {
            f'{_CALLS}{{{_P1},operation="get",result="ok"}}': "0+9x400",
            f'{_CALLS}{{{_P1},operation="get",result="ok",store="oslo"}}': "0+1x400",
            f'{_CALLS}{{{_P1},operation="get",result="unavailable",store="oslo"}}': "0+3x400",
        },
        {
            f'{_CALLS}{{{_P1},operation="get",result="ok"}}': "0+3x400",
            f'{_CALLS}{{{_P1},operation="get",result="conflict"}}': "0+9x400",
            f'{_CALLS}{{{_P1},operation="get",result="unavailable"}}': "0+1x400",
        },
        {**_OF_P1, "store": "oslo"},
        "75% of the calls of p1 to the metadata store fail",
    ),
    AlertCase(
        "RhumblineMetadataStale",
        _constant(f"rhumbline_client_metadata_unavailable{{{_P1}}}", 1),
        _constant(f"rhumbline_client_metadata_unavailable{{{_P1}}}", 0),
        _OF_P1,
        "p1 serves readers from old metadata",
    ),
    AlertCase(
        "RhumblineMetadataSlow",
        _latency("rhumbline_client_metadata_call_seconds", f'{_P1},operation="txn"', slow=True),
        _latency("rhumbline_client_metadata_call_seconds", f'{_P1},operation="txn"', slow=False),
        {"job": "rhumbline-proxy"},
        "calls of the metadata store take 4.173s (p99) in rhumbline-proxy",
    ),
    AlertCase(
        "RhumblineProxyDown",
        _up("rhumbline-proxy", "p1", 0),
        _up("rhumbline-proxy", "p1", 1),
        _OF_P1,
        "proxy p1 does not respond",
    ),
    AlertCase(
        "RhumblineAddLatencyHigh",
        _latency("rhumbline_client_ledgers_adds_seconds", _P1, slow=True),
        _latency("rhumbline_client_ledgers_adds_seconds", _P1, slow=False),
        _OF_P1,
        "acknowledgements take 4.173s (p99) at p1",
    ),
    AlertCase(
        "RhumblineReaderLag",
        {f"rhumbline_proxy_read_behind_seconds{{{_P1}}}": "0+60x400"}
        | _constant(f"rhumbline_client_streams_readers_behind_seconds{{{_P1}}}", 0),
        _constant(f"rhumbline_proxy_read_behind_seconds{{{_P1}}}", 20),
        _OF_P1,
        "a reader of p1 is 20m 0s behind the end of its stream",
    ),
    AlertCase(
        "RhumblineSubscriptionBehind",
        _constant('rhumbline_repair_subscriptions_behind_seconds{instance="r1"}', 7200)
        | _constant('rhumbline_repair_subscriptions_behind_seconds{instance="r2"}', 0),
        _constant('rhumbline_repair_subscriptions_behind_seconds{instance="r1"}', 3000),
        {},
        "a subscription has not passed a record that is 2h 0m 0s old",
    ),
    AlertCase(
        "RhumblineRequestsRefused",
        {f"rhumbline_proxy_write_refused_total{{{_P1}}}": "0+120x400"},
        {f"rhumbline_proxy_write_refused_total{{{_P1}}}": "9x400"},
        _OF_P1,
        "proxy p1 refuses 2 requests per second because of its limits",
    ),
    AlertCase(
        "RhumblineCertificateExpiresSoon",
        _bookie("tls_certificate_remaining_seconds", 12 * 86_400),
        _bookie("tls_certificate_remaining_seconds", 15 * 86_400),
        _OF_B1,
        "the certificate of b1 expires in 12d 0h 0m 0s",
    ),
    AlertCase(
        "RhumblineCertificateAboutToExpire",
        _constant(f"rhumbline_proxy_tls_certificate_remaining_seconds{{{_P1}}}", 3_600),
        _constant(f"rhumbline_proxy_tls_certificate_remaining_seconds{{{_P1}}}", 12 * 86_400),
        _OF_P1,
        "nobody can connect to p1 once its certificate has expired: 1h 0m 0s left",
    ),
)
