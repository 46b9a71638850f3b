"""How a repair process works."""

from dataclasses import dataclass, fields

from ...core.protocol.errors import ConfigurationError

MIB = 1024 * 1024


@dataclass(frozen=True, slots=True)
class RepairConfig:
    """Settings of a ``RepairService``. Raises ConfigurationError naming every fault."""

    lost_after_ms: int = 300_000
    """A bookie that is not registered for this long is lost: its copies are made again elsewhere.
    `region offline` and `node decommission` say so at once."""
    audit_interval_ms: int = 60_000
    """Every ledger's metadata is looked at this often, and soon after a bookie came or went."""
    full_audit_interval_ms: int = 3_600_000
    """What was found whole is compared again, list by list, after this long."""
    recovery_grace_ms: int = 30_000
    """A ledger that is in recovery for this long is recovered (its writer is fenced already)."""
    worker_count: int = 2
    """Ledgers that this process mends side by side."""
    bytes_per_second: int = 50 * MIB
    """Copied bytes, over all workers."""
    retry_ms_min: int = 1_000
    """Pause before a ledger that is stuck is tried again; doubles up to ``retry_ms_max``."""
    retry_ms_max: int = 60_000
    """As ``retry_ms_min``, the longest pause."""
    session_ttl_ms: int = 10_000
    """How long locks and the auditor's office outlive silence."""

    def __post_init__(self) -> None:
        faults = [f"{f.name} is below 1" for f in fields(self) if getattr(self, f.name) < 1]
        if self.retry_ms_min > self.retry_ms_max:
            faults.append("retry_ms_min is above retry_ms_max")
        if faults:
            raise ConfigurationError("repair: " + "; ".join(faults))
