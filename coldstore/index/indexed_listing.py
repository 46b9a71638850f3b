"""Lists archives like ``scan_manifests``, but takes manifests from the index where it has them."""

from collections.abc import Mapping

from ...core.protocol.errors import CorruptionError, ForeignDataError
from ...core.runtime.cold_store import ColdStore
from ..archive.archive_folder import ArchiveFolder
from ..archive.catalog import ListedChain, ManifestListing, scan_manifests
from ..archive.manifest import Manifest
from .index_keys import INDEXES
from .manifest_index import IndexedNamespace, ManifestIndex
from .merge import joined


async def indexed_listing(cold: ColdStore, prefix: str = "") -> ManifestListing:
    """Return the manifests below ``prefix``, sorted.

    The objects are listed, and those that the index of their namespace lacks, or of which it has
    another tip, are read. Damage to an object whose copy is in the index is not noticed, because
    the object is not read; a missing one is. Raises the errors of the cold store.
    """
    namespaces = await _indexed_namespaces(cold, prefix.partition("/")[0])

    def known(folder: ArchiveFolder, listed: ListedChain) -> ListedChain:
        namespace = namespaces.get(folder.namespace)
        return listed if namespace is None else _with_copies(namespace, folder, listed)

    return await scan_manifests(cold, prefix, known=known)


async def _indexed_namespaces(cold: ColdStore, namespace: str) -> Mapping[str, IndexedNamespace]:
    """Return the usable index of the namespace, or of all namespaces if it is empty."""
    keys = [] if namespace else await cold.list(INDEXES)
    names = {namespace} if namespace else {key.split("/")[1] for key in keys}
    found = {}
    for name in sorted(names):
        try:
            indexed = await ManifestIndex(cold, name).load()
        except (CorruptionError, ForeignDataError):
            continue  # verify reports it
        if indexed is not None:
            found[name] = indexed
    return found


def _with_copies(
    namespace: IndexedNamespace, folder: ArchiveFolder, listed: ListedChain
) -> ListedChain:
    records, changes = namespace.chains.get(folder), namespace.changes.get(folder, ())
    if not records or any(one.token for one in changes):
        return listed
    try:
        record = joined(records)
    except (CorruptionError, ForeignDataError):
        return listed
    erasure = 0 if record.tip is None else record.tip.erasure
    if any(one.erasure > erasure for one in listed.tips):
        return listed
    tip = record.tip if record.tip is not None and listed.tips == [record.tip.name] else None
    held: dict[int, Manifest] = {
        lssn: record.manifests[lssn] for lssn in listed.lssns if lssn in record.manifests
    }
    return listed._replace(manifests=held, tip=tip)
