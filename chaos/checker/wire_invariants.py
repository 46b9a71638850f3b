"""What bookies promise by their answers, judged by all that each of them ever said."""

from collections.abc import Iterator

from ...core.protocol.recovery import Said, Verdict
from .verdict import Record, invariant


@invariant("L9")
def nothing_is_added_behind_a_fence(record: Record) -> Iterator[str]:
    """Once a bookie's answer to a fencing read has left, it confirms no plain add of that ledger,
    across restarts."""
    fences = record.testimony.fences
    for (bookie, ledger_id, entry_id), (_, last_ms) in record.testimony.stored.items():
        fenced_ms = fences.get((bookie, ledger_id))
        if fenced_ms is not None and last_ms > fenced_ms:
            yield (
                f"{bookie} confirmed an add of ledger {ledger_id} entry {entry_id} at "
                f"{last_ms:.1f} ms, and had fenced the ledger at {fenced_ms:.1f} ms"
            )


@invariant("L10")
def never_means_never(record: Record) -> Iterator[str]:
    """A bookie on whose "never had it" a recovery ended a ledger confirms no plain add of that
    entry, neither before nor after."""
    stored = record.testimony.stored
    for evidence in record.evidence:
        if evidence.verdict is not Verdict.ABSENT:
            continue
        assert evidence.entry_id is not None
        for answer in evidence.answers:
            key = (answer.bookie, evidence.ledger_id, evidence.entry_id)
            if answer.said is Said.NEVER and key in stored:
                yield (
                    f"{answer.bookie} said that it never had ledger {evidence.ledger_id} entry "
                    f"{evidence.entry_id}, and confirmed an add of it at {stored[key][1]:.1f} ms"
                )


@invariant("L12")
def what_is_confirmed_is_durable(record: Record) -> Iterator[str]:
    """A bookie confirms an add only when its records are on the disk for good."""
    testimony = record.testimony
    for (bookie, ledger_id, entry_id), (first_ms, _) in testimony.stored.items():
        if bookie in record.lost:
            continue
        for token in testimony.tokens.get((ledger_id, entry_id), ()):
            durable_ms = testimony.durable.get(token, {}).get(bookie)
            if durable_ms is None or durable_ms > first_ms:
                yield (
                    f"{bookie} confirmed ledger {ledger_id} entry {entry_id} at {first_ms:.1f} ms; "
                    f"durable: {durable_ms}"
                )
                break
