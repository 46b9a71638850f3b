"""Invariants of ledgers: fixed ends, copies on the bookies in the metadata, P at every ack."""

from collections.abc import Iterator, Mapping
from itertools import pairwise

from ...core.protocol.ledger_metadata import LedgerMetadata, LedgerState
from ...core.protocol.quorum import Quorum, QuorumView
from ...core.protocol.recovery import AnswerKind, Evidence, Verdict
from .history import AppendOutcome, RecordedAppend
from .run_record import CompareAndSet, Rules, RunRecord, invariant


def satisfies_p(quorum: Quorum, bookies: set[str], regions: Mapping[str, str]) -> bool:
    """Return whether these bookies satisfy P: at least AQ of them, in at least R regions."""
    found = {regions[bookie] for bookie in bookies}
    return len(bookies) >= quorum.ack_quorum and len(found) >= quorum.min_regions


def acked_in(record: RunRecord) -> Iterator[tuple[RecordedAppend, int, int]]:
    """Yield (append, ledger id, entry id) of each acknowledged append."""
    for append in record.history.appends_with_outcome(AppendOutcome.OK):
        assert append.dlsn is not None
        ledger_id = record.ledger_of(append.dlsn.lssn)
        if ledger_id is not None:
            yield append, ledger_id, append.dlsn.entry_id


@invariant("L1")
def closed_ends_are_above_what_was_acknowledged(record: RunRecord) -> Iterator[str]:
    """No acknowledged entry lies beyond the end of a closed ledger."""
    for append, ledger_id, entry_id in acked_in(record):
        metadata = record.last_version(ledger_id)
        if metadata is None:
            if append.dlsn is not None and not record.is_removed(append.dlsn):
                yield f"{append}: its ledger {ledger_id} was deleted"
        elif metadata.state is LedgerState.CLOSED and entry_id > metadata.last_entry_id:
            yield f"{append} is beyond the end {metadata.last_entry_id} of ledger {ledger_id}"


@invariant("L2")
def a_closed_end_never_moves(record: RunRecord) -> Iterator[str]:
    """The end and the length of a closed ledger never change (rule LED-2)."""
    for ledger_id, versions in record.ledgers.items():
        ends = {
            (version.metadata.last_entry_id, version.metadata.length)
            for version in versions
            if version.metadata is not None and version.metadata.state is LedgerState.CLOSED
        }
        if len(ends) > 1:
            yield f"ledger {ledger_id} was closed at {sorted(ends)}"


@invariant("L3")
def closed_ledgers_have_their_copies(record: RunRecord) -> Iterator[str]:
    """Every entry of a closed ledger has valid copies on bookies that satisfy P. Bookies whose data
    a fault destroyed, or that could not be reached, count as if they had a copy. So do those for
    which a rebuild of the metadata store kept the entry, and lost ones that it replaced (rules
    BAK-3 and BAK-4)."""
    for ledger_id, copies in record.copies.items():
        metadata = record.last_version(ledger_id)
        if metadata is None or metadata.state is not LedgerState.CLOSED:
            continue
        rules = Rules(metadata)
        for entry_id in range(metadata.last_entry_id + 1):
            members = set(rules.write_set(entry_id))
            excused = members & (record.lost | record.unreachable)
            kept = record.kept_by_rebuild.get((ledger_id, entry_id), frozenset())
            excused |= kept
            holders = {bookie for bookie in members if (entry_id, bookie) in copies}
            regions = record.regions_seen_by_rebuild(kept)
            if not satisfies_p(rules.quorum(entry_id), holders | excused, regions):
                yield (
                    f"ledger {ledger_id} entry {entry_id}: {sorted(holders)} of {sorted(members)} "
                    f"have it, and {sorted(excused)} are excused"
                )


@invariant("L5")
def fragments_are_well_formed(record: RunRecord) -> Iterator[str]:
    """Fragments start at ascending entry ids from 0, each has E distinct bookies; none of a closed
    ledger starts beyond its end + 1."""
    for ledger_id, versions in record.ledgers.items():
        for version in versions:
            metadata = version.metadata
            if metadata is None:
                continue
            keys = [fragment.first_entry_id for fragment in metadata.fragments]
            if keys[0] != 0 or any(a >= b for a, b in pairwise(keys)):
                yield f"ledger {ledger_id}: fragments start at {keys}"
            for fragment in metadata.fragments:
                if len(set(fragment.bookies)) != metadata.ensemble_size:
                    yield f"ledger {ledger_id}: ensemble {fragment.bookies}"
            is_closed = metadata.state is LedgerState.CLOSED
            if is_closed and keys[-1] > metadata.last_entry_id + 1:
                yield f"ledger {ledger_id} ends at {metadata.last_entry_id}, fragments at {keys}"


_NEXT = {
    LedgerState.OPEN: {LedgerState.OPEN, LedgerState.IN_RECOVERY, LedgerState.CLOSED},
    LedgerState.IN_RECOVERY: {LedgerState.IN_RECOVERY, LedgerState.CLOSED},
    LedgerState.CLOSED: {LedgerState.CLOSED},
}


@invariant("L6")
def ledger_states_only_go_forward(record: RunRecord) -> Iterator[str]:
    """A ledger goes from OPEN to CLOSED, directly or through IN_RECOVERY, and never back. E, WQ, AQ
    and the starts of fragments below the last one never change. Only a rebuild may lose fragments,
    namely those that no copy of the metadata had."""
    for ledger_id, versions in record.ledgers.items():
        for (before_ms, before), (after_ms, after) in pairwise(versions):
            if before is None:
                if after is not None:
                    yield f"ledger {ledger_id} came back after it was deleted"
                continue
            if after is None:
                continue
            if after.state not in _NEXT[before.state]:
                yield f"ledger {ledger_id} went from {before.state.name} to {after.state.name}"
            lost = _lost_fragments(before, after)
            if before_ms < record.rebuilt_at_ms <= after_ms:
                lost = [start for start in lost if (ledger_id, start) in record.copied_fragments]
            if lost:
                yield f"ledger {ledger_id} lost the fragments that began at {lost}"
            if (before.ensemble_size, before.write_quorum, before.ack_quorum) != (
                after.ensemble_size,
                after.write_quorum,
                after.ack_quorum,
            ):
                yield f"ledger {ledger_id} changed its quorum"


def _lost_fragments(before: LedgerMetadata, after: LedgerMetadata) -> list[int]:
    kept = {fragment.first_entry_id for fragment in after.fragments}
    starts = [fragment.first_entry_id for fragment in before.fragments[:-1]]
    if after.state is LedgerState.CLOSED:
        starts = [start for start in starts if start <= after.last_entry_id]
    return [start for start in starts if start not in kept]


@invariant("L15")
def recoveries_store_no_ensemble_before_the_end(record: RunRecord) -> Iterator[str]:
    """While a ledger is in recovery its last fragment does not change."""
    for ledger_id, versions in record.ledgers.items():
        for before, after in pairwise(v.metadata for v in versions):
            if before is None or after is None or after.state is not LedgerState.IN_RECOVERY:
                continue
            if before.last_fragment != after.last_fragment:
                yield f"ledger {ledger_id}: {before.last_fragment} became {after.last_fragment}"


@invariant("L7")
def acknowledgements_come_in_order(record: RunRecord) -> Iterator[str]:
    """A session receives the outcomes of its appends in the order of their positions."""
    by_session: dict[int, list[RecordedAppend]] = {}
    for append in record.history.appends_with_outcome(AppendOutcome.OK):
        if append.has_own_outcome:
            by_session.setdefault(append.session, []).append(append)
    for appends in by_session.values():
        # The order of appends that end at the same instant is not observable.
        appends.sort(key=lambda append: (append.ended_ms or 0.0, append.dlsn))
        for before, after in pairwise(appends):
            assert before.dlsn is not None and after.dlsn is not None
            if before.dlsn > after.dlsn:
                yield f"{after} was acknowledged after {before}"


@invariant("L8")
def nothing_is_read_before_it_is_confirmed(record: RunRecord) -> Iterator[str]:
    """A record that a reader gets was sent before, and is not beyond the end of a closed ledger."""
    for read in record.history.reads:
        for delivered in read.records:
            append = record.history.sender_of(delivered.payload)
            if append is not None and delivered.at_ms < append.called_ms:
                yield f"{read.reader} got {append} before it was called"
            ledger_id = record.ledger_of(delivered.dlsn.lssn)
            metadata = None if ledger_id is None else record.last_version(ledger_id)
            if metadata is None or metadata.state is not LedgerState.CLOSED:
                continue
            if delivered.dlsn.entry_id > metadata.last_entry_id:
                yield (
                    f"{read.reader} got {delivered.dlsn}, beyond the end {metadata.last_entry_id} "
                    f"of ledger {ledger_id}"
                )


@invariant("L11")
def copies_of_an_entry_are_equal(record: RunRecord) -> Iterator[str]:
    """All copies of an entry of a closed ledger have one payload and one length."""
    for ledger_id, copies in record.copies.items():
        metadata = record.last_version(ledger_id)
        if metadata is None or metadata.state is not LedgerState.CLOSED:
            continue
        first: dict[int, tuple[str, int, bytes]] = {}
        for (entry_id, bookie), copy in copies.items():
            if entry_id > metadata.last_entry_id:
                continue
            seen = first.setdefault(entry_id, (bookie, copy.length, copy.payload))
            if seen[1:] != (copy.length, copy.payload):
                yield f"ledger {ledger_id} entry {entry_id} differs at {seen[0]} and {bookie}"


@invariant("L14")
def recoveries_decide_on_enough_evidence(record: RunRecord) -> Iterator[str]:
    """Each decision of a recovery follows from its evidence: answers of bookies that the stored
    metadata names, never of an ensemble that the recovery chose itself (rule REC-3)."""
    for evidence in record.evidence:
        error = _error_in(evidence, record)
        if error:
            what = "fencing" if evidence.entry_id is None else f"entry {evidence.entry_id}"
            yield f"ledger {evidence.ledger_id}, {what}: {evidence.verdict.value}, but {error}"


def _misplaced(evidence: Evidence) -> str | None:
    for answer in evidence.answers:
        if evidence.fragment.bookies[answer.index] != answer.bookie:
            return f"{answer.bookie} is not at index {answer.index}"
    return None


def _error_in(evidence: Evidence, record: RunRecord) -> str | None:
    answers, fragment, entry_id = evidence.answers, evidence.fragment, evidence.entry_id
    misplaced = _misplaced(evidence)
    if misplaced:
        return misplaced
    snapshot = _snapshot(evidence, record)
    if snapshot is None:
        return f"stored metadata never named {fragment}"
    regions = [record.regions.get(bookie) for bookie in fragment.bookies]
    fenced = sum(1 << answer.index for answer in answers if answer.kind is not AnswerKind.UNKNOWN)
    never = sum(1 << answer.index for answer in answers if answer.kind is AnswerKind.NEVER)
    first = fragment.first_entry_id if entry_id is None else entry_id
    if evidence.verdict is Verdict.COMPLETE:
        lacs = [answer.lac for answer in answers if answer.kind is not AnswerKind.UNKNOWN]
        confirmed = max([fragment.first_entry_id - 1, *lacs])
        if evidence.lac != confirmed:
            return f"it starts behind {evidence.lac}, but {confirmed} is confirmed: {answers}"
        later = [start for start, _ in snapshot.r_ranges() if start > first]
        for start in (first, *later):
            view = QuorumView(snapshot.quorum_at(start), regions)
            if not view.is_fencing_complete(fenced):
                return f"the unfenced could acknowledge {start}: {answers}"
    if evidence.verdict is Verdict.ABSENT:
        assert entry_id is not None
        view = QuorumView(snapshot.quorum_at(entry_id), regions)
        if not view.is_absent(entry_id, never):
            return f"it may have been acknowledged: {answers}"
        return _unfenced(evidence, record)
    is_found = any(answer.kind is AnswerKind.HAVE for answer in answers)
    if evidence.verdict is Verdict.RECOVER and not is_found:
        return f"no bookie had it: {answers}"
    return None


def _unfenced(evidence: Evidence, record: RunRecord) -> str | None:
    for answer in evidence.answers:
        key = (answer.bookie, evidence.ledger_id)
        if answer.kind is AnswerKind.NEVER and key not in record.observed.fences:
            return f"{answer.bookie} was never fenced, so its denial does not count"
    return None


def _snapshot(evidence: Evidence, record: RunRecord) -> LedgerMetadata | None:
    """Return the stored metadata that the recovery used: IN_RECOVERY, with the same fragment."""
    for version in record.ledgers.get(evidence.ledger_id, ()):
        metadata = version.metadata
        if metadata is None or metadata.state is not LedgerState.IN_RECOVERY:
            continue
        if evidence.entry_id is None:
            found = metadata.last_fragment
        else:
            found = metadata.fragment_of(evidence.entry_id)
        if found == evidence.fragment:
            return metadata
    return None


@invariant("V1")
def recoveries_decide_as_soon_as_possible(record: RunRecord) -> Iterator[str]:
    """No decision of a recovery was possible before the last answer that it waited for (rule
    REC-9)."""
    for evidence in record.evidence:
        earlier = evidence.answers[:-1]
        regions = [record.regions.get(bookie) for bookie in evidence.fragment.bookies]
        views = [QuorumView(quorum, regions) for quorum in evidence.quorums]
        said = {answer.kind for answer in earlier}
        fenced = sum(
            1 << answer.index for answer in earlier if answer.kind is not AnswerKind.UNKNOWN
        )
        never = sum(1 << answer.index for answer in earlier if answer.kind is AnswerKind.NEVER)
        if evidence.entry_id is None:
            is_late = all(view.is_fencing_complete(fenced) for view in views)
        else:
            is_absent = views[0].is_absent(evidence.entry_id, never)
            is_late = AnswerKind.HAVE in said or is_absent
        if is_late:
            what = "fencing" if evidence.entry_id is None else f"entry {evidence.entry_id}"
            yield f"ledger {evidence.ledger_id}, {what} was decided before {evidence.answers[-1]}"


@invariant("V9")
def bookies_serve_again(record: RunRecord) -> Iterator[str]:
    """After the faults every bookie can be reached, unless a fault destroyed its data."""
    for bookie in sorted(record.unreachable - record.lost):
        yield f"{bookie} does not answer"


@invariant("L17")
def lengths_add_up(record: RunRecord) -> Iterator[str]:
    """The length of a closed ledger is the sum of its entries' payloads."""
    for ledger_id, copies in record.copies.items():
        metadata = record.last_version(ledger_id)
        if metadata is None or metadata.state is not LedgerState.CLOSED:
            continue
        sizes = {entry_id: len(copy.payload) for (entry_id, _), copy in copies.items()}
        wanted = range(metadata.last_entry_id + 1)
        if all(entry_id in sizes for entry_id in wanted):
            total = sum(sizes[entry_id] for entry_id in wanted)
            if total != metadata.length:
                yield f"ledger {ledger_id} has {total} bytes, but its length is {metadata.length}"


def _believed(record: RunRecord, ledger_id: int, entry_id: int, by_ms: float) -> set[str]:
    """Return the bookies with lying disks that had confirmed the entry; they count as holders."""
    observed, never = record.observed, float("inf")
    found: set[str] = set()
    for bookie in record.lying_bookies:
        key = bookie, ledger_id, entry_id
        first_ms, _ = observed.stored.get(key, (never, never))
        if min(first_ms, observed.copied.get(key, never)) <= by_ms:
            found.add(bookie)
    return found


@invariant("R1")
def an_ack_means_enough_regions(record: RunRecord) -> Iterator[str]:
    """At the moment of an acknowledgement the entry is durable on AQ bookies in R regions that the
    stored metadata names for it. The regions reported to the caller all hold it."""
    rules: dict[tuple[int, int], Rules] = {}
    for append, ledger_id, entry_id in acked_in(record):
        assert append.ended_ms is not None
        holders = set(append.holders)
        holders |= _believed(record, ledger_id, entry_id, append.ended_ms)
        versions = record.ledgers.get(ledger_id, [])
        index = sum(1 for version in versions if version.at_ms <= append.ended_ms) - 1
        metadata = versions[index].metadata if index >= 0 else None
        if metadata is None:
            assert append.dlsn is not None
            if not record.is_removed(append.dlsn, append.ended_ms):  # a resend may return it later
                yield f"{append}: its ledger {ledger_id} did not exist"
            continue
        known = rules.get((ledger_id, index))
        if known is None:
            known = rules[ledger_id, index] = Rules(metadata)
        named = set(known.write_set(entry_id))
        reported = set(append.regions) if append.has_own_outcome else set()
        if not reported <= {record.regions[bookie] for bookie in holders}:
            yield f"{append} was reported in {sorted(reported)}, but is at {sorted(holders)}"
        if not satisfies_p(known.quorum(entry_id), named & holders, record.regions):
            yield (
                f"{append}, ledger {ledger_id}, {known.quorum(entry_id)}: durable only at "
                f"{sorted(holders)}, metadata names {sorted(named)}"
            )


def _is_of_a_recovery(swap: CompareAndSet, record: RunRecord) -> bool:
    """Return whether a recovery sent it: a writer closes a ledger before any recovery began."""
    if swap.proposed is not LedgerState.CLOSED:
        return swap.proposed is LedgerState.IN_RECOVERY
    return any(
        version.metadata is not None
        and version.metadata.state is LedgerState.IN_RECOVERY
        and version.at_ms <= swap.sent_ms
        for version in record.ledgers.get(swap.ledger_id, ())
    )


@invariant("L16")
def one_change_at_a_time(record: RunRecord) -> Iterator[str]:
    """A process has at most one compare-and-set of an open ledger in progress, and the versions
    that it replaces never go back (rule LED-12)."""
    before: dict[tuple[str, int], CompareAndSet] = {}
    for swap in sorted(record.compare_and_sets, key=lambda swap: swap.sent_ms):
        if _is_of_a_recovery(swap, record):
            continue  # a recovery of the same process is another handle
        key = swap.client, swap.ledger_id
        last = before.get(key)
        before[key] = swap
        if last is None:
            continue
        if swap.sent_ms < last.ended_ms:
            yield (
                f"{swap.client} changes ledger {swap.ledger_id} at {swap.sent_ms:.1f} ms, but its "
                f"change of {last.sent_ms:.1f} ms has no answer until {last.ended_ms:.1f} ms"
            )
        if swap.expect < last.expect:
            yield (
                f"{swap.client} replaces version {swap.expect} of ledger {swap.ledger_id}, "
                f"but had already replaced {last.expect}"
            )
