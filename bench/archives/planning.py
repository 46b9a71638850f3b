"""Measures how many calls of a cold store, and how much time, work on many streams takes.

Run ``python -m rhumbline.bench.archives.planning --streams 10000 --latency-ms 20``. It plans
queries, lists and verifies an archive in memory whose segments have 100 short records each. Every
call takes the given time, and at most ``--parallel`` calls run at a time, as with a store whose
client has so many connections.
"""

import argparse
import asyncio
import functools
import hashlib
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import replace

from ...coldstore.archive.archive_folder import part_name
from ...coldstore.archive.catalog import scan_manifests
from ...coldstore.archive.content_digest import ContentDigest
from ...coldstore.archive.manifest import CHAIN_START, Manifest, Part
from ...coldstore.archive.part import PartWriter
from ...coldstore.archive.schema import PartOrigin
from ...coldstore.config import ArchiveConfig
from ...coldstore.index.check_index import IndexCheck
from ...coldstore.index.indexed_listing import indexed_listing
from ...coldstore.index.indexer import Indexer
from ...coldstore.index.namespace_index import NamespaceIndex
from ...coldstore.proof.chain_tip import empty_tip
from ...coldstore.proof.chain_writer import ChainWriter
from ...coldstore.proof.verify_run import verify_all
from ...core.protocol.errors import NoSuchObjectError
from ...core.protocol.record_set import decode_entry, encode_record_set
from ...core.runtime.cold_store import ObjectStat

_NAMESPACE = "default"
_ENTRIES, _SET_RECORDS, _SIZE = 10, 10, 10
"""Entries of a segment, records of an entry, and bytes of a record."""
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
            store.add(manifest.part_key(manifest.parts[0]), _file(lssn)[0])
            store.add(manifest.key, manifest.encode())
            tip = (tip or empty_tip(manifest)).with_last(manifest)
            link = manifest.link
        if tip is not None:
            store.add(tip.folder.tip(tip.name), tip.encode())


def _manifest(stream: str, lssn: int, previous_link: str) -> Manifest:
    _, described, content_digest = _file(lssn)
    token = hashlib.sha256(f"{stream} {lssn}".encode()).hexdigest()[:16]
    part = replace(described, name=part_name(lssn, 0, token))
    return Manifest(
        namespace=_NAMESPACE, stream=stream,
        stream_identity=hashlib.sha256(stream.encode()).hexdigest()[:32], lssn=lssn,
        last_entry_id=part.last_entry_id, record_count=part.record_count,
        payload_bytes=part.payload_bytes, first_txid=part.first_txid, last_txid=part.last_txid,
        start_sequence_id=part.record_count * (lssn - 1), created_ms=lssn, completed_ms=lssn + 1,
        ends_stream=False, content_digest=content_digest, previous_link=previous_link,
        parts=(part,),
    )  # fmt: skip


@functools.cache
def _file(lssn: int) -> tuple[bytes, Part, str]:
    """Return the file of a segment, which all streams share, its description, and its digest."""
    digest = ContentDigest()
    origin = PartOrigin(_NAMESPACE, "stream", "0" * 32, lssn)
    writer = PartWriter(origin, ArchiveConfig().row_group_bytes)
    for entry_id in range(_ENTRIES):
        txids = range(_SET_RECORDS * entry_id + 1, _SET_RECORDS * (entry_id + 1) + 1)
        encoded = encode_record_set(
            [b"%0*d" % (_SIZE, txid) for txid in txids],
            first_txid=txids[0],
            last_txid=txids[-1],
            txids=txids,
            created_ms=lssn,
        )
        (record_set,) = decode_entry(encoded)
        digest.add(entry_id, record_set.slot, record_set.raw_crc)
        writer.add(entry_id, [record_set])
    data = writer.finish()
    return data, writer.describe("", data), digest.hex()


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
    await step("archive verify", lambda: _verify(store, parallel))
    return lines


async def _verify(store: CountingStore, parallel: int) -> None:
    """Verify every byte, as ``archive verify`` does. Raises AssertionError for a fault."""
    check = IndexCheck(store)
    await check.load()
    listing = await scan_manifests(store)
    results = await verify_all(store, listing, tasks=parallel)
    faults = [listing.faults, await check.faults(listing), *(result.faults for result in results)]
    assert not any(faults), faults


async def _continue(store: CountingStore, segments: int) -> None:
    """Publish the next manifest of one stream, as an archiver does."""
    chains = ChainWriter(store)
    last = _manifest("stream-000000", 0, CHAIN_START)
    link = await chains.previous_link(last.folder, segments + 1, oldest_lssn=1)
    manifest = _manifest("stream-000000", segments + 1, link)
    store.add(manifest.part_key(manifest.parts[0]), _file(segments + 1)[0])
    await chains.cover(await chains.publish(manifest, link))


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
