"""An archive of manifests in memory that grows as archivers make it grow."""

import asyncio
import hashlib
from collections.abc import Coroutine
from dataclasses import replace
from typing import Any

from rhumbline.bench.archives.planning import CountingStore
from rhumbline.coldstore.archive.archive_folder import ArchiveFolder, part_name
from rhumbline.coldstore.archive.cold_archives import ColdArchives
from rhumbline.coldstore.archive.manifest import CHAIN_START, Manifest, Part
from rhumbline.coldstore.archive.stream_index import StreamIndex
from rhumbline.coldstore.index.indexer import Indexer
from rhumbline.coldstore.index.namespace_index import NamespaceIndex
from rhumbline.coldstore.proof.chain_writer import ChainWriter

NAMESPACE = "test"


class MemoryStore(CountingStore):
    """A store whose objects tests may see and damage."""

    @property
    def objects(self) -> dict[str, bytes]:
        """The objects by key."""
        return self._objects

    def keys(self, kind: str) -> list[str]:
        """Return the keys of the index that contain ``kind``."""
        return sorted(key for key in self._objects if key.startswith(".index/") and kind in key)


class IndexWorld:
    """Chains of streams, an indexer and a reader."""

    def __init__(self, cold: MemoryStore | None = None) -> None:
        self.cold = cold or MemoryStore(parallel=8)
        self.chains: dict[ArchiveFolder, list[Manifest]] = {}
        self.indexer = Indexer(self.cold, NAMESPACE, pause_ms=1)
        self.reader = NamespaceIndex(self.cold, NAMESPACE)

    async def append(self, stream: str, segments: int = 1, *, identity: str = "") -> ArchiveFolder:
        """Archive the next segments of a stream."""
        identity = hashlib.sha256(f"{stream}{identity}".encode()).hexdigest()[:32]
        folder = ArchiveFolder(NAMESPACE, stream, identity[:12])
        chain = self.chains.setdefault(folder, [])
        writer = ChainWriter(self.cold)
        for _ in range(segments):
            link = chain[-1].link if chain else CHAIN_START
            made = _manifest(stream, identity, len(chain) + 1)
            chain.append(await writer.publish(made, link))
            self.cold.add(made.part_key(made.parts[0]), b"part")
            await writer.cover(chain[-1])
        return folder

    def lose_notes(self, *kinds: str) -> None:
        """Delete the objects of all notes; if ``kinds`` are given, only these of each note."""
        for kind in kinds or ("/changed/", "/noted/"):
            for key in self.cold.keys(kind):
                del self.cold.objects[key]

    async def expire(self, stream: str, below: int) -> list[int]:
        """Delete archives as retention does."""
        (chain,) = [one for folder, one in self.chains.items() if folder.stream == stream]
        archives = ColdArchives(self.cold, NAMESPACE)
        identity = chain[0].stream_identity
        return await archives.expire(stream, identity, below=below, completed_by_ms=2**60)

    def rewrite(self, folder: ArchiveFolder, lssn: int) -> Manifest:
        """Replace the files of a segment, as a compaction does, and return the new manifest."""
        old = self.chains[folder][lssn - 1]
        name = part_name(lssn, 0, "f" * 16)
        new = replace(old, parts=(replace(old.parts[0], name=name),))
        self.cold.add(new.part_key(new.parts[0]), b"part")
        self.cold.add(new.key, new.encode())
        return new

    async def read(self) -> dict[str, list[int]]:
        """Return the segments of each stream as a query sees them."""
        streams = await self.reader.refresh_matching(lambda _: True)
        return {name: list(self.reader.index(name).manifests) for name in streams}

    async def listed(self) -> dict[str, dict[int, Manifest]]:
        """Return the manifests of each stream according to listings alone."""
        found = {}
        for stream in sorted({folder.stream for folder in self.chains}):
            index = StreamIndex(self.cold, NAMESPACE, stream)
            await index.refresh()
            if index.manifests.covered:
                found[stream] = dict(index.manifests)
        return found

    async def check(self) -> None:
        """Check that readers, old and new, see what listings show."""
        expected = await self.listed()
        for reader in (self.reader, NamespaceIndex(self.cold, NAMESPACE)):
            streams = await reader.refresh_matching(lambda _: True)
            assert {name: dict(reader.index(name).manifests) for name in streams} == expected

    def run(self, work: Coroutine[Any, Any, None]) -> None:
        """Run a test."""
        asyncio.run(work)


def _manifest(stream: str, identity: str, lssn: int) -> Manifest:
    digest = hashlib.sha256(f"{stream} {identity} {lssn}".encode()).hexdigest()
    part = Part(part_name(lssn, 0, digest[:16]), 0, 9, 1, 100, 100, 1000, 4, digest, digest)
    return Manifest(
        namespace=NAMESPACE, stream=stream, stream_identity=identity, lssn=lssn,
        last_entry_id=9, record_count=100, payload_bytes=1000, first_txid=1, last_txid=100,
        start_sequence_id=100 * (lssn - 1), created_ms=lssn, completed_ms=lssn + 1,
        ends_stream=False, content_digest=digest, previous_link=CHAIN_START, parts=(part,),
    )  # fmt: skip
