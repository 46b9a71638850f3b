"""The fault runs count what a store acknowledged and what it lost."""

import asyncio

from rhumbline.backends.memory import MemoryStore
from rhumbline.bench.metadata.fault_runs import CounterWriters
from rhumbline.core.protocol.errors import IndeterminateError
from rhumbline.core.runtime.metadata_store import Version


class UncertainStore(MemoryStore):
    """Reports every third write as unknown, although it took effect."""

    writes = 0

    async def put(self, path: str, data: bytes, *, expect: Version | None = None) -> Version:
        version = await super().put(path, data, expect=expect)
        self.writes += 1
        await asyncio.sleep(0)
        if self.writes % 3 == 0:
            raise IndeterminateError("lost reply")
        return version


async def test_lost_and_repeated_writes_are_counted() -> None:
    store = UncertainStore()
    writers = CounterWriters(store)
    await writers.prepare()
    task = asyncio.create_task(writers.run(0))
    store.disconnect()
    await asyncio.sleep(0.05)
    store.reconnect()
    await asyncio.sleep(0.05)
    writers.is_stopped = True
    await task
    row = await writers.row(store)
    assert (row["lost"], row["doubled"]) == (0, 0)
    assert row["unknown"] > 0 and row["unavailable"] > 0 and row["acknowledged"] > 0
    assert row["gap_ms"] >= 40
    await MemoryStore(store.tree).put("/counters/0", b"1")
    assert (await writers.row(store))["lost"] == writers.acknowledged[0] - 1
    await MemoryStore(store.tree).put("/counters/0", b"1000000")
    assert (await writers.row(store))["doubled"] > 0
