"""ZooKeeper and etcd as one kind of thing for tests that hurt them."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import pytest

from rhumbline.backends.open_store import open_store
from rhumbline.core.runtime.metadata_store import MetadataStore
from rhumbline.tests.support.servers import metadata_servers
from rhumbline.tests.support.servers.metadata_servers import Etcd, ZooKeeper

TIMEOUT_MS = 2_000
"""What one call of a hurt store may take: short, so that tests are."""


@dataclass(frozen=True, slots=True)
class ServerKind:
    """A kind of server. ``shared`` gives one that nobody may hurt."""

    scheme: str
    shared: Callable[[], Any]
    make: Callable[[], Any]
    ttl_ms: int

    def uri(self, addresses: str, place: str) -> str:
        """Of the servers at host:port,host:port."""
        return f"{self.scheme}://{addresses}/{place}"

    @asynccontextmanager
    async def opened(
        self, addresses: str, place: str, timeout_ms: int = TIMEOUT_MS
    ) -> AsyncIterator[MetadataStore]:
        """A handle, closed at the end."""
        store = await open_store(self.uri(addresses, place), timeout_ms=timeout_ms)
        try:
            yield store
        finally:
            await store.close()


KINDS = [
    pytest.param(
        ServerKind("zk", metadata_servers.zookeeper, ZooKeeper, 800),
        id="zookeeper",
        marks=pytest.mark.needs_server("zookeeper"),
    ),
    pytest.param(
        ServerKind("etcd", metadata_servers.etcd, Etcd, 1_000),
        id="etcd",
        marks=pytest.mark.needs_server("etcd"),
    ),
]
