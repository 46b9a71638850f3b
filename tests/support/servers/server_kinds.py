"""A common description of ZooKeeper and etcd, for tests that disturb servers."""

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
"""Time-out of one call to a disturbed store; short, to keep tests short."""


@dataclass(frozen=True, slots=True)
class ServerKind:
    """A kind of server: ``shared`` returns one that tests must not disturb, ``make`` a new one."""

    scheme: str
    shared: Callable[[], Any]
    make: Callable[[], Any]
    ttl_ms: int

    def uri(self, addresses: str, chroot: str) -> str:
        """Return the URI of a path in the servers at ``addresses`` (host:port,host:port)."""
        return f"{self.scheme}://{addresses}/{chroot}"

    @asynccontextmanager
    async def opened(
        self, addresses: str, chroot: str, timeout_ms: int = TIMEOUT_MS
    ) -> AsyncIterator[MetadataStore]:
        """Open a handle and close it at the end."""
        store = await open_store(self.uri(addresses, chroot), timeout_ms=timeout_ms)
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
