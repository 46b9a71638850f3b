"""``open_store``: from a URI to a ``MetadataStore``.

| URI | store |
|---|---|
| ``memory:`` or ``memory:name`` | in this process; handles of one name share one tree |
| ``sqlite:///var/lib/rhumbline/metadata.db`` | a file, for the processes of one host |
| ``zk://host1,host2:2181/chroot`` | Apache ZooKeeper |
| ``etcd://host1:2379,host2:2379/prefix`` | etcd |
| ``fdb:///etc/foundationdb/fdb.cluster?dir=rhumbline`` | FoundationDB |

The options of each are in its module. Client libraries are imported only when their store is
opened, so that nobody needs more than one of them.
"""

import os
from collections.abc import Awaitable, Callable
from functools import partial

from ..core.protocol.errors import ConfigurationError
from .memory import MemoryStore, MemoryTree
from .migrating_store import MigratingStore
from .migration_fence import MovableStore
from .uri import StoreUri, parse_uri

TIMEOUT_MS = 10_000
"""Default deadline of one call."""

_trees: dict[str, MemoryTree] = {}


async def open_store(uri: str, *, timeout_ms: int = TIMEOUT_MS) -> MigratingStore:
    """Opens a store, or the one that took its place; the handle also follows later migrations.

    No call of it waits longer than ``timeout_ms`` (one that meets a migration: three times that).
    Raises as ``open_as_it_is``, and WrongClusterError when the successor holds something else.
    """
    store = MigratingStore(
        await open_as_it_is(uri, timeout_ms=timeout_ms),
        partial(open_as_it_is, timeout_ms=timeout_ms),
        timeout_ms,
    )
    try:
        await store.start()
    except BaseException:
        await store.close()
        raise
    return store


async def open_as_it_is(uri: str, *, timeout_ms: int = TIMEOUT_MS) -> MovableStore:
    """Opens a store and no other, also one that was replaced: for migration.

    Raises ConfigurationError (bad URI, a client library that is not installed),
    MetadataUnavailableError, ForeignDataError (something else lives there), CorruptionError.
    """
    if timeout_ms < 1:
        raise ConfigurationError(f"a time-out of {timeout_ms} ms is below 1 ms")
    parsed = parse_uri(uri)
    opener = _OPENERS.get(parsed.scheme)
    if opener is None:
        known = ", ".join(_OPENERS)
        raise parsed.wrong(f"has an unknown scheme {parsed.scheme!r} (known: {known})")
    return await opener(parsed, timeout_ms)


async def _open_memory(uri: StoreUri, timeout_ms: int) -> MovableStore:
    del timeout_ms
    uri.only_options(())
    if uri.authority or "/" in uri.path:
        raise uri.wrong("should be memory: or memory:name")
    if not uri.path:
        return MemoryStore(_new_tree())
    if uri.path not in _trees:
        _trees[uri.path] = _new_tree()
    return MemoryStore(_trees[uri.path], uri.text)


def _new_tree() -> MemoryTree:
    return MemoryTree(epoch=f"m{os.urandom(4).hex()}")


async def _open_sqlite(uri: StoreUri, timeout_ms: int) -> MovableStore:
    from .sqlite.store import open_sqlite

    return await open_sqlite(uri, timeout_ms)


async def _open_zookeeper(uri: StoreUri, timeout_ms: int) -> MovableStore:
    try:
        from .zookeeper.store import open_zookeeper

        return await open_zookeeper(uri, timeout_ms)
    except ModuleNotFoundError as error:
        raise _missing_extra(uri, "zookeeper", error) from error


async def _open_etcd(uri: StoreUri, timeout_ms: int) -> MovableStore:
    try:
        from .etcd.store import open_etcd

        return await open_etcd(uri, timeout_ms)
    except ModuleNotFoundError as error:
        raise _missing_extra(uri, "etcd", error) from error


async def _open_fdb(uri: StoreUri, timeout_ms: int) -> MovableStore:
    try:
        from .fdb.store import open_fdb

        return await open_fdb(uri, timeout_ms)
    except ModuleNotFoundError as error:
        raise _missing_extra(uri, "fdb", error) from error


def _missing_extra(uri: StoreUri, extra: str, error: ModuleNotFoundError) -> Exception:
    if (error.name or "").startswith(__name__.partition(".")[0]):
        return error
    return uri.wrong(f"needs the Python package {error.name!r}: pip install 'rhumbline[{extra}]'")


_OPENERS: dict[str, Callable[[StoreUri, int], Awaitable[MovableStore]]] = {
    "memory": _open_memory,
    "sqlite": _open_sqlite,
    "zk": _open_zookeeper,
    "etcd": _open_etcd,
    "fdb": _open_fdb,
}
