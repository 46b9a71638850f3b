"""A scope: the processes, entries and faults of one exhaustive exploration."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from ...core.protocol.bookie_id import BookieId, Region, mint_bookie_id
from ...core.protocol.ledger_metadata import DigestType, Fragment, LedgerMetadata
from ...core.protocol.quorum import Quorum
from ...core.wire.entry import EntryDigest, encode_entry
from .explorer import Explorer
from .global_state import Transitions
from .invariants import ScopeInvariants
from .local_states import LocalStates
from .nodes import ProcessNodes
from .processes.process import (
    LOSE_CONNECTION,
    STORE,
    ExploredProcess,
    Facts,
)
from .processes.programs import SteppedReader, SteppedRecovery, SteppedWriter, payload_of
from .processes.repair_process import SteppedRepair
from .processes.servers import SteppedBookie, StoreProcess

LEDGER = 7

Maker = Callable[[], ExploredProcess]


@dataclass(frozen=True, slots=True)
class Scope:
    """One scope. Bookies are named b0, b1, ... in the order of ``layout``."""

    name: str
    title: str
    """The behaviour of which every order is explored."""
    layout: str
    """The region of each bookie, one letter each; the first E bookies are the ensemble."""
    quorum: Quorum
    entries: int = 1
    recoveries: int = 1
    recovery_r: int = 0
    """R of the recoveries if it is not that of the ledger (0)."""
    reader_rounds: int = 0
    copies: tuple[int, ...] = ()
    """The number of entries that each bookie holds from a writer that is gone."""
    acked: int = 0
    """The number of entries that it had acknowledged."""
    other_r: int = 0
    """R that the writer changes to at any time (0: it does not)."""
    lac_sends: int = 0
    """The number of times that the writer sends its LAC without an entry, at any time."""
    closes: bool = False
    """True if the writer closes the ledger at any time."""
    syncs_at_once: bool = True
    """False if the sync of a bookie's log is an event of its own."""
    is_closed: bool = False
    """True if the ledger was closed behind the most entries that a bookie holds."""
    repairs: int = 0
    """The number of processes that repair the ledger."""
    lost: tuple[int, ...] = ()
    """The bookies that repair considers lost; they respond as long as no fault prevents it."""
    returned: tuple[int, ...] = ()
    """The bookies that were fenced, and have returned their copies (rule BKE-31)."""
    writer_bookies: tuple[int, ...] = ()
    """The ensemble that the writer knows, if the metadata were changed behind its back."""
    policy_r: int | None = None
    """R of the stream's policy, which repair works towards (None: the recorded one)."""
    faults: tuple[tuple[str, str], ...] = ()
    """(process, fault): each may happen once, at any time."""
    time_steps: int = 2
    """The number of times that time may pass in each client."""

    def bookies(self) -> list[BookieId]:
        """Return the ids of the bookies."""
        return [mint_bookie_id(f"b{index}", index) for index in range(len(self.layout))]

    def regions(self) -> dict[BookieId, Region]:
        """Return the region of each bookie."""
        return dict(zip(self.bookies(), map(Region, self.layout), strict=True))

    def metadata(self) -> LedgerMetadata:
        """Return the metadata of the ledger at the start."""
        metadata = self._open_metadata(self.bookies()[: self.quorum.ensemble_size])
        if not self.is_closed:
            return metadata
        last = max(self.copies) - 1
        return metadata.closed(last, sum(len(payload_of(n)) for n in range(last + 1)))

    def _writer_metadata(self) -> LedgerMetadata:
        """Return the metadata that the writer knows at the start."""
        if not self.writer_bookies:
            return self.metadata()
        return self._open_metadata([self.bookies()[index] for index in self.writer_bookies])

    def _open_metadata(self, bookies: list[BookieId]) -> LedgerMetadata:
        quorum = self.quorum
        metadata = LedgerMetadata(
            ledger_id=LEDGER,
            ensemble_size=quorum.ensemble_size,
            write_quorum=quorum.write_quorum,
            ack_quorum=quorum.ack_quorum,
            fragments=(Fragment(0, tuple(bookies)),),
            creation_token=1,
        )
        return metadata.with_r(0, quorum.min_regions) if quorum.min_regions > 1 else metadata

    def faults_of(self, name: str) -> tuple[str, ...]:
        """Return the faults of one process, which is named as in ``faults``."""
        return tuple(fault for process, fault in self.faults if process == name)

    def entries_of(self, index: int) -> tuple[bytes, ...]:
        """Return the entries that a bookie holds at the start."""
        count = self.copies[index] if index < len(self.copies) else 0
        digest = EntryDigest(DigestType.CRC32C, b"")
        found = []
        length = 0
        for entry_id in range(count):
            payload = payload_of(entry_id)
            length += len(payload)
            lac = min(entry_id, self.acked) - 1
            found.append(encode_entry(digest, LEDGER, entry_id, lac, length, payload))
        return tuple(found)

    def makers(self) -> dict[str, Maker]:
        """Return a function for each process that creates it."""
        regions, metadata = self.regions(), self.metadata()
        version = int(bool(self.writer_bookies))
        makers: dict[str, Maker] = {STORE: partial(StoreProcess, metadata, version)}
        for index, bookie in enumerate(self.bookies()):
            makers[bookie] = partial(
                SteppedBookie,
                bookie,
                introduced=metadata if index < self.quorum.ensemble_size else None,
                returned=metadata if index in self.returned else None,
                syncs_at_once=self.syncs_at_once,
                entries=self.entries_of(index),
                faults=self.faults_of(f"b{index}"),
            )
        if self.entries:
            makers["writer"] = partial(
                SteppedWriter,
                "writer",
                regions,
                self._writer_metadata(),
                entries=self.entries,
                other_r=self.other_r,
                lac_sends=self.lac_sends,
                closes=self.closes,
                faults=self.faults_of("writer"),
                time_steps=self.time_steps,
            )
        for number in range(1, self.recoveries + 1):
            name = f"recovery-{number}"
            makers[name] = partial(
                SteppedRecovery,
                name,
                regions,
                LEDGER,
                min_regions=self.recovery_r,
                faults=self.faults_of(name),
                time_steps=self.time_steps,
            )
        for number in range(1, self.repairs + 1):
            name = f"repair-{number}"
            makers[name] = partial(
                SteppedRepair,
                name,
                regions,
                LEDGER,
                lost=[self.bookies()[index] for index in self.lost],
                policy_r=self.policy_r,
                faults=self.faults_of(name),
                time_steps=self.time_steps,
            )
        if self.reader_rounds:
            makers["reader"] = partial(
                SteppedReader,
                "reader",
                regions,
                LEDGER,
                rounds=self.reader_rounds,
                faults=self.faults_of("reader"),
                time_steps=self.time_steps,
            )
        return makers

    def explorer(
        self,
        *,
        finals: Callable[[dict[str, Facts]], None] | None = None,
        is_reduced: bool = True,
        is_merging: bool = True,
    ) -> Explorer:
        """Return a new search of this scope, with both ways to reduce it unless told otherwise."""
        states = LocalStates(self.makers(), is_merging=is_merging)
        bookies = frozenset(states.index[bookie] for bookie in self.bookies())
        transitions = Transitions(ProcessNodes(states, bookies))
        invariants = ScopeInvariants(LEDGER, self.regions(), self.acked)
        return Explorer(states, transitions, invariants, finals=finals, is_reduced=is_reduced)


def lost_connection(process: str, bookie: int) -> tuple[str, str]:
    """Return the fault that a client loses its connection to a bookie."""
    return process, f"{LOSE_CONNECTION}{mint_bookie_id(f'b{bookie}', bookie)}"


R2_OF_THREE = Quorum(3, 3, 2, 2)
"""E/WQ/AQ/R of a ledger with three bookies, of which two in two regions must confirm an entry."""

R2_OF_TWO = Quorum(2, 2, 2, 2)
"""E/WQ/AQ/R of a ledger whose two bookies, in two regions, must both confirm an entry."""
