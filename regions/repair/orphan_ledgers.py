"""Removes ledgers that were made for a segment and that no segment will ever name."""

from ...core.ledger.client import LedgerClient
from ...core.log.metadata.ledger_references import Reference, reference_of
from ...core.log.write.segment_chain import STREAM_KEY
from ...core.protocol.errors import MetadataError, NoSuchLedgerError, RhumblineError
from ...core.protocol.ledger_metadata import NO_ENTRY, LedgerMetadata
from ...core.runtime.metadata_store import MetadataStore

_ASKED_A_LOOK_MAX = 512
"""Ledgers whose segments are asked for in one look: each costs two round trips, and none is urgent.
"""
_NAMED_MAX = 200_000
"""Ledgers that are remembered as named by a segment; above it all are asked for again."""


class OrphanLedgers:
    """What an auditor does about them. Whoever might still publish such a ledger is left alone."""

    def __init__(self, store: MetadataStore, client: LedgerClient) -> None:
        self.removed_count = 0
        self._store = store
        self._client = client
        self._named: dict[int, None] = {}
        self._asked = 0

    def begin_look(self) -> None:
        """All ledgers are about to be looked at."""
        self._asked = 0

    async def remove(self, metadata: LedgerMetadata) -> bool:
        """Deletes the ledger if it is nobody's and, once closed, empty. A repeat is safe.

        An entry in it would mean that its stream's metadata was lost: then it is closed and stays,
        for whoever rebuilds the stream. Raises MetadataUnavailableError.
        """
        ledger_id = metadata.ledger_id
        is_asked_for = (
            metadata.last_entry_id == NO_ENTRY
            and STREAM_KEY in metadata.custom
            and ledger_id not in self._named
        )
        if not is_asked_for or self._asked >= _ASKED_A_LOOK_MAX:
            return False
        self._asked += 1
        reference = await reference_of(self._store, metadata)
        if reference is Reference.SEGMENT:
            if len(self._named) >= _NAMED_MAX:
                self._named.clear()
            self._named[ledger_id] = None
        if reference is not Reference.NOBODY:
            return False
        try:
            if (await self._client.recover(ledger_id)).last_entry_id != NO_ENTRY:
                return False
            await self._client.delete(ledger_id)
        except NoSuchLedgerError:
            return True
        except MetadataError:
            raise
        except RhumblineError:
            return False  # its bookies are away: the next look comes
        self.removed_count += 1
        return True
