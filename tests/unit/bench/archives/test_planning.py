"""Planning takes one listing for all streams, and reads each manifest once."""

import asyncio

from rhumbline.bench.archives.planning import CountingStore, fill, measure
from rhumbline.coldstore.archive.stream_index import NamespaceIndex


def test_an_idle_trigger_is_one_listing_for_all_streams() -> None:
    lines = asyncio.run(measure(40, 3, latency_ms=0, parallel=8))
    calls = [line.partition(";")[0] for line in lines]
    assert calls == [
        "batch plan: 160 get, 1 list",
        "idle trigger: 1 list",
        "archive ls: 160 get, 1 list",
    ]


def test_a_trigger_reads_only_what_is_new() -> None:
    async def run() -> tuple[list[str], dict[str, int]]:
        store = CountingStore(8)
        fill(store, 30, 2)
        index = NamespaceIndex(store, "default")
        await index.refresh_matching(lambda _: True)
        fill(store, 31, 2)  # the first 30 are as before
        store.calls.clear()
        found = await index.refresh_matching(lambda name: name != "stream-000003")
        return found, dict(store.calls)

    found, calls = asyncio.run(run())
    assert len(found) == 30
    assert calls == {"get": 3, "list": 1}, "a tip and two manifests"
