"""Uses every kind of call of a metadata store; as a program in a process of its own.

    python -m rhumbline.tests.support.processes.store_user URI TIMEOUT_MS

A process has one set of TLS files for FoundationDB; therefore tests of it need several processes.
The program prints ``used``, or the code and the text of the error.
"""

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from rhumbline.backends.conformance.assertions import ChangeSignal
from rhumbline.backends.open_store import open_store
from rhumbline.core.protocol.errors import RhumblineError
from rhumbline.core.runtime.metadata_store import Create, MetadataStore


@asynccontextmanager
async def opened(uri: str, timeout_ms: int = 10_000) -> AsyncIterator[MetadataStore]:
    store = await open_store(uri, timeout_ms=timeout_ms)
    try:
        yield store
    finally:
        await store.close()


async def use(uri: str, timeout_ms: int = 10_000) -> None:
    """Use every kind of call: values, transactions, sequential nodes, sessions, watches."""
    async with opened(uri, timeout_ms) as store, opened(uri, timeout_ms) as other:
        path, version = await store.create("/a/b", b"1")
        changes = ChangeSignal()
        other.watch("/a", changes.notify, prefix=True)
        await changes.drain()
        await store.put(path, b"2", expect=version)
        await changes.wait_notified("a change")
        assert (await other.get(path)).data == b"2"
        await store.txn([Create("/c"), Create("/d/e")])
        numbered = [(await store.create("/q/n-", sequential=True))[0] for _ in range(2)]
        assert sorted(set(numbered)) == numbered
        session = await store.session(2_000)
        await store.create("/claim", ephemeral=session)
        assert "claim" in await other.children("/")
        await session.close()
        assert "claim" not in await other.children("/")


def main() -> None:
    """Use the store that the command line names."""
    uri, timeout_ms = sys.argv[1:]
    try:
        asyncio.run(use(uri, int(timeout_ms)))
    except RhumblineError as error:
        print(f"{error.code}: {error}")
    else:
        print("used")


if __name__ == "__main__":
    main()
