"""Ledgers whose ids are chosen by the test."""

from rhumbline.core.metadata.cluster_layout import ROOT
from rhumbline.core.metadata.ledger_store import LedgerNumber, LedgerStore
from rhumbline.core.protocol.ledger_metadata import LedgerMetadata
from rhumbline.core.runtime.metadata_store import MetadataStore, Version


async def number(store: MetadataStore, ledger_id: int) -> LedgerNumber:
    """Reserve ``ledger_id`` as if the store had generated it."""
    path, _ = await store.create(f"{ROOT}/idgen/ID-{ledger_id:010d}")
    return LedgerNumber(ledger_id, path)


async def create(store: MetadataStore, metadata: LedgerMetadata) -> Version:
    """Create the ledger."""
    return await LedgerStore(store).create(metadata, await number(store, metadata.ledger_id))
