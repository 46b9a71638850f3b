"""Planning takes one listing for all streams, and reads each manifest once; verify reads all."""

import asyncio

from rhumbline.bench.archives.planning import CountingStore, fill, measure
from rhumbline.coldstore.index.namespace_index import NamespaceIndex


def test_an_idle_trigger_is_one_listing_for_all_streams() -> None:
    lines = asyncio.run(measure(40, 3, latency_ms=0, parallel=8))
    calls = [line.partition(";")[0] for line in lines]
    assert calls == [
        "batch plan without an index: 160 get, 2 list",
        "idle trigger without an index: 2 list",
        "archive ls without an index: 160 get, 2 list",
        "first index: 160 get, 43 list, 2 put",
        "batch plan: 2 get, 1 list",
        "idle trigger: 1 list",
        "one stream continues: 1 delete, 3 get, 3 list, 4 put",
        "trigger: 2 get, 1 list",
        "index pass: 4 get, 1 list, 2 put",
        "archive ls: 3 get, 3 list",
        "archive verify: 285 get, 5 list",
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
    assert calls == {"get": 3, "list": 2}, "a tip and two manifests"
