"""Reads the policies of the streams that ledgers belong to.

The custom metadata of a ledger names its stream. The R (``min_regions_for_durability``) of that
stream's policy decides what its writers, recoveries and repair require from now on (rule PLC-12).
"""

from collections.abc import Sequence
from contextlib import suppress

from ...protocol.errors import (
    CorruptionError,
    InvalidArgumentError,
    NoNodeError,
    NoSuchNamespaceError,
    NoSuchStreamError,
)
from ...protocol.ledger_metadata import NAMESPACE_KEY, STREAM_KEY, LedgerMetadata
from ...runtime.metadata_store import MetadataStore
from ..policy import StreamPolicy
from .namespace_record import NamespaceRecord
from .paths import StreamPaths, namespace_path
from .stream_metadata import StreamRecord
from .stream_store import StreamStore


def stream_of_ledger(metadata: LedgerMetadata) -> tuple[str, str] | None:
    """Return (namespace, stream) of a ledger, or None if it was not made for a stream."""
    try:
        return metadata.custom[NAMESPACE_KEY].decode(), metadata.custom[STREAM_KEY].decode()
    except (KeyError, UnicodeDecodeError):
        return None


async def own_policy(store: MetadataStore, namespace: str, stream: str) -> StreamPolicy | None:
    """Return the policy of a stream, or None if it follows its namespace.

    Raises NoSuchStreamError, InvalidArgumentError, CorruptionError, MetadataUnavailableError.
    """
    return (await StreamStore(store, namespace).record(stream))[0].policy


async def own_policies(
    store: MetadataStore, streams: Sequence[tuple[str, str]]
) -> dict[tuple[str, str], StreamPolicy | None]:
    """Read the policies of several streams in one request; None: a stream follows its namespace.

    ``streams`` are pairs of namespace and name. The result lacks streams that do not exist or whose
    record is damaged. Raises MetadataUnavailableError.
    """
    paths: dict[tuple[str, str], str] = {}
    for stream in streams:
        with suppress(InvalidArgumentError):
            paths[stream] = StreamPaths(*stream).stream
    found: dict[tuple[str, str], StreamPolicy | None] = {}
    for stream, value in zip(paths, await store.get_all([*paths.values()]), strict=True):
        if value is not None:
            with suppress(CorruptionError):
                found[stream] = StreamRecord.decode(stream[1], value.data).policy
    return found


async def namespace_policy(store: MetadataStore, namespace: str) -> StreamPolicy:
    """Return the policy of a namespace. Raises like ``own_policy``."""
    try:
        value = await store.get(namespace_path(namespace))
        return NamespaceRecord.decode(namespace, value.data).policy
    except NoNodeError as error:
        raise NoSuchStreamError(f"no namespace {namespace}") from error
    except NoSuchNamespaceError as error:
        raise NoSuchStreamError(str(error)) from error


class LedgerPolicies:
    """The R of ledgers by the policies of their streams; each policy is read once until
    ``clear``."""

    def __init__(self, store: MetadataStore) -> None:
        self._store = store
        self._known: dict[tuple[str, str], int | None] = {}

    def clear(self) -> None:
        """Forget what was read."""
        self._known.clear()

    async def r_of(self, metadata: LedgerMetadata) -> int | None:
        """Return the R that the ledger's stream wants, limited to what the ledger can satisfy.

        Returns None if there is no such stream, or if its policy is unreadable: what the ledger
        records then applies. Raises MetadataUnavailableError.
        """
        stream = stream_of_ledger(metadata)
        if stream is None:
            return None
        if stream not in self._known:
            self._known[stream] = await self._read(*stream)
        wanted = self._known[stream]
        return None if wanted is None else metadata.possible_r(wanted)

    async def _read(self, namespace: str, stream: str) -> int | None:
        try:
            policy = await own_policy(self._store, namespace, stream)
            if policy is None:
                policy = await namespace_policy(self._store, namespace)
        except (NoSuchStreamError, InvalidArgumentError, CorruptionError):
            return None
        return policy.quorum.min_regions
