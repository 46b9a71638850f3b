"""Closes a ledger by its own writer (rules LED-19, LED-20)."""

import asyncio

from ...protocol.errors import (
    BadVersionError,
    IndeterminateError,
    LedgerClosedError,
    LedgerFencedError,
    MetadataUnavailableError,
    OwnershipLostError,
    UnavailableError,
)
from ...protocol.ledger_metadata import LedgerMetadata, LedgerState
from ...runtime.metadata_store import Version
from ..context import LedgerContext
from .ensemble_changer import EnsembleChanger
from .writer_life import WriterLife
from .writer_state import WriterState


class LedgerCloser:
    """Closes the ledger of one writer that has failed or been told to close.

    Concurrent calls run one after the other.
    """

    def __init__(self, state: WriterState, changer: EnsembleChanger) -> None:
        self._state = state
        self._changer = changer
        self._lock = asyncio.Lock()

    async def close(self) -> LedgerMetadata:
        """Closes the ledger at its LAC. See ``LedgerWriter.close``."""
        state = self._state
        assert state.failure is not None
        async with self._lock:
            await self._wait_for_changes()
            if state.machine.state is not WriterLife.CLOSED:
                await self._record_end()
        return state.metadata

    async def _record_end(self) -> None:
        state = self._state
        state.begin_close()
        is_recorded = False
        try:
            stored, version = await close_ledger(
                state.context,
                state.metadata,
                state.version,
                end=(state.last_add_confirmed, state.length),
                may_write=not isinstance(state.failure, OwnershipLostError),
            )
            is_recorded = True
        finally:
            if not is_recorded:
                state.interrupt_close()
        state.end_close(stored, version)

    async def _wait_for_changes(self) -> None:
        state = self._state
        try:
            async with asyncio.timeout(state.context.config.metadata_timeout_ms / 1000):
                await self._changer.wait_idle()
        except TimeoutError:
            raise MetadataUnavailableError(
                f"ledger {state.ledger_id}: a change of its ensemble is still under way"
            ) from None


async def close_ledger(
    context: LedgerContext,
    mine: LedgerMetadata,
    version: Version,
    *,
    end: tuple[int, int],
    may_write: bool,
) -> tuple[LedgerMetadata, Version]:
    """Records CLOSED at ``end`` (last entry id, length) and returns what is stored.

    Nothing above ``end`` was confirmed or ever will be. ``mine`` is the metadata that the writer
    knows. If not ``may_write``, the writer has lost the ledger and only reads (bug B23). A ledger
    in recovery is closed at ``end`` if its last fragment is still the writer's: that is a legal
    outcome of the recovery, which then adopts it. Raises like ``LedgerWriter.close``.
    """
    backoff = context.backoff(context.config.metadata_timeout_ms)
    while True:
        try:
            if may_write:
                closed = mine.closed(*end)
                try:
                    return closed, await context.ledgers.write(closed, version)
                except BadVersionError:
                    pass
            stored, stored_version = await context.ledgers.read(mine.ledger_id)
            if stored.state is LedgerState.CLOSED:
                return _check_end(stored, end), stored_version
            if not may_write or not _is_ours(stored, mine, last_entry_id=end[0]):
                raise LedgerFencedError(
                    f"ledger {mine.ledger_id} is being recovered by another client"
                )
            mine, version = stored, stored_version
        except (UnavailableError, IndeterminateError):
            if backoff.is_over:
                raise
        await backoff.pause()


def _is_ours(stored: LedgerMetadata, mine: LedgerMetadata, *, last_entry_id: int) -> bool:
    if stored.state is LedgerState.IN_RECOVERY:
        return stored.last_fragment == mine.last_fragment
    # Open: it differs at most by an ensemble change of this writer whose outcome stayed unknown.
    # Such a change affects only entries above the end.
    return stored.last_fragment.first_entry_id <= last_entry_id + 1


def _check_end(stored: LedgerMetadata, end: tuple[int, int]) -> LedgerMetadata:
    if (stored.last_entry_id, stored.length) != end:
        raise LedgerClosedError(
            f"ledger {stored.ledger_id} was closed by another at entry {stored.last_entry_id}, "
            f"not at {end[0]}"
        )
    return stored
