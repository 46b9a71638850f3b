"""The invariants of a scope (docs/protocol/invariants.md), checked after each event.

They depend only on the facts that the processes report. The search tries every order of the events
that change a fact, so no violation is missed because orders were left out.
"""

from collections.abc import Iterator, Mapping, Sequence

from ...core.protocol.bookie_id import BookieId, Region
from ...core.protocol.ledger_metadata import LedgerMetadata, LedgerState
from ...core.wire.ledger_metadata import decode
from ..checker.ledger_invariants import satisfies_p
from .processes.process import Facts
from .processes.programs import payload_of


class ScopeInvariants:
    """Checks the facts of the processes of one scope.

    ``regions`` gives the region of each bookie. ``acked_before`` is the number of entries that a
    writer which is gone had acknowledged.
    """

    def __init__(
        self, ledger_id: int, regions: Mapping[BookieId, Region], acked_before: int
    ) -> None:
        self._ledger_id = ledger_id
        self._gone = Facts(acked=tuple(range(acked_before)))
        self._regions = {str(bookie): str(region) for bookie, region in regions.items()}
        self._decoded: dict[bytes, LedgerMetadata] = {}

    def violations(self, facts: Mapping[str, Facts]) -> Iterator[str]:
        """Yield each violated invariant as ``id: text``."""
        facts = {**facts, "the former writer": self._gone}
        for found in facts.values():
            yield from found.violations
        metadata = self._metadata(facts["store"].metadata)
        copies = {name: facts[name].stored for name in self._regions}
        for name, found in facts.items():
            for entry_id in found.acked:
                yield from self._lost(metadata, copies, entry_id, f"R1: for {name}")
            for entry_id, payload in found.read:
                if payload != payload_of(entry_id):
                    yield f"L11: {name} read {payload!r} as entry {entry_id}"
        yield from _differing(copies)
        if metadata.state is LedgerState.CLOSED:
            yield from self._of_closed(metadata, facts, copies)
        yield from _ends(list(facts.values()), metadata)

    def _metadata(self, data: bytes) -> LedgerMetadata:
        found = self._decoded.get(data)
        if found is None:
            found = self._decoded[data] = decode(self._ledger_id, data)
        return found

    def _of_closed(
        self,
        metadata: LedgerMetadata,
        facts: Mapping[str, Facts],
        copies: Mapping[str, Mapping[int, bytes]],
    ) -> Iterator[str]:
        last = metadata.last_entry_id
        for name, found in facts.items():
            for entry_id in found.acked:
                if entry_id > last:
                    yield f"L1: {name} acknowledged entry {entry_id}; the ledger ends at {last}"
            if found.lac > last or any(entry_id > last for entry_id, _ in found.read):
                yield f"L8: {name} saw entry {found.lac}; the ledger ends at {last}"
        for entry_id in range(last + 1):
            yield from self._lost(metadata, copies, entry_id, "L3: in the closed ledger")
        length = sum(len(payload_of(entry_id)) for entry_id in range(last + 1))
        if metadata.length != length:
            yield f"L17: the length is {metadata.length}, not {length}"

    def _lost(
        self,
        metadata: LedgerMetadata,
        copies: Mapping[str, Mapping[int, bytes]],
        entry_id: int,
        reason: str,
    ) -> Iterator[str]:
        """Yield a violation unless the recorded members of the entry hold it as P requires."""
        quorum = metadata.quorum_at(entry_id)
        bookies = metadata.fragment_of(entry_id).bookies
        holders = {
            str(bookies[index])
            for index in quorum.write_set(entry_id)
            if entry_id in copies[str(bookies[index])]
        }
        if not satisfies_p(quorum, holders, self._regions):
            yield (
                f"{reason} entry {entry_id} is durable, but of {', '.join(bookies)} only "
                f"{', '.join(sorted(holders)) or 'none'} hold it ({quorum})"
            )


def _differing(copies: Mapping[str, Mapping[int, bytes]]) -> Iterator[str]:
    """Yield entries whose copies have other payloads than the writer sent."""
    for bookie, entries in copies.items():
        for entry_id, entry in entries.items():
            if not entry.endswith(payload_of(entry_id)):
                yield f"L11: {bookie} holds {entry[-20:]!r} as entry {entry_id}"


def _ends(facts: Sequence[Facts], metadata: LedgerMetadata) -> Iterator[str]:
    """Yield ends that were returned and differ from the recorded one."""
    recorded = metadata.last_entry_id, metadata.length
    for found in facts:
        for end in found.ends:
            if metadata.state is not LedgerState.CLOSED or end != recorded:
                yield f"L2: one process was told that the ledger ends at {end}, not {recorded}"
