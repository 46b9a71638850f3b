"""Notes which chains have changed, so that readers do not rely on the index for them (rule ARC-45).

The note follows the change. A process that crashes between the two has not finished its work, and
the repetition of the work notes the change again.
"""

import secrets

from ...core.runtime.cold_store import ColdStore
from ...core.runtime.tasks import for_each
from ..archive.archive_folder import ArchiveFolder, TipName
from ..stores.known_outcome import put_object
from .index_keys import ChainChange, change_keys

_TOKEN_BYTES = 8


async def note_change(cold: ColdStore, folder: ArchiveFolder, tip: TipName) -> None:
    """Note that the tip of a chain now has these numbers. Safe to repeat.

    ``advance_tip`` calls it, so whoever changes a chain with it need not.
    """
    await _note(cold, ChainChange(folder, tip, ""))


async def note_rewrite(cold: ColdStore, folder: ArchiveFolder, tip: TipName) -> None:
    """Note that manifests of a chain were replaced by others with the same links.

    Call it after the new manifests exist and before anything that they no longer name is deleted.
    Until the index has the new ones, readers read all manifests of the chain.
    """
    await _note(cold, ChainChange(folder, tip, secrets.token_hex(_TOKEN_BYTES)))


async def _note(cold: ColdStore, change: ChainChange) -> None:
    async def put(key: str) -> None:
        await put_object(cold, key, b"")

    keys = change_keys(change)
    await for_each(keys, put, len(keys))
