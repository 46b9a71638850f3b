"""Measures how many calls of a cold store, and how much time, the planning of queries takes.

Run ``python -m rhumbline.bench.archives.planning --streams 10000 --latency-ms 20``. The
archive is in memory and has manifests only; every call takes the given time, and at most
``--parallel`` calls run at a time, as with a store whose client has so many connections.
"""

import argparse
import asyncio
import hashlib
import time
from collections import Counter
from collections.abc import Awaitable, Callable

from ...coldstore.archive.archive_folder import part_name
from ...coldstore.archive.manifest import CHAIN_START, Manifest, Part
from ...coldstore.index.indexed_listing import indexed_listing
from ...coldstore.index.indexer import Indexer
from ...coldstore.index.namespace_index import NamespaceIndex
from ...coldstore.proof.chain_tip import empty_tip
from ...coldstore.proof.chain_writer import ChainWriter
from ...core.protocol.errors import NoSuchObjectError
from ...core.runtime.cold_store import ObjectStat

_NAMESPACE = "default"
_PAGE_KEYS = 1000
"""Keys that a call of an object store lists; a listing of more keys takes several calls."""


class CountingStore:
    """A cold store in memory that counts calls and delays them. See ColdStore."""

    uri = "memory:"

    def __init__(self, parallel: int) -> None:
        self.latency_s = 0.0
        self.calls: Counter[str] = Counter()
        self._objects: dict[str, bytes] = {}
        self._slots = asyncio.Semaphore(parallel)

    async def put_if_absent(self, key: str, data: bytes) -> bool:
        """See ColdStore."""
        await self._call("put")
        return self._objects.setdefault(key, data) is data

    async def get(self, key: str, offset: int = 0, length: int | None = None) -> bytes:
        """See ColdStore."""
        await self._call("get")
        if key not in self._objects:
            raise NoSuchObjectError(f"no object {key}")
        end = None if length is None else offset + length
        return self._objects[key][offset:end]

    async def stat(self, key: str) -> ObjectStat:
        """See ColdStore."""
        return ObjectStat(len(await self.get(key)), None)

    async def list(self, prefix: str = "") -> list[str]:
        """See ColdStore. Counts a call for each page of keys."""
        below = f"{prefix}/" if prefix else ""
        found = sorted(key for key in self._objects if key.startswith(below))
        for _ in range(max(1, -(-len(found) // _PAGE_KEYS))):
            await self._call("list")
        return found

    async def delete(self, key: str) -> None:
        """See ColdStore."""
        await self._call("delete")
        self._objects.pop(key, None)

    async def close(self) -> None:
        """See ColdStore."""

    def add(self, key: str, data: bytes) -> None:
        """Add an object without a call."""
        self._objects[key] = data

    async def _call(self, kind: str) -> None:
        self.calls[kind] += 1
        if self.latency_s:
            async with self._slots:
                await asyncio.sleep(self.latency_s)


def fill(store: CountingStore, streams: int, segments: int) -> None:
    """Write the chains of an archive whose segments have one part each."""
    for number in range(streams):
        link, tip = CHAIN_START, None
        for lssn in range(1, segments + 1):
            manifest = _manifest(f"stream-{number:06d}", lssn, link)
            store.add(manifest.part_key(manifest.parts[0]), b"")
            store.add(manifest.key, manifest.encode())
            tip = (tip or empty_tip(manifest)).with_last(manifest)
            link = manifest.link
        if tip is not None:
            store.add(tip.folder.tip(tip.name), tip.encode())


def _manifest(stream: str, lssn: int, previous_link: str) -> Manifest:
    digest = hashlib.sha256(f"{stream} {lssn}".encode()).hexdigest()
    part = Part(part_name(lssn, 0, digest[:16]), 0, 9, 1, 100, 100, 1000, 2000, digest, digest)
    return Manifest(
        namespace=_NAMESPACE, stream=stream,
        stream_identity=hashlib.sha256(stream.encode()).hexdigest()[:32], lssn=lssn,
        last_entry_id=9, record_count=100, payload_bytes=1000, first_txid=1, last_txid=100,
        start_sequence_id=100 * (lssn - 1), created_ms=lssn, completed_ms=lssn + 1,
        ends_stream=False, content_digest=digest, previous_link=previous_link, parts=(part,),
    )  # fmt: skip


async def measure(streams: int, segments: int, *, latency_ms: float, parallel: int) -> list[str]:
    """Return a line for each step: its name, the calls by kind, and the time in seconds."""
    store = CountingStore(parallel)
    fill(store, streams, segments)
    store.latency_s = latency_ms / 1000
    lines = []

    async def step(name: str, work: Callable[[], Awaitable[object]]) -> None:
        store.calls.clear()
        begun_s = time.monotonic()
        await work()
        took_s = time.monotonic() - begun_s
        calls = ", ".join(f"{count} {kind}" for kind, count in sorted(store.calls.items()))
        lines.append(f"{name}: {calls}; {took_s:.1f} s")

    async def plan() -> None:
        await reader.refresh_matching(lambda _: True)

    indexer, reader = Indexer(store, _NAMESPACE), NamespaceIndex(store, _NAMESPACE)
    await step("batch plan without an index", plan)
    await step("idle trigger without an index", plan)
    await step("archive ls without an index", lambda: indexed_listing(store))
    await step("first index", indexer.run_once)
    reader = NamespaceIndex(store, _NAMESPACE)
    await step("batch plan", plan)
    await step("idle trigger", plan)
    await step("one stream continues", lambda: _continue(store, segments))
    await step("trigger", plan)
    await step("index pass", indexer.run_once)
    await step("archive ls", lambda: indexed_listing(store))
    return lines


async def _continue(store: CountingStore, segments: int) -> None:
    """Publish the next manifest of one stream, as an archiver does."""
    chains = ChainWriter(store)
    last = _manifest("stream-000000", 0, CHAIN_START)
    link = await chains.previous_link(last.folder, segments + 1, oldest_lssn=1)
    await chains.cover(await chains.publish(_manifest("stream-000000", segments + 1, link), link))


def main() -> None:
    """Run the measurement of the command line and print its lines."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--streams", type=int, default=1000)
    parser.add_argument("--segments", type=int, default=10)
    parser.add_argument("--latency-ms", type=float, default=20)
    parser.add_argument("--parallel", type=int, default=32)
    given = parser.parse_args()
    for line in asyncio.run(
        measure(given.streams, given.segments, latency_ms=given.latency_ms, parallel=given.parallel)
    ):
        print(line)


if __name__ == "__main__":
    main()
