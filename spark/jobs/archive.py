"""The job ``archive``: executors upload completed segments, the driver publishes manifests."""

import asyncio
from collections.abc import Coroutine, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from pyspark.sql import SparkSession

from ...coldstore.archive.archive_service import check_archives_exist, unarchived_lssns
from ...coldstore.archive.manifest import Manifest
from ...coldstore.archive.segment_archiver import SegmentArchiver
from ...coldstore.stores.open_store import open_cold_store

_PAGE_STREAMS = 1000

SegmentKey = tuple[str, int]
"""Stream and LSSN."""


@dataclass(frozen=True, slots=True)
class ArchiveJob:
    """The cluster and the cold store of an archive job; pickled for executors."""

    metadata: str
    namespace: str
    region: str | None
    cold: str


def archive(
    spark: SparkSession, job: ArchiveJob, streams: Iterable[str] = (), *, tasks: int | None = None
) -> list[Manifest]:
    """Archive the completed segments of ``streams`` (default: all) that have no archive yet.

    Each task uploads segments and reads them back. The driver then publishes the manifests of each
    stream in order of LSSN. A crash leaves parts without a manifest, which the next attempt
    deletes. Safe to repeat and to run alongside other archivers (rule STR-22). Raises
    InvalidArgumentError, at the end, if the cold store lacks segments that were archived before.
    """
    names, segments = asyncio.run(_unarchived_segments(job, tuple(streams)))
    manifests = _archive_segments(spark, job, segments, tasks) if segments else []
    asyncio.run(_check_archives(job, names))
    return manifests


def _archive_segments(
    spark: SparkSession, job: ArchiveJob, segments: list[SegmentKey], tasks: int | None
) -> list[Manifest]:
    parallel = min(len(segments), tasks or spark.sparkContext.defaultParallelism)
    uploads = (
        spark.sparkContext.parallelize(segments, parallel)
        .mapPartitions(lambda partition: _upload(job, partition))
        .collect()
    )
    manifests = [(stream, Manifest.decode(data)) for stream, data in uploads]
    return asyncio.run(
        _commit(job, sorted(manifests, key=lambda upload: (upload[0], upload[1].lssn)))
    )


async def _check_archives(job: ArchiveJob, names: list[str]) -> None:
    from ...client.connect import Client

    cold = open_cold_store(job.cold)
    try:
        async with Client(job.metadata, namespace=job.namespace, region=job.region) as client:
            await check_archives_exist(client.namespace(), cold, names)
    finally:
        await cold.close()


async def _unarchived_segments(
    job: ArchiveJob, streams: tuple[str, ...]
) -> tuple[list[str], list[SegmentKey]]:
    """Return the streams of the job, and their completed segments without an archive."""
    from ...client.connect import Client

    async with Client(job.metadata, namespace=job.namespace, region=job.region) as client:
        namespace = client.namespace()
        names = list(streams)
        while not streams:
            after = names[-1] if names else None
            page = await namespace.streams(after=after, limit=_PAGE_STREAMS)
            names += page
            if not page:
                break
        return names, [
            (name, lssn) for name in names for lssn in await unarchived_lssns(namespace, name)
        ]


def _upload(job: ArchiveJob, segments: Iterable[SegmentKey]) -> Iterator[tuple[str, bytes]]:
    """Upload segments. Runs on an executor."""

    async def work() -> list[tuple[str, bytes]]:
        async with _ArchiverContext(job) as archiver:
            return [
                (stream, (await archiver.upload(stream, lssn)).encode())
                for stream, lssn in segments
            ]

    return iter(asyncio.run(work()))


async def _commit(job: ArchiveJob, uploads: list[tuple[str, Manifest]]) -> list[Manifest]:
    async with _ArchiverContext(job) as archiver:
        return [await archiver.commit(stream, manifest) for stream, manifest in uploads]


class _ArchiverContext:
    """A segment archiver with its own client and cold store, as a context manager."""

    def __init__(self, job: ArchiveJob) -> None:
        from ...client.connect import Client

        self._job = job
        self._cold = open_cold_store(job.cold)
        self._client = Client(job.metadata, namespace=job.namespace, region=job.region)

    async def __aenter__(self) -> SegmentArchiver:
        client = await self._client.__aenter__()
        return SegmentArchiver.for_namespace(
            self._job.namespace,
            self._cold,
            runtime=client.runtime,
            ledgers=client.namespace().ledgers,
            store=client.namespace().store,
        )

    def __aexit__(self, *_: object) -> Coroutine[Any, Any, None]:
        return self._close()

    async def _close(self) -> None:
        await self._client.aclose()
        await self._cold.close()
