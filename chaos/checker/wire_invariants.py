"""What bookies promise by their answers, judged by all that each of them ever said."""

from collections.abc import Iterator

from ...core.protocol.ledger_metadata import LedgerState
from ...core.protocol.recovery import AnswerKind
from .history import TOKEN
from .ledger_invariants import acked_in, satisfies_p
from .run_record import Rules, RunRecord, invariant


@invariant("L9")
def nothing_is_added_behind_a_fence(record: RunRecord) -> Iterator[str]:
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
def never_means_never(record: RunRecord) -> Iterator[str]:
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
def what_is_confirmed_is_durable(record: RunRecord) -> Iterator[str]:
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
def reads_say_what_is_there(record: RunRecord) -> Iterator[str]:
    """What a reader gets at a position was sent to that entry of that ledger, and a recovery counts
    as "never had it" only what a bookie said: a damaged copy is neither given nor a no."""
    yield from _misread(record)
    for evidence in record.evidence:
        if evidence.entry_id is None:
            continue  # L14 looks at who was fenced
        for answer in evidence.answers:
            place = answer.bookie, evidence.ledger_id, evidence.entry_id
            if answer.said is AnswerKind.NEVER and place not in record.testimony.denials:
                yield (
                    f"a recovery of ledger {evidence.ledger_id} took it for a no of "
                    f"{answer.bookie} to entry {evidence.entry_id}, which it never said"
                )


def _misread(record: RunRecord) -> Iterator[str]:
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


@invariant("L18")
def what_is_named_is_kept(record: RunRecord) -> Iterator[str]:
    """A bookie still has, after the run, each entry that it ever confirmed, of each closed ledger
    whose metadata names it for the entry: neither collection nor compaction drops it."""
    rules: dict[int, Rules] = {}
    excused = record.lost | record.unasked | record.liars
    testimony = record.testimony
    for bookie, ledger_id, entry_id in dict.fromkeys((*testimony.stored, *testimony.copied)):
        copies = record.copies.get(ledger_id)
        if copies is None or bookie in excused or (entry_id, bookie) in copies:
            continue
        metadata = record.last_version(ledger_id)
        if metadata is None or metadata.state is not LedgerState.CLOSED:
            continue
        if entry_id > metadata.last_entry_id:
            continue
        known = rules.setdefault(ledger_id, Rules(metadata))
        if bookie in known.write_set(entry_id):
            yield f"{bookie} confirmed ledger {ledger_id} entry {entry_id}, and has it no more"


@invariant("L20")
def acks_are_of_those_that_are_named(record: RunRecord) -> Iterator[str]:
    """At the moment of an acknowledgement, bookies that satisfy P and that the stored metadata
    names for the entry had said that they have it: no answer of one that was replaced counts."""
    if not record.testimony.stored:
        return  # nobody overheard the bookies
    said = _said(record)
    rules: dict[tuple[int, int], Rules] = {}
    for append, ledger_id, entry_id in acked_in(record):
        assert append.ended_ms is not None
        versions = record.ledgers.get(ledger_id, [])
        place = sum(1 for version in versions if version.at_ms <= append.ended_ms) - 1
        metadata = versions[place].metadata if place >= 0 else None
        if metadata is None:
            continue
        known = rules.get((ledger_id, place))
        if known is None:
            known = rules[ledger_id, place] = Rules(metadata)
        answers = said.get((ledger_id, entry_id), {})
        heard = {b for b in known.write_set(entry_id) if answers.get(b, _NEVER) <= append.ended_ms}
        if not satisfies_p(known.quorum(entry_id), heard, record.regions):
            yield (
                f"{append}, ledger {ledger_id}, {known.quorum(entry_id)}: of "
                f"{list(known.write_set(entry_id))} only {sorted(heard)} had said so"
            )


_NEVER = float("inf")


def _said(record: RunRecord) -> dict[tuple[int, int], dict[str, float]]:
    """By ledger and entry: who said that it has it, and since when; recoveries read it, too."""
    found: dict[tuple[int, int], dict[str, float]] = {}

    def add(bookie: str, ledger_id: int, entry_id: int, at_ms: float) -> None:
        bookies = found.setdefault((ledger_id, entry_id), {})
        bookies[bookie] = min(at_ms, bookies.get(bookie, _NEVER))

    for (bookie, ledger_id, entry_id), (first_ms, _) in record.testimony.stored.items():
        add(bookie, ledger_id, entry_id, first_ms)
    for (bookie, ledger_id, entry_id), at_ms in record.testimony.copied.items():
        add(bookie, ledger_id, entry_id, at_ms)
    return found
