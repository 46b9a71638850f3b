"""Finds the names of former tips in the index of a namespace, after a tip was lost."""

from ...core.protocol.errors import CorruptionError, ForeignDataError
from ...core.runtime.cold_store import ColdStore
from ..archive.archive_folder import ArchiveFolder, TipName
from .index_keys import index_folder, parse_index
from .manifest_index import ManifestIndex


async def indexed_tips(cold: ColdStore, folder: ArchiveFolder) -> list[TipName]:
    """Return the names of former tips that the index, or a note of a change, has recorded.

    An index that cannot be used adds none, because readers do not need it. Raises the errors of
    the cold store.
    """
    listed = parse_index(folder.namespace, await cold.list(index_folder(folder.namespace)))
    noted = [one.tip for one in listed.changes.values() if one.folder == folder]
    try:
        index = await ManifestIndex(cold, folder.namespace).load()
        records = () if index is None else index.chains.get(folder, ())
        tips = [tip for tip in (one.tip() for one in records) if tip is not None]
    except (CorruptionError, ForeignDataError):
        return noted
    return [*noted, *(tip.name for tip in tips)]
