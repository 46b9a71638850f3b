"""Reads the parts of a cluster that files declare, or all of them."""

from collections.abc import AsyncIterator, Iterable, Sequence

from ...access.grant_store import read_grants
from ...client.connect import Client
from ...core.log.metadata.paths import StreamPaths
from ...core.log.metadata.stream_metadata import StreamRecord
from ...core.log.namespace import LIST_LIMIT, Namespace
from ...core.log.topics.topics import list_topics, open_topic
from ...core.metadata.declared_regions import read_declared_regions
from ...core.protocol.bookie_id import Region
from ...core.protocol.errors import LimitExceededError, NoSuchNamespaceError
from ...core.protocol.quorum import Quorum
from ...proxies.quotas.quota_store import QuotaStore
from ..streams.policy_options import default_quorum
from .declared_state import DeclaredCluster, DeclaredNamespace
from .found_state import FoundCluster, FoundNamespace, FoundStream

OBJECTS_MAX = 100_000
"""Maximum number of streams and subscriptions that one command reads."""
_BATCH = 100


async def read_compared(client: Client, declared: DeclaredCluster, *, prunes: bool) -> FoundCluster:
    """Return what files declare as it is now; with ``prunes``, also what they could delete.

    Raises MetadataUnavailableError, CorruptionError, LimitExceededError and ConfigurationError.
    """
    listed = client.namespaces.all(may_be_partial=False)
    stores = {str(name): region async for name, region in listed}
    namespaces: dict[str, FoundNamespace] = {}
    quorums: dict[str, Quorum] = {}
    reader = _Reader(client)
    for name, item in declared.namespaces.items():
        try:
            if name not in stores:
                raise NoSuchNamespaceError(name)
            wanted = None if prunes and item.streams is not None else (item.streams or {})
            also = item.streams or {}
            namespaces[name] = await reader.read_namespace(name, stores[name], wanted, also)
        except NoSuchNamespaceError:
            quorums[name] = await _default_quorum(client, item)
    return FoundCluster(
        await _regions(client),
        namespaces,
        await read_grants(client.store),
        await QuotaStore(client.store).read(),
        quorums,
    )


async def read_all(client: Client) -> FoundCluster:
    """Return everything that files can declare. Raises as ``read_compared``."""
    reader = _Reader(client)
    namespaces = {}
    async for name, region in client.namespaces.all(may_be_partial=False):
        namespaces[name] = await reader.read_namespace(name, region, None, ())
    return FoundCluster(
        await _regions(client),
        namespaces,
        await read_grants(client.store),
        await QuotaStore(client.store).read(),
    )


async def _regions(client: Client) -> tuple[Region, ...] | None:
    found = await read_declared_regions(client.store)
    return None if found is None else tuple(found)


async def _default_quorum(client: Client, item: DeclaredNamespace) -> Quorum:
    """Return the quorum that fits the bookies, as `namespace create` chooses it."""
    store = await client.namespaces.store_of(item.store)
    usable = await store.directory.in_usable_regions()
    allowed: Sequence[str] = ()
    if item.policy is not None:
        allowed = item.policy.values.get("regions", ())
    return default_quorum(usable, allowed)


class _Reader:
    """Reads namespaces with their streams; counts what it reads."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._objects = 0

    async def read_namespace(
        self, name: str, region: Region | None, wanted: Iterable[str] | None, also: Iterable[str]
    ) -> FoundNamespace:
        """Return a namespace with the ``wanted`` streams, all if it is None.

        Streams of topics are left out of all of them, apart from those in ``also``.
        """
        namespace = self._client.namespace(name)
        policy = await namespace.policy()
        topics: dict[str, int] = {}
        if wanted is None:
            topics = await self._topics(namespace)
            partitions = {f"{topic}.{n}" for topic, count in topics.items() for n in range(count)}
            left_out = partitions - set(also)
            wanted = [one async for one in self._names(namespace) if one not in left_out]
        streams = await self._streams(namespace, sorted(wanted))
        return FoundNamespace(region, policy, streams, topics)

    async def _topics(self, namespace: Namespace) -> dict[str, int]:
        found: dict[str, int] = {}
        after = None
        while page := await list_topics(namespace.store, namespace, after=after, limit=LIST_LIMIT):
            for name in page:
                topic = await open_topic(namespace.store, namespace, name)
                found[name] = topic.partition_count
                self._count()
            after = page[-1]
        return found

    async def _names(self, namespace: Namespace) -> AsyncIterator[str]:
        after = None
        while page := await namespace.streams(after=after):
            for name in page:
                self._count()
                yield name
            after = page[-1]

    async def _streams(self, namespace: Namespace, names: Sequence[str]) -> dict[str, FoundStream]:
        found = {}
        for start in range(0, len(names), _BATCH):
            batch = names[start : start + _BATCH]
            paths = [StreamPaths(namespace.name, name).stream for name in batch]
            for name, value in zip(batch, await namespace.store.get_all(paths), strict=True):
                if value is None:
                    continue
                record = StreamRecord.decode(name, value.data)
                if not record.is_deleting:
                    subscriptions = await self._subscriptions(namespace, name)
                    found[name] = FoundStream(record.identity, record.policy, subscriptions)
        return found

    async def _subscriptions(self, namespace: Namespace, stream: str) -> frozenset[str]:
        found: set[str] = set()
        after = None
        while page := await namespace.subscriptions.names(stream, after=after, limit=LIST_LIMIT):
            found.update(page)
            self._count(len(page))
            after = page[-1]
            if len(page) < LIST_LIMIT:
                break
        return frozenset(found)

    def _count(self, added: int = 1) -> None:
        self._objects += added
        if self._objects > OBJECTS_MAX:
            raise LimitExceededError(
                f"more than {OBJECTS_MAX} streams and subscriptions: use files that declare fewer"
            )
