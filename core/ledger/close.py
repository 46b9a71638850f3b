"""Closes a ledger that we wrote (protocol rule 1.5)."""

from ..protocol.errors import (
    BadVersionError,
    IndeterminateError,
    LedgerClosedError,
    LedgerFencedError,
    UnavailableError,
)
from ..protocol.ledger_metadata import LedgerMetadata, LedgerState
from ..runtime.metadata_store import Version
from .context import Backoff, LedgerContext


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
