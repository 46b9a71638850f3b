"""The product settings of scenarios, equal in both worlds, with timeouts that suit short runs."""

from ...core.ledger.config import LedgerConfig
from ...core.log.config import ReaderConfig, WriterConfig
from ...core.log.policy import FlushPolicy, StreamPolicy
from ...regions.repair.config import RepairConfig
from .scenario import Scenario

LEDGER = LedgerConfig(request_timeout_ms=1_000, underreplicated_ms_max=2_000)
WRITER = WriterConfig(close_ms_max=20_000)
READER = ReaderConfig(poll_ms=2_000)
REPAIR = RepairConfig(
    lost_after_ms=5_000,
    audit_interval_ms=2_000,
    recovery_grace_ms=5_000,
    retry_ms_min=500,
    retry_ms_max=4_000,
    session_ttl_ms=2_000,
)
BOOKIE_SESSION_MS = 2_000
ARCHIVE_PAUSE_MS = 1_000


def policy_of(scenario: Scenario) -> StreamPolicy:
    """Return the stream policy of the scenario's namespace."""
    return StreamPolicy(
        quorum=scenario.quorum.quorum(),
        flush=FlushPolicy(period_ms=0),
        roll_ms=scenario.workload.roll_ms,
    )
