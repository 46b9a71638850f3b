"""The bytes that namespaces store: summed from ledger metadata, and published as one record.

The auditor reads all ledgers anyway. It counts the payload bytes of closed ledgers, of one copy
each; the length of a ledger that is being written is not known to the metadata. Proxies read the
record to enforce quotas (rule SEC-31), so that none of them has to list streams.
"""

from collections import Counter
from collections.abc import Mapping

from ...core.metadata import idempotent_writes
from ...core.metadata.cluster_layout import ROOT
from ...core.protocol.errors import BadVersionError, CorruptionError, NodeExistsError
from ...core.protocol.ledger_metadata import NAMESPACE_KEY, LedgerMetadata, LedgerState
from ...core.protocol.metadata_record import decode_metadata_record, encode_metadata_record
from ...core.runtime.metadata_store import MetadataReads, MetadataStore

PATH = f"{ROOT}/rhumbline/stored-bytes"
NAMESPACES_MAX = 5_000
"""Namespaces in the record; those that store the most."""
_FORMAT = 1


class StoredBytes:
    """The sums of one audit."""

    def __init__(self) -> None:
        self._sums: Counter[str] = Counter()

    def note(self, metadata: LedgerMetadata) -> None:
        """Count a ledger, if its length is known."""
        namespace = metadata.custom.get(NAMESPACE_KEY)
        if namespace is not None and metadata.state is LedgerState.CLOSED and metadata.length:
            self._sums[namespace.decode("utf-8", "replace")] += metadata.length

    def largest(self) -> dict[str, int]:
        """Return the bytes by namespace, of those that store the most."""
        return dict(self._sums.most_common(NAMESPACES_MAX))


async def publish(store: MetadataStore, found: Mapping[str, int]) -> None:
    """Store the result of an audit, if it differs from the last one.

    If another auditor publishes at the same time, one of the results remains. Raises
    MetadataUnavailableError, IndeterminateError.
    """
    data = encode_metadata_record(_FORMAT, {"namespaces": dict(sorted(found.items()))})
    value = await idempotent_writes.read_if_exists(store, PATH)
    try:
        if value is None:
            if found:
                await idempotent_writes.create(store, PATH, data)
        elif value.data != data:
            await idempotent_writes.put(store, PATH, data, value.version)
    except (BadVersionError, NodeExistsError):
        return


async def read_stored_bytes(store: MetadataReads) -> dict[str, int]:
    """Return the bytes that namespaces store by the last audit; none before the first one.

    Raises MetadataUnavailableError, CorruptionError, ForeignDataError.
    """
    value = await idempotent_writes.read_if_exists(store, PATH)
    if value is None:
        return {}
    fields = decode_metadata_record(
        "the stored bytes", value.data, version=_FORMAT, fields={"namespaces": dict}
    )
    found: dict[str, int] = fields["namespaces"]
    for name, count in found.items():
        if type(count) is not int or count < 0:
            raise CorruptionError(f"the stored bytes of {name} are not a number of bytes")
    return found
