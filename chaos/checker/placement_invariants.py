"""Invariants of where the copies of a ledger are placed."""

from collections.abc import Iterator, Sequence
from itertools import combinations

from ...core.protocol.bookie_id import BookieId
from ...core.protocol.ledger_metadata import LedgerMetadata, LedgerState
from ...core.protocol.quorum import QuorumView
from .run_record import RunRecord, invariant

LEARNS_MS = 5_000
"""Time in which a writer that appends all the time meets a failure of the region."""

RETURNS_MS = 10_000
"""Time after which a machine that was down is used again; writers avoid it for less than that."""


@invariant("L25")
def writers_obey_the_spread_rule(record: RunRecord) -> Iterator[str]:
    """Each write set that a writer stored lies in as many regions as the ledger's rule says. A
    recovery may place copies without it."""
    for ledger_id, versions in record.ledgers.items():
        for version in versions:
            metadata = version.metadata
            if metadata is None or metadata.state is not LedgerState.OPEN:
                continue
            least = metadata.spread_rule().get("region", 0)
            fragment = metadata.last_fragment
            quorum = metadata.quorum_at(fragment.first_entry_id)
            for start in range(quorum.ensemble_size):
                members = [fragment.bookies[index] for index in quorum.write_set(start)]
                regions = {record.regions.get(bookie) for bookie in members} - {None}
                if len(regions) < least:
                    yield f"ledger {ledger_id}: {members} lie in {sorted(map(str, regions))}"
                    break


@invariant("L26")
def new_ledgers_avoid_regions_out_of_reach(record: RunRecord) -> Iterator[str]:
    """A writer that has not reached a region for ``LEARNS_MS`` places no new ledger there, if the
    other regions have a legal ensemble."""
    for ledger_id, versions in record.ledgers.items():
        metadata = versions[0].metadata
        if metadata is None:
            continue
        for cut in record.unreachable_regions:
            if not cut.from_ms + LEARNS_MS <= versions[0].at_ms <= cut.to_ms:
                continue
            used = [record.regions.get(bookie) for bookie in metadata.last_fragment.bookies]
            if cut.region in used and _is_legal_without(record, metadata, cut.region):
                yield (
                    f"ledger {ledger_id} was created at {versions[0].at_ms:.1f} ms in {used}, but "
                    f"its writer has not reached {cut.region} since {cut.from_ms:.1f} ms"
                )


@invariant("G53")
def writers_use_other_machines_while_there_are_any(record: RunRecord) -> Iterator[str]:
    """No bookie that a writer chose shares its machine with another one of a write set while the
    region has a machine in service of which the ensemble uses no bookie."""
    for ledger_id, versions in record.ledgers.items() if record.machines else ():
        before: tuple[BookieId, ...] = ()
        for version in versions:
            metadata = version.metadata
            if metadata is None or metadata.state is not LedgerState.OPEN:
                break
            members = metadata.last_fragment.bookies
            chosen = [bookie for bookie in members if bookie not in before]
            before = members
            for bookie in chosen:
                unused = _unused_machines(record, members, bookie, version.at_ms)
                if unused and _shares_its_machine(record, metadata, bookie):
                    yield (
                        f"ledger {ledger_id}: {bookie} was chosen at {version.at_ms:.1f} ms for "
                        f"{members}, but {sorted(unused)} had no copy"
                    )


def _shares_its_machine(record: RunRecord, metadata: LedgerMetadata, bookie: BookieId) -> bool:
    """Return whether another member of one of the bookie's write sets is on its machine."""
    fragment = metadata.last_fragment
    quorum = metadata.quorum_at(fragment.first_entry_id)
    for start in range(quorum.ensemble_size):
        members = [fragment.bookies[index] for index in quorum.write_set(start)]
        if bookie in members and any(
            record.machines[other] == record.machines[bookie]
            for other in members
            if other != bookie
        ):
            return True
    return False


def _unused_machines(
    record: RunRecord, members: Sequence[BookieId], bookie: BookieId, at_ms: float
) -> set[str]:
    """Return the machines in the bookie's region that were in service without being used."""
    near = {
        machine
        for other, machine in record.machines.items()
        if record.regions[other] == record.regions[bookie]
    }
    failed = {
        fault.machine
        for fault in record.machine_faults
        if fault.from_ms - LEARNS_MS <= at_ms <= fault.to_ms + RETURNS_MS
    }
    return near - failed - {record.machines[member] for member in members}


def _is_legal_without(record: RunRecord, metadata: LedgerMetadata, region: str) -> bool:
    """Return whether the bookies of the other regions contain a legal ensemble."""
    quorum = metadata.quorum_at(metadata.last_fragment.first_entry_id)
    others = [found for found in record.regions.values() if found != region]
    return any(
        QuorumView(quorum, list(chosen)).is_legal()
        for chosen in set(combinations(sorted(others), quorum.ensemble_size))
    )
