"""Nodes for benchmarks of metadata stores."""

from collections.abc import Sequence

from ...core.runtime.metadata_store import Create, Delete, MetadataStore

_BATCH = 50


async def create_nodes(store: MetadataStore, parent: str, count: int) -> list[str]:
    """Create ``count`` nodes with small values below ``parent`` and return their paths, sorted."""
    paths = [f"{parent}/n{number:06d}" for number in range(count)]
    for start in range(0, count, _BATCH):
        await store.txn([Create(path, b"x") for path in paths[start : start + _BATCH]])
    return paths


async def remove_nodes(store: MetadataStore, paths: Sequence[str]) -> None:
    """Delete nodes without children, by path: a store may be unable to list very many."""
    for start in range(0, len(paths), _BATCH):
        await store.txn([Delete(path) for path in paths[start : start + _BATCH]])


async def remove_tree(store: MetadataStore, path: str) -> None:
    """Delete a node and everything below it."""
    for name in await store.children(path):
        await remove_tree(store, f"{path}/{name}")
    await store.delete(path)
