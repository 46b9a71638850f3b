"""Metadata stores with many watches, and with many children of one node."""

import asyncio
import os
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from random import Random
from typing import Any

from ...backends.open_store import open_store
from ...core.protocol.errors import RhumblineError
from ...core.runtime.metadata_store import MetadataStore
from .operations import summary
from .trees import create_nodes, remove_nodes

_SAMPLES = 200
_PAGE = 1_000
_TIMEOUT_MS = 30_000
_WAIT_S = 60


async def measure_watches(uri: str, count: int) -> dict[str, Any]:
    """Watch ``count`` nodes with one handle, and measure writes to some of them by another.

    ``armed_s`` is the time from the first ``watch`` until the last node's watch has fired after a
    write. ``missed`` counts writes whose watch did not fire within a minute.
    """
    async with _two_handles(uri) as (writer, watcher):
        root = f"/bench-{os.urandom(4).hex()}"
        paths = await create_nodes(writer, root, count)
        fired = [asyncio.Event() for _ in paths]
        began = time.perf_counter()
        watches = [watcher.watch(path, event.set) for path, event in zip(paths, fired, strict=True)]
        await _write_until_fired(writer, paths[-1], fired[-1])
        armed_s = time.perf_counter() - began
        await asyncio.sleep(1)  # a watch may fire once more soon after it was set
        delays, missed = [], 0
        for index in Random(1).choices(range(count), k=_SAMPLES):
            fired[index].clear()
            started = time.perf_counter()
            await writer.put(paths[index], b"y")
            try:
                async with asyncio.timeout(_WAIT_S):
                    await fired[index].wait()
            except TimeoutError:
                missed += 1
            else:
                delays.append(time.perf_counter() - started)
        for watch in watches:
            watch.close()
        await remove_nodes(writer, [*paths])
        await writer.delete(root)
    return {"watches": count, "armed_s": round(armed_s, 2), "missed": missed, **summary(delays)}


async def _write_until_fired(writer: MetadataStore, path: str, event: asyncio.Event) -> None:
    event.clear()
    async with asyncio.timeout(_WAIT_S):
        while not event.is_set():
            await writer.put(path, b"y")
            await asyncio.sleep(0.05)


async def measure_children(uri: str, count: int) -> dict[str, Any]:
    """Create ``count`` children of one node; list them in one call, and in pages of a thousand.

    A listing that the store refuses is the name of the error.
    """
    async with _two_handles(uri) as (writer, reader):
        root = f"/bench-{os.urandom(4).hex()}"
        began = time.perf_counter()
        paths = await create_nodes(writer, root, count)
        created_per_s = count / (time.perf_counter() - began)
        found = {
            "children": count,
            "created_per_s": round(created_per_s),
            "one_call_ms": await _list_at_once(reader, root, count),
            "all_pages_ms": await _list_in_pages(reader, root, count),
        }
        await remove_nodes(writer, paths)
        await writer.delete(root)
    return found


async def _list_at_once(store: MetadataStore, path: str, count: int) -> float | str:
    started = time.perf_counter()
    try:
        names = await store.children(path)
    except RhumblineError as error:
        return type(error).__name__
    assert len(names) == count, f"{len(names)} of {count} children were listed"
    return round((time.perf_counter() - started) * 1000, 1)


async def _list_in_pages(store: MetadataStore, path: str, count: int) -> float | str:
    started = time.perf_counter()
    after, listed = None, 0
    while True:
        try:
            names = await store.children(path, after=after, limit=_PAGE)
        except RhumblineError as error:
            return type(error).__name__
        listed += len(names)
        if len(names) < _PAGE:
            break
        after = names[-1]
    assert listed == count, f"{listed} of {count} children were listed"
    return round((time.perf_counter() - started) * 1000, 1)


@asynccontextmanager
async def _two_handles(uri: str) -> AsyncIterator[tuple[MetadataStore, MetadataStore]]:
    first = await open_store(uri, timeout_ms=_TIMEOUT_MS)
    try:
        second = await open_store(uri, timeout_ms=_TIMEOUT_MS)
        try:
            yield first, second
        finally:
            await second.close()
    finally:
        await first.close()
