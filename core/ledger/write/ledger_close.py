"""Closes a ledger that we wrote (protocol rule 1.5)."""

import asyncio
from typing import TYPE_CHECKING

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
from ..context import Backoff, LedgerContext

if TYPE_CHECKING:
    from .ledger_writer import LedgerWriter


class Closing:
    """Of one writer that has failed or been told to close: once at a time."""

    def __init__(self, writer: "LedgerWriter") -> None:
        self._writer = writer
        self._turn = asyncio.Lock()

    async def run(self) -> LedgerMetadata:
        """Closes the writer's ledger where it ended. See ``LedgerWriter.close``."""
        writer = self._writer
        assert writer.failure is not None
        async with self._turn:
            await self._wait_for_changes()
            writer.metadata, writer.version = await close_ledger(
                writer.context,
                writer.metadata,
                writer.version,
                end=(writer.last_add_confirmed, writer.length),
                may_write=not isinstance(writer.failure, OwnershipLostError),
            )
        return writer.metadata

    async def _wait_for_changes(self) -> None:
        writer = self._writer
        try:
            async with asyncio.timeout(writer.context.config.metadata_timeout_ms / 1000):
                await writer.changer.wait_idle()
        except TimeoutError:
            raise MetadataUnavailableError(
                f"ledger {writer.ledger_id}: a change of its ensemble is still under way"
            ) from None


async def close_ledger(
    context: LedgerContext,
    mine: LedgerMetadata,
    version: Version,
    *,
    end: tuple[int, int],
    may_write: bool,
) -> tuple[LedgerMetadata, Version]:
    """CLOSED at ``end`` (last entry, length); nothing above it was or will be confirmed.

    ``may_write``: we still own the ledger; otherwise it is only looked at (bug B23). A ledger in
    recovery is closed at our end if its fragments are still ours: that is a legal outcome of the
    recovery, which then takes it over. Raises as ``LedgerWriter.close``.
    """
    if mine.state is LedgerState.CLOSED:
        return mine, version
    backoff = Backoff(context, context.config.metadata_timeout_ms)
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
                return _accept(stored, end), stored_version
            if not may_write or not _is_ours(stored, mine, last_entry_id=end[0]):
                raise LedgerFencedError(f"ledger {mine.ledger_id} is being recovered by another")
            mine, version = stored, stored_version
        except (UnavailableError, IndeterminateError):
            if backoff.is_over:
                raise
        await backoff.pause()


def _is_ours(stored: LedgerMetadata, mine: LedgerMetadata, *, last_entry_id: int) -> bool:
    if stored.state is LedgerState.IN_RECOVERY:
        return stored.last_fragment == mine.last_fragment
    # Open: at most a change of our own, whose outcome we never learned, was added. All that it
    # could record for other bookies lies behind our end.
    return stored.last_fragment.first_entry_id <= last_entry_id + 1


def _accept(stored: LedgerMetadata, end: tuple[int, int]) -> LedgerMetadata:
    if (stored.last_entry_id, stored.length) != end:
        raise LedgerClosedError(
            f"ledger {stored.ledger_id} was closed by another at entry {stored.last_entry_id}, "
            f"not at {end[0]}"
        )
    return stored
