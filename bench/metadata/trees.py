"""Nodes for benchmarks of metadata stores."""

import asyncio
from collections.abc import Sequence

from ...core.runtime.metadata_store import Create, Delete, MetadataStore, Operation

_BATCH = 50
_CALLERS = 8


async def create_nodes(store: MetadataStore, parent: str, count: int) -> list[str]:
    """Create ``count`` nodes with small values below ``parent`` and return their paths, sorted."""
    paths = [f"{parent}/n{number:06d}" for number in range(count)]
    await store.create(parent)
    await _in_batches(store, [Create(path, b"x") for path in paths])
    return paths


async def remove_nodes(store: MetadataStore, paths: Sequence[str]) -> None:
    """Delete nodes without children, by path: a store may be unable to list very many."""
    await _in_batches(store, [Delete(path) for path in paths])


async def remove_tree(store: MetadataStore, path: str) -> None:
    """Delete a node and everything below it."""
    for name in await store.children(path):
        await remove_tree(store, f"{path}/{name}")
    await store.delete(path)


async def _in_batches(store: MetadataStore, operations: Sequence[Operation]) -> None:
    """Carry out operations in transactions, several of them at once."""
    starts = iter(range(0, len(operations), _BATCH))

    async def call() -> None:
        for start in starts:
            await store.txn(operations[start : start + _BATCH])

    await asyncio.gather(*[call() for _ in range(_CALLERS)])
