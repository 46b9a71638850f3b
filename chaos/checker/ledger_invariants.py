"""What ledgers promise: ends that never move, copies where metadata says, P at every ack."""

from collections.abc import Iterator
from itertools import pairwise

from ...core.protocol.ledger_metadata import LedgerMetadata, LedgerState
from ...core.protocol.quorum import Quorum, QuorumView
from ...core.protocol.recovery import AnswerKind, Evidence, Verdict
from .history import TOKEN, AppendOutcome, RecordedAppend
from .run_record import Rules, RunRecord, Swap, invariant


def satisfies_p(quorum: Quorum, bookies: set[str], regions: dict[str, str]) -> bool:
    """Whether copies at these bookies are AQ, and in R regions."""
    found = {regions[bookie] for bookie in bookies}
    return len(bookies) >= quorum.ack_quorum and len(found) >= quorum.min_regions


def acked_in(record: RunRecord) -> Iterator[tuple[RecordedAppend, int, int]]:
    """(append, ledger id, entry id) of each acknowledged append."""
    for append in record.history.of_outcome(AppendOutcome.OK):
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
            if append.dlsn is not None and not record.is_gone(append.dlsn):
                yield f"{append}: its ledger {ledger_id} is gone"
        elif metadata.state is LedgerState.CLOSED and entry_id > metadata.last_entry_id:
            yield f"{append} is beyond the end {metadata.last_entry_id} of ledger {ledger_id}"


@invariant("L2")
def a_closed_end_never_moves(record: RunRecord) -> Iterator[str]:
    """CLOSED is written once: neither the end nor the length changes afterwards."""
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
    """Every entry of a closed ledger has valid copies on bookies that satisfy P; those that a fault
    destroyed, or that could not be asked, count as if they had it."""
    for ledger_id, copies in record.copies.items():
        metadata = record.last_version(ledger_id)
        if metadata is None or metadata.state is not LedgerState.CLOSED:
            continue
        rules = Rules(metadata)
        for entry_id in range(metadata.last_entry_id + 1):
            members = set(rules.write_set(entry_id))
            excused = members & (record.lost | record.unasked)
            holders = {bookie for bookie in members if (entry_id, bookie) in copies}
            if not satisfies_p(rules.quorum(entry_id), holders | excused, record.regions):
                yield (
                    f"ledger {ledger_id} entry {entry_id}: {sorted(holders)} of {sorted(members)} "
                    f"have it, and {sorted(excused)} are excused"
                )


@invariant("L5")
def fragments_are_well_formed(record: RunRecord) -> Iterator[str]:
    """Keys rise from 0, E distinct bookies each; a closed ledger has none beyond its end + 1."""
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
    """OPEN, then perhaps IN_RECOVERY, then CLOSED; E, WQ and AQ never change, nor where a fragment
    below the last one begins."""
    for ledger_id, versions in record.ledgers.items():
        for before, after in pairwise(v.metadata for v in versions):
            if before is None:
                if after is not None:
                    yield f"ledger {ledger_id} came back after it was deleted"
                continue
            if after is None:
                continue
            if after.state not in _NEXT[before.state]:
                yield f"ledger {ledger_id} went from {before.state.name} to {after.state.name}"
            lost = _lost_fragments(before, after)
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
def recoveries_store_nothing_before_the_end(record: RunRecord) -> Iterator[str]:
    """While a ledger is in recovery its last fragment does not change."""
    for ledger_id, versions in record.ledgers.items():
        for before, after in pairwise(v.metadata for v in versions):
            if before is None or after is None or after.state is not LedgerState.IN_RECOVERY:
                continue
            if before.last_fragment != after.last_fragment:
                yield f"ledger {ledger_id}: {before.last_fragment} became {after.last_fragment}"


@invariant("L7")
def acknowledgements_come_in_order(record: RunRecord) -> Iterator[str]:
    """A session hears of its appends in the order of their positions."""
    by_session: dict[int, list[RecordedAppend]] = {}
    for append in record.history.of_outcome(AppendOutcome.OK):
        if append.is_alone:
            by_session.setdefault(append.session, []).append(append)
    for appends in by_session.values():
        # What ends at one instant is heard of in an order that says nothing.
        appends.sort(key=lambda append: (append.ended_ms or 0.0, append.dlsn))
        for before, after in pairwise(appends):
            assert before.dlsn is not None and after.dlsn is not None
            if before.dlsn > after.dlsn:
                yield f"{after} was acknowledged after {before}"


@invariant("L8")
def nothing_is_read_before_it_is_confirmed(record: RunRecord) -> Iterator[str]:
    """What a reader gets was sent before, and lies at or below the end of a closed ledger."""
    for read in record.history.reads:
        for one in read.records:
            token = TOKEN.match(one.payload)
            append = record.history.appends.get(token.group()) if token else None
            if append is not None and one.at_ms < append.called_ms:
                yield f"{read.reader} got {append} before it was called"
            ledger_id = record.ledger_of(one.dlsn.lssn)
            metadata = None if ledger_id is None else record.last_version(ledger_id)
            if metadata is None or metadata.state is not LedgerState.CLOSED:
                continue
            if one.dlsn.entry_id > metadata.last_entry_id:
                yield (
                    f"{read.reader} got {one.dlsn}, beyond the end {metadata.last_entry_id} "
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
    """Each decision of a recovery follows from the answers that it was made from, of the bookies
    that stored metadata named (never of an ensemble that the recovery made up)."""
    for evidence in record.evidence:
        fault = _fault_of(evidence, record)
        if fault:
            what = "fencing" if evidence.entry_id is None else f"entry {evidence.entry_id}"
            yield f"ledger {evidence.ledger_id}, {what}: {evidence.verdict.value}, but {fault}"


def _misplaced(evidence: Evidence) -> str | None:
    for answer in evidence.answers:
        if evidence.fragment.bookies[answer.index] != answer.bookie:
            return f"{answer.bookie} is not at index {answer.index}"
    return None


def _fault_of(evidence: Evidence, record: RunRecord) -> str | None:
    answers, fragment, entry_id = evidence.answers, evidence.fragment, evidence.entry_id
    fault = _misplaced(evidence)
    if fault:
        return fault
    snapshot = _snapshot(evidence, record)
    if snapshot is None:
        return f"stored metadata never named {fragment}"
    regions = [record.regions.get(bookie) for bookie in fragment.bookies]
    fenced = sum(1 << answer.index for answer in answers if answer.said is not AnswerKind.UNKNOWN)
    never = sum(1 << answer.index for answer in answers if answer.said is AnswerKind.NEVER)
    first = fragment.first_entry_id if entry_id is None else entry_id
    if evidence.verdict is Verdict.COMPLETE:
        told = [answer.lac for answer in answers if answer.said is not AnswerKind.UNKNOWN]
        confirmed = max([fragment.first_entry_id - 1, *told])
        if evidence.lac != confirmed:
            return f"it begins behind {evidence.lac}, and {confirmed} is confirmed: {answers}"
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
    is_found = any(answer.said is AnswerKind.HAVE for answer in answers)
    if evidence.verdict is Verdict.RECOVER and not is_found:
        return f"nobody had it: {answers}"
    return None


def _unfenced(evidence: Evidence, record: RunRecord) -> str | None:
    for answer in evidence.answers:
        place = (answer.bookie, evidence.ledger_id)
        if answer.said is AnswerKind.NEVER and place not in record.testimony.fences:
            return f"{answer.bookie} was never fenced, so its word counts for nothing"
    return None


def _snapshot(evidence: Evidence, record: RunRecord) -> LedgerMetadata | None:
    """The stored metadata that the recovery read from: in recovery, with that very fragment."""
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
def recoveries_wait_for_nobody(record: RunRecord) -> Iterator[str]:
    """No decision of a recovery was possible before the last answer that it waited for."""
    for evidence in record.evidence:
        earlier = evidence.answers[:-1]
        regions = [record.regions.get(bookie) for bookie in evidence.fragment.bookies]
        views = [QuorumView(quorum, regions) for quorum in evidence.quorums]
        said = {answer.said for answer in earlier}
        fenced = sum(
            1 << answer.index for answer in earlier if answer.said is not AnswerKind.UNKNOWN
        )
        never = sum(1 << answer.index for answer in earlier if answer.said is AnswerKind.NEVER)
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
    """After the faults every bookie can be asked, unless a fault destroyed what it had."""
    for bookie in sorted(record.unasked - record.lost):
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
                yield f"ledger {ledger_id} has {total} bytes and says {metadata.length}"


def _believed(record: RunRecord, ledger_id: int, entry_id: int, by_ms: float) -> set[str]:
    """Bookies with lying disks that had confirmed the entry: nobody could know better."""
    testimony, never = record.testimony, float("inf")
    found: set[str] = set()
    for bookie in record.liars:
        place = bookie, ledger_id, entry_id
        first_ms, _ = testimony.stored.get(place, (never, never))
        if min(first_ms, testimony.copied.get(place, never)) <= by_ms:
            found.add(bookie)
    return found


@invariant("R1")
def an_ack_means_enough_regions(record: RunRecord) -> Iterator[str]:
    """At the moment of an acknowledgement, disks of bookies that the stored metadata names for the
    entry held it for good, AQ of them and in R regions (also L4); its caller was told no others."""
    rules: dict[tuple[int, int], Rules] = {}
    for append, ledger_id, entry_id in acked_in(record):
        assert append.ended_ms is not None
        holders = set(append.holders)
        holders |= _believed(record, ledger_id, entry_id, append.ended_ms)
        versions = record.ledgers.get(ledger_id, [])
        place = sum(1 for version in versions if version.at_ms <= append.ended_ms) - 1
        metadata = versions[place].metadata if place >= 0 else None
        if metadata is None:
            assert append.dlsn is not None
            if not record.is_gone(append.dlsn, append.ended_ms):  # or it was told of an old one
                yield f"{append}: its ledger {ledger_id} did not exist"
            continue
        known = rules.get((ledger_id, place))
        if known is None:
            known = rules[ledger_id, place] = Rules(metadata)
        named = set(known.write_set(entry_id))
        told = set(append.regions) if append.is_alone else set()
        if not told <= {record.regions[bookie] for bookie in holders}:
            yield f"{append} was told to be in {sorted(told)}, and is at {sorted(holders)}"
        if not satisfies_p(known.quorum(entry_id), named & holders, record.regions):
            yield (
                f"{append}, ledger {ledger_id}, {known.quorum(entry_id)}: on disk for good only "
                f"at {sorted(holders)}, metadata names {sorted(named)}"
            )


@invariant("L16")
def one_change_at_a_time(record: RunRecord) -> Iterator[str]:
    """A process has at most one compare-and-set of an open ledger on its way, and the versions that
    it replaces never go back: what a handle installs only rises."""
    before: dict[tuple[str, int], Swap] = {}
    for swap in sorted(record.swaps, key=lambda one: one.sent_ms):
        if swap.proposed is not LedgerState.OPEN:
            continue  # a recovery of the same process is another handle
        place = swap.client, swap.ledger_id
        last = before.get(place)
        before[place] = swap
        if last is None:
            continue
        if swap.sent_ms < last.ended_ms:
            yield (
                f"{swap.client} changes ledger {swap.ledger_id} at {swap.sent_ms:.1f} ms, and its "
                f"change of {last.sent_ms:.1f} ms has no answer until {last.ended_ms:.1f} ms"
            )
        if swap.expect < last.expect:
            yield (
                f"{swap.client} replaces version {swap.expect} of ledger {swap.ledger_id}, "
                f"and had replaced {last.expect}"
            )
