"""Invariants of where the copies of a ledger are placed."""

from collections.abc import Iterator

from ...core.protocol.ledger_metadata import LedgerState
from .run_record import RunRecord, invariant


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
