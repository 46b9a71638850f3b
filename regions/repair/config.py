"""Settings of repair."""

from dataclasses import dataclass, fields

from ...core.protocol.errors import ConfigurationError

MIB = 1024 * 1024


@dataclass(frozen=True, slots=True)
class RepairConfig:
    """Settings of a ``RepairService``.

    Raises ConfigurationError that names every fault.
    """

    lost_after_ms: int = 300_000
    """Time after which a bookie that is not registered counts as lost, and its copies are made
    again elsewhere. `region offline` and `node decommission` declare bookies lost immediately."""
    audit_interval_ms: int = 60_000
    """Interval between audits of the metadata of all ledgers. An audit also follows soon after a
    bookie registered, disappeared or changed state."""
    full_audit_interval_ms: int = 3_600_000
    """Interval after which ledgers that were found complete are compared with the entry lists of
    their bookies again."""
    recovery_grace_ms: int = 30_000
    """Time after which repair recovers a ledger that stays in recovery. Its writer is fenced
    already."""
    worker_count: int = 2
    """Number of ledgers that this process repairs concurrently."""
    bytes_per_second: int = 50 * MIB
    """Rate limit of copying in bytes per second, over all workers of the process."""
    retry_ms_min: int = 1_000
    """Pause before the first retry of a ledger whose repair is stuck. It doubles with each retry up
    to ``retry_ms_max``."""
    retry_ms_max: int = 60_000
    """Maximum pause before a retry of a ledger whose repair is stuck."""
    session_ttl_ms: int = 10_000
    """TTL of the session in the metadata store. When the process has been out of contact for this
    long, other processes may take over its locks and its role as auditor."""

    def __post_init__(self) -> None:
        values = {f.name: getattr(self, f.name) for f in fields(self)}
        faults = [f"{name}={value} is below 1" for name, value in values.items() if value < 1]
        if self.retry_ms_min > self.retry_ms_max:
            faults.append(
                f"retry_ms_min={self.retry_ms_min} is above retry_ms_max={self.retry_ms_max}"
            )
        if faults:
            raise ConfigurationError("repair: " + "; ".join(faults))
