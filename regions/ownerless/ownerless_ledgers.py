"""Ends open ledgers whose writer is gone; safe even if the writer is only suspended (RPR-22).

1. A roll is requested. A writer that is alive moves on by itself, or answers why it cannot.
2. If the writer shows no activity for the grace time, its stream is taken over as by a new
   writer (STR-3): claim, which fails if another writer has claimed the stream meanwhile, fence,
   recover, complete. A writer that wakes up later finds itself fenced.

Nothing depends on the grace time being right: a takeover is safe beside a live writer too, which
would only lose its stream.
"""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import NamedTuple

from ...core.ledger.client import LedgerClient
from ...core.log.metadata.ledger_policies import LedgerPolicies, stream_of_ledger
from ...core.log.metadata.stream_metadata import StreamHead
from ...core.log.metadata.stream_store import StreamStore
from ...core.log.namespace import Namespace
from ...core.metadata.ledger_store import LedgerStore
from ...core.protocol.bookie_id import BookieId
from ...core.protocol.errors import (
    InvalidArgumentError,
    NoSuchLedgerError,
    NoSuchNamespaceError,
    NoSuchStreamError,
    ProtocolError,
    RecoveryIncompleteError,
    StreamLostError,
    UnavailableError,
)
from ...core.protocol.ledger_metadata import LedgerMetadata, LedgerState
from ...core.protocol.quorum import QuorumView
from ...core.runtime.event_log import EventLog
from ...core.runtime.metadata_store import MetadataStore, Version
from ...core.runtime.runtime import Runtime
from ...core.runtime.tasks import run_all
from ..repair.errors import RepairStuckError, WaitingForWriterError
from ..repair.liveness import Liveness, Standing
from ..steered_directory import SteeredDirectory
from .roll_requests import RollRequest, RollRequests
from .writer_watch import WriterSigns, WriterWatch

_LOG = EventLog(__name__)


class Takeover(NamedTuple):
    """The decision to take a stream over from a writer that is gone. Loop times in seconds."""

    ledger_id: int
    silent_since: float
    """The end of the first observation after which there was no activity."""
    observed_at: float
    """The beginning of the last observation."""


def _ignore(_: Takeover) -> None:
    pass


class OwnerlessLedgers:
    """Ends the open ledgers of one metadata store, for all workers of a process."""

    def __init__(
        self,
        runtime: Runtime,
        store: MetadataStore,
        client: LedgerClient,
        directory: SteeredDirectory,
        open_namespace: Callable[[str], Namespace],
        grace_ms: int,
        on_takeover: Callable[[Takeover], None] = _ignore,
    ) -> None:
        self.ended_count = 0
        """Number of ledgers whose writer was found to be gone."""
        self._clock = runtime.clock
        self._store = store
        self._client = client
        self._directory = directory
        self._open_namespace = open_namespace
        self._grace_ms = grace_ms
        self._on_takeover = on_takeover
        self._ledgers = LedgerStore(store)
        self._requests = RollRequests(store)
        self._watch = WriterWatch(grace_ms)
        self._loop = asyncio.get_running_loop()

    async def end_leaving(
        self, metadata: LedgerMetadata, version: Version, liveness: Liveness
    ) -> None:
        """End an open ledger whose last fragment has lost or leaving members (RPR-15).

        Raises like ``end``.
        """
        for bookie in metadata.last_fragment.bookies:
            standing = liveness.standing(bookie, await self._directory.region_of(bookie))
            if standing in (Standing.LEAVING, Standing.LOST):
                why = f"ledger {metadata.ledger_id} is open, and {bookie} is {standing.value}"
                await self.end(metadata, version, why)
                return

    async def end(self, metadata: LedgerMetadata, version: Version, why: str) -> LedgerMetadata:
        """End an open ledger if its writer is gone, and return its closed metadata. Safe to repeat.

        The caller repeats the call until the ledger is closed, by its writer or by this. Raises
        WaitingForWriterError while the writer may be alive, RepairStuckError if that cannot be
        decided or the end of the ledger cannot be proven, NoSuchLedgerError, and what the metadata
        store raises.
        """
        ledger_id = metadata.ledger_id
        request = await self._requests.add(ledger_id, why, self._clock.wall_ms())
        observed_at = self._loop.time()
        signs = await self._read_signs(metadata, version, request)
        left_ms = self._watch.observe(ledger_id, signs, self._loop.time())
        if left_ms:
            raise WaitingForWriterError(self._describe(metadata, why, request, left_ms), left_ms)
        since = self._watch.silent_since(ledger_id)
        self._on_takeover(Takeover(ledger_id, since, observed_at))
        stream = stream_of_ledger(metadata)
        _LOG.warning(
            "writer presumed dead",
            ledger=ledger_id,
            namespace=stream and stream[0],
            stream=stream and stream[1],
            grace_ms=self._grace_ms,
        )
        try:
            await self._take_over(metadata, signs.head)
        except StreamLostError as error:
            message = f"the stream of ledger {ledger_id} has a new writer: {error}"
            raise WaitingForWriterError(message, self._grace_ms) from error
        except RecoveryIncompleteError as error:
            raise RepairStuckError(
                f"ledger {ledger_id} has no writer, and its end cannot be proven: {error}; if "
                "these bookies are lost for good: stream recover --at-provable-end"
            ) from error
        self._watch.forget(ledger_id)
        self.ended_count += 1
        await self._requests.withdraw(ledger_id)
        return (await self._ledgers.read(ledger_id))[0]

    async def withdraw_done(self) -> None:
        """Remove the requests for ledgers that are closed or deleted. Safe to repeat.

        Raises MetadataUnavailableError, CorruptionError.
        """
        for ledger_id in await self._requests.ledger_ids():
            try:
                metadata, _ = await self._ledgers.read(ledger_id)
            except NoSuchLedgerError:
                pass
            else:
                if metadata.state is not LedgerState.CLOSED:
                    continue
            self._watch.forget(ledger_id)
            await self._requests.withdraw(ledger_id)

    # --- activity ------------------------------------------------------------------------------

    async def _read_signs(
        self, metadata: LedgerMetadata, version: Version, request: RollRequest
    ) -> WriterSigns:
        """Read everything that a live writer changes.

        Raises RepairStuckError if the bookies that do not respond could acknowledge entries.
        """
        fragment = metadata.last_fragment
        regions = [await self._directory.region_of(bookie) for bookie in fragment.bookies]
        reads = [partial(self._highest, bookie, metadata.ledger_id) for bookie in fragment.bookies]
        found = await run_all([read() for read in reads], "list entries of an open ledger")
        responded = sum(1 << index for index, highest in enumerate(found) if highest is not None)
        view = QuorumView(metadata.quorum_at(fragment.first_entry_id), regions)
        if not view.is_fencing_complete(responded):
            silent = [b for b, last in zip(fragment.bookies, found, strict=True) if last is None]
            raise RepairStuckError(
                f"ledger {metadata.ledger_id} is open, and whether its writer is alive cannot be "
                f"decided: {', '.join(silent)} do not respond"
            )
        highest = {b: n for b, n in zip(fragment.bookies, found, strict=True) if n is not None}
        return WriterSigns(await self._head_of(metadata), version, request.answers, highest)

    async def _highest(self, bookie: BookieId, ledger_id: int) -> int | None:
        """Return the highest entry id that the bookie has, -1 without one; None: no response."""
        try:
            return (await self._client.copies.list_entries(bookie, ledger_id)).last
        except (UnavailableError, ProtocolError):
            return None

    async def _head_of(self, metadata: LedgerMetadata) -> StreamHead | None:
        stream = stream_of_ledger(metadata)
        if stream is None:
            return None
        try:
            return (await StreamStore(self._store, stream[0]).head(stream[1]))[0]
        except (NoSuchStreamError, InvalidArgumentError):
            return None

    def _describe(
        self, metadata: LedgerMetadata, why: str, request: RollRequest, left_ms: int
    ) -> str:
        stream = stream_of_ledger(metadata)
        whose = "its writer" if stream is None else f"the writer of {'/'.join(stream)}"
        if request.answer:
            return f"{why}; {whose} is alive: {request.answer}"
        return (
            f"{why}; {whose} was asked to move on, and is taken over if it shows no activity "
            f"for another {-(-left_ms // 1000)} s"
        )

    # --- taking over ----------------------------------------------------------------------------

    async def _take_over(self, metadata: LedgerMetadata, head: StreamHead | None) -> None:
        """Take the stream over, and close a ledger that none of its segments in progress names.

        Such a ledger was made for a segment that was not published. Its writer cannot publish it
        any more, because it lost its claim.
        """
        stream = stream_of_ledger(metadata)
        if stream is not None and head is not None and not head.is_deleting:
            with suppress(NoSuchStreamError, NoSuchNamespaceError):  # then only the ledger is left
                await self._open_namespace(stream[0]).take_over(stream[1], expect=head)
        wanted_r = await LedgerPolicies(self._store).r_of(metadata)
        await self._client.recover(metadata.ledger_id, metadata.password, min_regions=wanted_r)
