"""The quotas of a cluster in its metadata store: one record, changed by compare-and-set."""

from collections.abc import Callable

from ...core.metadata import idempotent_writes
from ...core.metadata.cluster_layout import ROOT
from ...core.metadata.feature_level_store import require_feature_level
from ...core.protocol.errors import (
    BadVersionError,
    MetadataUnavailableError,
    NodeExistsError,
)
from ...core.runtime.metadata_store import MetadataStore, Watch
from ...security.quotas import (
    NO_QUOTAS,
    QuotaTable,
    decode_quotas,
    encode_quotas,
    level_of,
)

PATH = f"{ROOT}/rhumbline/quotas"
_ATTEMPTS = 16


class QuotaStore:
    """The quotas in one metadata store."""

    def __init__(self, store: MetadataStore) -> None:
        self._store = store

    async def read(self) -> QuotaTable:
        """Return all quotas.

        Raises MetadataUnavailableError, CorruptionError, ForeignDataError.
        """
        value = await idempotent_writes.read_if_exists(self._store, PATH)
        return NO_QUOTAS if value is None else decode_quotas(value.data)

    async def change(self, change: Callable[[QuotaTable], QuotaTable]) -> QuotaTable:
        """Apply ``change`` to the quotas, store the result, and return it.

        ``change`` may be called several times. Raises what it raises, and
        FeatureLevelError for limits above the level of the cluster, MetadataUnavailableError,
        IndeterminateError, CorruptionError, ForeignDataError.
        """
        for _ in range(_ATTEMPTS):
            value = await idempotent_writes.read_if_exists(self._store, PATH)
            before = NO_QUOTAS if value is None else decode_quotas(value.data)
            after = change(before)
            if after == before:
                return after
            if (level := level_of(after)) > 1:
                what = "quotas of connections and stored bytes"
                await require_feature_level(self._store, level, what)
            try:
                if value is None:
                    await idempotent_writes.create(self._store, PATH, encode_quotas(after))
                else:
                    data = encode_quotas(after)
                    await idempotent_writes.put(self._store, PATH, data, value.version)
            except (BadVersionError, NodeExistsError):
                continue
            return after
        raise MetadataUnavailableError(f"{PATH} changed during {_ATTEMPTS} attempts")

    def watch(self, callback: Callable[[], None]) -> Watch:
        """Call ``callback`` when the quotas may have changed, until the watch is closed."""
        return self._store.watch(PATH, callback)
