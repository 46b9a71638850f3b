"""What bookies promise by their answers, judged by all that each of them ever said."""

from collections.abc import Iterator

from ...core.protocol.recovery import Said
from .history import TOKEN
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
    """A bookie that answered a fencing read with "never had it" confirms no plain add of that
    entry, neither before nor after."""
    testimony = record.testimony
    for place, denied_ms in testimony.denials.items():
        if place in testimony.stored:
            bookie, ledger_id, entry_id = place
            yield (
                f"{bookie} said at {denied_ms:.1f} ms that it never had ledger {ledger_id} entry "
                f"{entry_id}, and confirmed an add of it at {testimony.stored[place][1]:.1f} ms"
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


@invariant("L13")
def reads_say_what_is_there(record: Record) -> Iterator[str]:
    """What a reader gets at a position was sent to that entry of that ledger, and a recovery counts
    as "never had it" only what a bookie said: a damaged copy is neither given nor a no."""
    yield from _misread(record)
    for evidence in record.evidence:
        if evidence.entry_id is None:
            continue  # L14 looks at who was fenced
        for answer in evidence.answers:
            place = answer.bookie, evidence.ledger_id, evidence.entry_id
            if answer.said is Said.NEVER and place not in record.testimony.denials:
                yield (
                    f"a recovery of ledger {evidence.ledger_id} took it for a no of "
                    f"{answer.bookie} to entry {evidence.entry_id}, which it never said"
                )


def _misread(record: Record) -> Iterator[str]:
    known = record.testimony.tokens
    for read in record.history.reads:
        for one in read.records:
            ledger_id = record.ledger_of(one.dlsn.lssn)
            tokens = () if ledger_id is None else known.get((ledger_id, one.dlsn.entry_id), ())
            found = TOKEN.match(one.payload)
            if tokens and found is not None and found.group() not in tokens:
                yield (
                    f"{read.reader} got {found.group()!r} at {one.dlsn}, which was not sent to "
                    f"ledger {ledger_id} entry {one.dlsn.entry_id}"
                )
