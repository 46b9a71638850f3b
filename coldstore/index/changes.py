"""Notes which chains have changed, so that readers do not rely on the index for them (rule ARC-45).

The note follows the change. A process that crashes between the two has not finished its work, and
the repetition of the work notes the change again.
"""

import secrets

from ...core.runtime.cold_store import ColdStore
from ..archive.archive_folder import ArchiveFolder, TipName
from ..stores.known_outcome import put_object
from .index_keys import ChainChange, change_key

_TOKEN_BYTES = 8


async def note_change(cold: ColdStore, folder: ArchiveFolder, tip: TipName) -> None:
    """Note that the tip of a chain now has these numbers. Safe to repeat.

    ``advance_tip`` calls it, so whoever changes a chain with it need not.
    """
    await put_object(cold, change_key(ChainChange(folder, tip, "")), b"")


async def note_rewrite(cold: ColdStore, folder: ArchiveFolder, tip: TipName) -> None:
    """Note that manifests of a chain were replaced by others with the same links.

    Call it after the new manifests exist and before anything that they no longer name is deleted.
    Until the index has the new ones, readers read all manifests of the chain.
    """
    await put_object(
        cold, change_key(ChainChange(folder, tip, secrets.token_hex(_TOKEN_BYTES))), b""
    )
