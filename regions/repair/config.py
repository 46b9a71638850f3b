"""Settings of repair."""

from dataclasses import dataclass

from ...core.runtime.settings import check_settings, setting

MIB = 1024 * 1024


@dataclass(frozen=True, slots=True)
class RepairConfig:
    """Settings of a ``RepairService``.

    Raises ConfigurationError that names every fault.
    """

    lost_after_ms: int = setting(
        300_000,
        "Time after which a bookie that is not registered counts as lost, and its copies are "
        "re-created elsewhere. `region offline` and `node decommission` declare bookies lost "
        "immediately.",
        low=1,
    )
    audit_interval_ms: int = setting(
        60_000,
        "Interval between audits of the metadata of all ledgers. An audit also follows soon after "
        "a bookie registered, disappeared or changed state.",
        low=1,
    )
    full_audit_interval_ms: int = setting(
        3_600_000,
        "Interval after which ledgers that were found complete are compared with the entry lists "
        "of their bookies again.",
        low=1,
    )
    compared_per_second: int = setting(
        2_000,
        "Maximum number of ledgers per second that an audit compares with the entry lists of their "
        "bookies.",
        low=1,
    )
    recovery_grace_ms: int = setting(
        30_000,
        "Time after which repair recovers a ledger that stays in recovery. Its writer is already "
        "fenced.",
        low=1,
    )
    ownerless_grace_ms: int = setting(
        30_000,
        "Time for which the writer of an open ledger that needs repair must show no activity "
        "until its stream is taken over, and the ledger closed and repaired. The writer was asked "
        "to roll before. A live writer answers within 5 s and two reads of the metadata store.",
        low=1,
    )
    worker_count: int = setting(
        32,
        "Maximum number of ledgers that this process repairs at the same time. The repair of a "
        "small ledger mostly waits for round trips to bookies and to the metadata store.",
        low=1,
    )
    bytes_per_second: int = setting(
        50 * MIB, "Rate limit of copying, over all workers of the process.", low=1
    )
    retry_ms_min: int = setting(
        1_000,
        "Pause before the first retry of a ledger whose repair is stuck. It doubles with each "
        "retry up to ``retry_ms_max``, with a jitter of up to half of it in either direction.",
        low=1,
        not_above="retry_ms_max",
    )
    retry_ms_max: int = setting(
        60_000,
        "Maximum pause, before jitter, before a retry of a ledger whose repair is stuck.",
        low=1,
    )
    durability_interval_ms: int = setting(
        10_000,
        "Interval at which the auditing process reads the states of the bookies and computes the "
        "durability metrics again. It also does so soon after a bookie registered, disappeared or "
        "changed state.",
        low=1,
    )
    durability_stale_after_ms: int = setting(
        300_000,
        "Age of the last complete audit, or of the last reading of the bookies' states, at which "
        "the durability metrics become unknown, and at least two ``audit_interval_ms``. Raise it "
        "if an audit takes minutes.",
        low=1,
    )
    retention_interval_ms: int = setting(
        60_000,
        "Interval between passes of retention over all streams, in the auditing process: "
        "truncation by age and by subscriptions, and purging.",
        low=1,
    )
    archive_expiry_interval_ms: int = setting(
        3_600_000,
        "Interval between passes that also delete old archives of purged segments. Such a pass "
        "lists the archives of each stream whose policy limits their age, and needs cluster.cold.",
        low=1,
    )
    lag_interval_ms: int = setting(
        60_000,
        "Interval between measurements of the lag of all subscriptions, in the auditing process.",
        low=1,
    )
    session_ttl_ms: int = setting(
        10_000,
        "TTL of the session in the metadata store. When the process has been out of contact for "
        "this long, other processes may take over its locks and its role as auditor.",
        low=1,
    )

    def __post_init__(self) -> None:
        check_settings(self, "repair")
