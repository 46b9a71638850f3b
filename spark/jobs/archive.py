"""The job ``archive``: executors copy completed segments, the driver links them in order."""

import asyncio
from collections.abc import Coroutine, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from pyspark.sql import SparkSession

from ...coldstore.archive.archive_service import unarchived_lssns
from ...coldstore.archive.manifest import Manifest
from ...coldstore.archive.segment_archiver import SegmentArchiver
from ...coldstore.stores.open_store import open_cold_store

_LISTED_MAX = 1000

SegmentKey = tuple[str, int]
"""Stream and LSSN."""


@dataclass(frozen=True, slots=True)
class ArchiveJob:
    """Where the segments are and where their archive is; travels to executors."""

    metadata: str
    namespace: str
    region: str | None
    cold: str


def archive(
    spark: SparkSession, place: ArchiveJob, streams: Iterable[str] = (), *, tasks: int | None = None
) -> list[Manifest]:
    """Archives the completed segments of ``streams`` (default: all) that have no archive yet.

    Each task uploads and reads back segments, of whatever streams; the driver then puts the
    manifests in order of LSSN. A crash leaves parts that no manifest names, which the next attempt
    sweeps. Safe to repeat, and to run beside other archivers.
    """
    waiting = asyncio.run(_waiting(place, tuple(streams)))
    if not waiting:
        return []
    parallel = min(len(waiting), tasks or spark.sparkContext.defaultParallelism)
    uploads = (
        spark.sparkContext.parallelize(waiting, parallel)
        .mapPartitions(lambda segments: _uploaded(place, segments))
        .collect()
    )
    manifests = [(stream, Manifest.decode(data)) for stream, data in uploads]
    return asyncio.run(_committed(place, sorted(manifests, key=lambda one: (one[0], one[1].lssn))))


async def _waiting(place: ArchiveJob, streams: tuple[str, ...]) -> list[SegmentKey]:
    from ...client.connect import Client

    async with Client(place.metadata, namespace=place.namespace, region=place.region) as client:
        namespace = client.namespace()
        names = list(streams)
        while not streams:
            after = names[-1] if names else None
            page = await namespace.streams(after=after, limit=_LISTED_MAX)
            names += page
            if not page:
                break
        return [(name, lssn) for name in names for lssn in await unarchived_lssns(namespace, name)]


def _uploaded(place: ArchiveJob, segments: Iterable[SegmentKey]) -> Iterator[tuple[str, bytes]]:
    """On an executor."""

    async def work() -> list[tuple[str, bytes]]:
        async with _Archiving(place) as archiver:
            return [
                (stream, (await archiver.upload(stream, lssn)).encode())
                for stream, lssn in segments
            ]

    return iter(asyncio.run(work()))


async def _committed(place: ArchiveJob, uploads: list[tuple[str, Manifest]]) -> list[Manifest]:
    async with _Archiving(place) as archiver:
        return [await archiver.commit(stream, manifest) for stream, manifest in uploads]


class _Archiving:
    """An archiver with what it needs, as a context."""

    def __init__(self, place: ArchiveJob) -> None:
        from ...client.connect import Client

        self._place = place
        self._cold = open_cold_store(place.cold)
        self._client = Client(place.metadata, namespace=place.namespace, region=place.region)

    async def __aenter__(self) -> SegmentArchiver:
        client = await self._client.__aenter__()
        return SegmentArchiver.for_namespace(
            self._place.namespace,
            self._cold,
            runtime=client.runtime,
            ledgers=client.ledgers,
            store=client.store,
        )

    def __aexit__(self, *_: object) -> Coroutine[Any, Any, None]:
        return self._close()

    async def _close(self) -> None:
        await self._client.aclose()
        await self._cold.close()
