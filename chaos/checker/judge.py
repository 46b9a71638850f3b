"""Judges what was recorded of a run by every invariant that there is."""

from . import (
    ledger_invariants,
    log_invariants,
    recreation_invariants,
    stream_invariants,
    wire_invariants,
)
from .run_record import EXAMPLES_MAX, INVARIANTS, RunRecord, Violation

CHECKS = (
    ledger_invariants,
    log_invariants,
    recreation_invariants,
    stream_invariants,
    wire_invariants,
)
"""Importing them registers what they check."""


def judge(record: RunRecord) -> list[Violation]:
    """Everything that is broken; empty when the run kept its promises."""
    found: list[Violation] = []
    for name, check in INVARIANTS.items():
        for count, text in enumerate(check(record)):
            if count == EXAMPLES_MAX:
                break
            found.append(Violation(name, text))
    return found
