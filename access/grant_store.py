"""The grants of a cluster in its metadata store: one value, changed by compare-and-set."""

from collections.abc import Callable

from ..core.metadata import idempotent_writes
from ..core.metadata.cluster_layout import ROOT, Paths
from ..core.protocol.errors import BadVersionError, MetadataUnavailableError, NodeExistsError
from ..core.runtime.metadata_store import MetadataReads, MetadataStore
from ..security.grant_table import GrantTable, decode_grants

_ATTEMPTS = 16


async def read_grants(store: MetadataReads, root: str = ROOT) -> GrantTable:
    """Return the grants by a linearizable read; an empty table if there was never one.

    Raises MetadataUnavailableError, CorruptionError, ForeignDataError.
    """
    value = await idempotent_writes.read_if_exists(store, Paths(root).grants)
    return GrantTable() if value is None else decode_grants(value.data)


async def change_grants(
    store: MetadataStore, change: Callable[[GrantTable], GrantTable], root: str = ROOT
) -> GrantTable:
    """Change the grants, and return the new table. ``change`` may be called several times.

    Raises MetadataUnavailableError, IndeterminateError, CorruptionError, LimitExceededError.
    """
    path = Paths(root).grants
    for _ in range(_ATTEMPTS):
        value = await idempotent_writes.read_if_exists(store, path)
        before = GrantTable() if value is None else decode_grants(value.data)
        after = change(before)
        if after.grants == before.grants:
            return before
        try:
            if value is None:
                await idempotent_writes.create(store, path, after.encode())
            else:
                await idempotent_writes.put(store, path, after.encode(), value.version)
        except (BadVersionError, NodeExistsError):
            continue
        return after
    raise MetadataUnavailableError(f"{path} changed during {_ATTEMPTS} attempts")
