"""Invariants about the responses of bookies, over all responses of a run."""

from collections.abc import Iterator, Mapping

from ...core.protocol.ledger_metadata import LedgerState
from ...core.protocol.recovery import AnswerKind
from .history import TOKEN
from .ledger_invariants import acked_in, satisfies_p
from .run_record import Rules, RunRecord, invariant


@invariant("L9")
def nothing_is_added_behind_a_fence(record: RunRecord) -> Iterator[str]:
    """After its first response to a fencing read a bookie confirms no plain add of that ledger,
    even across restarts (rules BKE-10 and BKE-11)."""
    fences = record.observed.fences
    for (bookie, ledger_id, entry_id), (_, last_ms) in record.observed.stored.items():
        fenced_ms = fences.get((bookie, ledger_id))
        if fenced_ms is not None and last_ms > fenced_ms:
            yield (
                f"{bookie} confirmed an add of ledger {ledger_id} entry {entry_id} at "
                f"{last_ms:.1f} ms, but had fenced the ledger at {fenced_ms:.1f} ms"
            )


@invariant("L10")
def denied_entries_are_never_confirmed(record: RunRecord) -> Iterator[str]:
    """A bookie that answers a fencing read with "never had it" confirms no plain add of that entry,
    neither before nor after (rule BKE-2). Once the ledger is closed with an earlier last entry, or
    its metadata no longer names the bookie for the entry, the response decides nothing, and a
    bookie that lost the entry may give it (rule BKE-17)."""
    observed = record.observed
    for key, denied_ms in observed.denials.items():
        bookie, ledger_id, entry_id = key
        if key in observed.stored and not _is_closed_without(record, key, denied_ms):
            yield (
                f"{bookie} denied at {denied_ms:.1f} ms that it ever had ledger {ledger_id} entry "
                f"{entry_id}, but confirmed an add of it at {observed.stored[key][1]:.1f} ms"
            )


def _is_closed_without(record: RunRecord, key: tuple[str, int, int], at_ms: float) -> bool:
    bookie, ledger_id, entry_id = key
    earlier = [v.metadata for v in record.ledgers.get(ledger_id, ()) if v.at_ms <= at_ms]
    metadata = earlier[-1] if earlier else None
    if metadata is None or metadata.state is not LedgerState.CLOSED:
        return False
    is_beyond_end = entry_id > metadata.last_entry_id
    return is_beyond_end or bookie not in Rules(metadata).write_set(entry_id)


@invariant("L12")
def what_is_confirmed_is_durable(record: RunRecord) -> Iterator[str]:
    """When a bookie confirms an add, its records are durable on the disk (rule BKE-9)."""
    observed = record.observed
    for (bookie, ledger_id, entry_id), (first_ms, _) in observed.stored.items():
        if bookie in record.lost:
            continue
        for token in observed.tokens.get((ledger_id, entry_id), ()):
            durable_ms = observed.durable.get(token, {}).get(bookie)
            if durable_ms is None or durable_ms > first_ms:
                yield (
                    f"{bookie} confirmed ledger {ledger_id} entry {entry_id} at {first_ms:.1f} ms; "
                    f"durable: {durable_ms}"
                )
                break


@invariant("L13")
def readers_get_what_was_sent(record: RunRecord) -> Iterator[str]:
    """A record that a reader gets was sent to that entry of that ledger, and a recovery counts a
    denial only if the bookie sent one. A damaged copy is neither delivered nor taken as a
    denial."""
    yield from _misread(record)
    for evidence in record.evidence:
        if evidence.entry_id is None:
            continue  # L14 verifies which bookies were fenced
        for answer in evidence.answers:
            key = answer.bookie, evidence.ledger_id, evidence.entry_id
            if answer.kind is AnswerKind.NEVER and key not in record.observed.denials:
                yield (
                    f"a recovery of ledger {evidence.ledger_id} counted a denial of entry "
                    f"{evidence.entry_id} by {answer.bookie}, which it never sent"
                )


def _misread(record: RunRecord) -> Iterator[str]:
    known = record.observed.tokens
    for read in record.history.reads:
        for delivered in read.records:
            ledger_id = record.ledger_of(delivered.dlsn.lssn)
            tokens = (
                () if ledger_id is None else known.get((ledger_id, delivered.dlsn.entry_id), ())
            )
            found = TOKEN.match(delivered.payload)
            if tokens and found is not None and found.group() not in tokens:
                yield (
                    f"{read.reader} got {found.group()!r} at {delivered.dlsn}, which was not sent "
                    f"to ledger {ledger_id} entry {delivered.dlsn.entry_id}"
                )


@invariant("L18")
def confirmed_entries_are_kept(record: RunRecord) -> Iterator[str]:
    """After the run a bookie has every entry that it had confirmed by then, if a closed ledger's
    metadata names it for the entry. Neither garbage collection nor compaction drops it."""
    rules: dict[int, Rules] = {}
    excused = record.lost | record.unreachable | record.lying_bookies
    stored = ((key, first_ms) for key, (first_ms, _) in record.observed.stored.items())
    confirmed = (*stored, *record.observed.copied.items())
    until_ms = record.copies_read_ms
    for bookie, ledger_id, entry_id in dict.fromkeys(k for k, ms in confirmed if ms < until_ms):
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
            yield f"{bookie} confirmed ledger {ledger_id} entry {entry_id}, but no longer has it"


@invariant("L20")
def acks_count_only_named_bookies(record: RunRecord) -> Iterator[str]:
    """At the moment of an acknowledgement, bookies that the stored metadata names for the entry and
    that satisfy P have confirmed it. A response of a replaced bookie does not count."""
    if not record.observed.stored:
        return  # the run has no recorder of responses
    confirmations = record.observed.confirmations()
    rules: dict[tuple[int, int], Rules] = {}
    for append, ledger_id, entry_id in acked_in(record):
        assert append.ended_ms is not None
        versions = record.ledgers.get(ledger_id, [])
        index = sum(1 for version in versions if version.at_ms <= append.ended_ms) - 1
        metadata = versions[index].metadata if index >= 0 else None
        if metadata is None:
            continue
        known = rules.get((ledger_id, index))
        if known is None:
            known = rules[ledger_id, index] = Rules(metadata)
        since_ms = confirmations.get((ledger_id, entry_id), {})
        by_ms = append.ended_ms
        confirmed = {b for b in known.write_set(entry_id) if since_ms.get(b, _NEVER) <= by_ms}
        if not satisfies_p(known.quorum(entry_id), confirmed, record.regions):
            yield (
                f"{append}, ledger {ledger_id}, {known.quorum(entry_id)}: of "
                f"{list(known.write_set(entry_id))} only {sorted(confirmed)} had confirmed it"
            )


_NEVER = float("inf")


@invariant("L21")
def closed_entries_were_confirmed(record: RunRecord) -> Iterator[str]:
    """When a ledger is closed, bookies that the closing metadata names for each entry, and that
    satisfy P, have confirmed it: to the writer, or to the recovery that wrote it again. A response
    of a bookie that the recovery replaced does not count (rule REC-13). Bookies for which a
    rebuild of the metadata store kept the entry count as well (rules BAK-3 and BAK-4)."""
    if not record.observed.stored:
        return  # the run has no recorder of responses
    confirmations = record.observed.confirmations()
    for ledger_id, versions in record.ledgers.items():
        closing = next(
            (
                version
                for version in versions
                if version.metadata is not None and version.metadata.state is LedgerState.CLOSED
            ),
            None,
        )
        if closing is None or closing.metadata is None:
            continue
        rules = Rules(closing.metadata)
        for entry_id in range(closing.metadata.last_entry_id + 1):
            since_ms = confirmations.get((ledger_id, entry_id), {})
            named = rules.write_set(entry_id)
            confirmed = {b for b in named if since_ms.get(b, _NEVER) <= closing.at_ms}
            regions: Mapping[str, str] = record.regions
            if closing.at_ms >= record.rebuilt_at_ms:
                kept = record.kept_by_rebuild.get((ledger_id, entry_id), frozenset())
                regions = record.regions_seen_by_rebuild(kept)
                confirmed |= kept
            if not satisfies_p(rules.quorum(entry_id), confirmed, regions):
                yield (
                    f"ledger {ledger_id} was closed at {closing.metadata.last_entry_id} with "
                    f"{rules.quorum(entry_id)}, but of the bookies of entry {entry_id}, "
                    f"{list(named)}, only {sorted(confirmed)} had confirmed it"
                )


@invariant("L22")
def confirmed_entries_are_never_denied(record: RunRecord) -> Iterator[str]:
    """A bookie that confirmed an add never answers a plain read of the entry with "no such entry"
    while the stored metadata names the bookie for it. A bookie whose data is damaged or older than
    its confirmations answers "unknown" until it has the entry again (rules BKE-1, BKE-16 and
    BKE-17)."""
    rules: dict[tuple[int, int], Rules] = {}
    for (bookie, ledger_id, entry_id), times in record.observed.withdrawals.items():
        versions = record.ledgers.get(ledger_id, [])
        for at_ms in () if bookie in record.lying_bookies else times:
            index = sum(1 for version in versions if version.at_ms <= at_ms) - 1
            metadata = versions[index].metadata if index >= 0 else None
            if metadata is None:
                continue  # deleted
            if metadata.state is LedgerState.CLOSED and entry_id > metadata.last_entry_id:
                continue
            known = rules.get((ledger_id, index))
            if known is None:
                known = rules[ledger_id, index] = Rules(metadata)
            if bookie in known.write_set(entry_id):
                yield (
                    f"{bookie} denied at {at_ms:.1f} ms that it has ledger {ledger_id} entry "
                    f"{entry_id}, which it had confirmed"
                )
                break
