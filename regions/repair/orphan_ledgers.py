"""Removes empty ledgers that were created for a segment and that no segment will name (RPR-16)."""

from ...core.ledger.client import LedgerClient
from ...core.log.metadata.ledger_references import LedgerReference, reference_of
from ...core.protocol.errors import MetadataError, NoSuchLedgerError, RhumblineError
from ...core.protocol.ledger_metadata import NO_ENTRY, STREAM_KEY, LedgerMetadata
from ...core.runtime.metadata_store import MetadataStore

_LOOKUPS_PER_AUDIT_MAX = 512
"""Maximum number of ledgers per audit whose segment is looked up: each costs two round trips, and
none is urgent."""
_REFERENCED_MAX = 200_000
"""Maximum number of ledgers remembered as named by a segment; beyond it all are looked up again."""


class OrphanLedgers:
    """Finds and deletes orphan ledgers. A ledger that a writer might still publish is left
    alone."""

    def __init__(self, store: MetadataStore, client: LedgerClient) -> None:
        self.removed_count = 0
        self._store = store
        self._client = client
        self._referenced: dict[int, None] = {}
        self._lookup_count = 0

    def begin_audit(self) -> None:
        """Reset the limit of lookups per audit."""
        self._lookup_count = 0

    async def remove(self, metadata: LedgerMetadata) -> bool:
        """Delete the ledger if no segment will name it and it is empty once closed. Safe to repeat.

        Returns whether it is deleted. An entry in it would mean that the metadata of its stream was
        lost; then the ledger is closed and kept, so that the stream can be rebuilt. Raises
        MetadataUnavailableError.
        """
        ledger_id = metadata.ledger_id
        is_possible_orphan = (
            metadata.last_entry_id == NO_ENTRY
            and STREAM_KEY in metadata.custom
            and ledger_id not in self._referenced
        )
        if not is_possible_orphan or self._lookup_count >= _LOOKUPS_PER_AUDIT_MAX:
            return False
        self._lookup_count += 1
        reference = await reference_of(self._store, metadata)
        if reference is LedgerReference.REFERENCED:
            if len(self._referenced) >= _REFERENCED_MAX:
                self._referenced.clear()
            self._referenced[ledger_id] = None
        if reference is not LedgerReference.UNREFERENCED:
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
            return False  # its bookies are unavailable; the next audit retries
        self.removed_count += 1
        return True
