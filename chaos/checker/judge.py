"""Evaluates all invariants on the record of a run."""

from . import (
    condition_invariants,
    ledger_invariants,
    log_invariants,
    ownership_invariants,
    placement_invariants,
    recreation_invariants,
    slow_bookie_invariants,
    stale_metadata_invariants,
    stream_invariants,
    subscription_invariants,
    truncation_invariants,
    wire_invariants,
)
from .applications import archive_invariants, group_invariants, schema_invariants
from .run_record import EXAMPLES_MAX, INVARIANTS, RunRecord, Violation
from .upgrades import upgrade_invariants

CHECKS = (
    archive_invariants,
    condition_invariants,
    group_invariants,
    ledger_invariants,
    log_invariants,
    ownership_invariants,
    placement_invariants,
    recreation_invariants,
    schema_invariants,
    stale_metadata_invariants,
    slow_bookie_invariants,
    stream_invariants,
    subscription_invariants,
    truncation_invariants,
    upgrade_invariants,
    wire_invariants,
)
"""The modules with invariants; importing them registers their checks."""


def judge(record: RunRecord) -> list[Violation]:
    """Return the violations, at most ``EXAMPLES_MAX`` for each invariant."""
    found: list[Violation] = []
    for name, check in INVARIANTS.items():
        for count, text in enumerate(check(record)):
            if count == EXAMPLES_MAX:
                break
            found.append(Violation(name, text))
    return found
