"""``open_store`` opens the metadata store that a URI names.

| URI | store |
|---|---|
| ``memory:`` or ``memory:name`` | in this process; handles with the same name share one tree |
| ``sqlite:///var/lib/rhumbline/metadata.db`` | a file, shared by the processes of one host |
| ``zk://host1,host2:2181/chroot`` | Apache ZooKeeper |
| ``etcd://host1:2379,host2:2379/prefix`` | etcd |
| ``fdb:///etc/foundationdb/fdb.cluster?dir=rhumbline`` | FoundationDB |

Each store's module describes its options. A client library is imported only when its store is
opened; the libraries of other stores need not be installed. Packages add further schemes by entry
points in the group ``rhumbline.metadata_stores`` (see ``core/runtime/plugins.py``).
"""

import os
from collections.abc import Awaitable, Callable
from functools import partial

from ..core.protocol.errors import ConfigurationError
from ..core.protocol.installation import needs_extra
from ..core.runtime.plugins import METADATA_STORES, OpenerTable
from ..security.secret_files import warn_if_readable
from .memory import MemoryStore, MemoryTree
from .migrating_store import MigratingStore
from .migration_fence import MovableStore
from .uri import StoreUri, parse_uri, secret_files_of

TIMEOUT_MS = 10_000
"""Default timeout of one call, in milliseconds."""

_trees: dict[str, MemoryTree] = {}


async def open_store(uri: str, *, timeout_ms: int = TIMEOUT_MS) -> MigratingStore:
    """Open a store, or its successor if it was migrated; the handle follows later migrations too.

    A call takes at most ``timeout_ms``, or three times that if it meets a migration. Raises as
    ``open_without_following``, and WrongClusterError if the successor holds other metadata.
    """
    store = MigratingStore(
        await open_without_following(uri, timeout_ms=timeout_ms),
        partial(open_without_following, timeout_ms=timeout_ms),
        timeout_ms,
    )
    try:
        await store.start()
    except BaseException:
        await store.close()
        raise
    return store


async def open_without_following(uri: str, *, timeout_ms: int = TIMEOUT_MS) -> MovableStore:
    """Open exactly this store, even if it was replaced by migration.

    Raises ConfigurationError (malformed URI, missing client library), PluginError (the package that
    adds the scheme is broken), MetadataUnavailableError, ForeignDataError (the place holds data of
    another application) and CorruptionError.
    """
    if timeout_ms < 1:
        raise ConfigurationError(f"timeout {timeout_ms} ms is below 1 ms")
    parsed = parse_uri(uri)
    opener = _OPENERS.find(parsed.scheme)
    if opener is None:
        known = ", ".join(_OPENERS.schemes())
        raise parsed.error(f"has an unknown scheme {parsed.scheme!r} (known: {known})")
    with opener.attributed():
        store = await opener.open(parsed, timeout_ms)
        opener.check_interface(store, MovableStore)
    for file in secret_files_of(parsed):
        warn_if_readable(file)
    return store


async def _open_memory(uri: StoreUri, timeout_ms: int) -> MovableStore:
    del timeout_ms
    uri.check_options(())
    if uri.authority or "/" in uri.path:
        raise uri.error("is not of the form memory: or memory:name")
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
    with needs_extra("the ZooKeeper metadata store", "zookeeper"):
        from .zookeeper.store import open_zookeeper
    return await open_zookeeper(uri, timeout_ms)


async def _open_etcd(uri: StoreUri, timeout_ms: int) -> MovableStore:
    with needs_extra("the etcd metadata store", "etcd"):
        from .etcd.store import open_etcd
    return await open_etcd(uri, timeout_ms)


async def _open_fdb(uri: StoreUri, timeout_ms: int) -> MovableStore:
    with needs_extra("the FoundationDB metadata store", "fdb"):
        from .fdb.store import open_fdb

        return await open_fdb(uri, timeout_ms)  # imports fdb


MetadataStoreOpener = Callable[[StoreUri, int], Awaitable[MovableStore]]
"""Opens a store by its URI with a timeout of each call in milliseconds; a plug-in provides one."""

_OPENERS: OpenerTable[MetadataStoreOpener] = OpenerTable(
    "metadata store",
    METADATA_STORES,
    {
        "memory": _open_memory,
        "sqlite": _open_sqlite,
        "zk": _open_zookeeper,
        "etcd": _open_etcd,
        "fdb": _open_fdb,
    },
)
