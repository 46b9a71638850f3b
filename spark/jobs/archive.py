"""The job ``archive``: executors upload completed segments, the driver publishes manifests."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar

from pyspark.sql import SparkSession

from ...coldstore.archive.archive_service import check_archives_exist, unarchived_lssns
from ...coldstore.archive.manifest import Manifest
from ...coldstore.archive.segment_archiver import SegmentArchiver
from ...coldstore.index.indexer import Indexer
from ...coldstore.stores.open_store import open_cold_store
from ...core.protocol.errors import RhumblineError

T = TypeVar("T")

_PAGE_STREAMS = 1000
_PARALLEL_STREAMS = 32
"""Number of streams that the driver plans or publishes at a time."""

SegmentKey = tuple[str, int]
"""Stream and LSSN."""


@dataclass(frozen=True, slots=True)
class ArchiveJob:
    """The cluster and the cold store of an archive job; pickled for executors."""

    metadata: str
    namespace: str
    region: str | None
    cold: str


class ArchiveOutcome(NamedTuple):
    """The segments that were archived, and the error of each stream that could not be."""

    manifests: list[Manifest]
    faults: dict[str, str]


class _Upload(NamedTuple):
    """The outcome of one upload: an encoded manifest, or an error."""

    stream: str
    lssn: int
    manifest: bytes
    fault: str


def archive(
    spark: SparkSession, job: ArchiveJob, streams: Iterable[str] = (), *, tasks: int | None = None
) -> ArchiveOutcome:
    """Archive the completed segments of ``streams`` (default: all) that have no archive yet.

    Each task uploads segments and reads them back. The driver then publishes the manifests of each
    stream in order of LSSN. A stream that fails is archived up to the segment that failed, and
    does not affect the others. A crash leaves parts without a manifest, which the next attempt
    deletes. Safe to repeat and to run alongside other archivers (rule STR-22). Raises
    InvalidArgumentError, at the end, if the cold store lacks segments that were archived before.
    """
    plan = asyncio.run(_unarchived_segments(job, tuple(streams)))
    done = _archive_segments(spark, job, plan.segments, tasks) if plan.segments else []
    manifests, faults = asyncio.run(_commit(job, done)) if done else ([], {})
    faults = {**plan.faults, **faults}
    asyncio.run(_check_archives(job, [name for name in plan.streams if name not in faults]))
    return ArchiveOutcome(manifests, faults)


def _archive_segments(
    spark: SparkSession, job: ArchiveJob, segments: list[SegmentKey], tasks: int | None
) -> list[_Upload]:
    parallel = min(len(segments), tasks or 4 * spark.sparkContext.defaultParallelism)
    return (
        spark.sparkContext.parallelize(segments, parallel)
        .mapPartitions(lambda partition: _upload(job, partition))
        .collect()
    )


async def _check_archives(job: ArchiveJob, names: list[str]) -> None:
    from ...client.connect import Client

    cold = open_cold_store(job.cold)
    try:
        async with Client(job.metadata, namespace=job.namespace, region=job.region) as client:
            await check_archives_exist(client.namespace(), cold, names)
        await Indexer(cold, job.namespace).run_once()
    finally:
        await cold.close()


class _Plan(NamedTuple):
    """The streams of the job, their completed segments without an archive, errors by stream."""

    streams: list[str]
    segments: list[SegmentKey]
    faults: dict[str, str]


async def _unarchived_segments(job: ArchiveJob, streams: tuple[str, ...]) -> _Plan:
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
        found, faults = await _by_stream(names, lambda name: unarchived_lssns(namespace, name))
        return _Plan(names, [(name, lssn) for name in found for lssn in found[name]], faults)


async def _by_stream(
    names: Iterable[str], work: Callable[[str], Awaitable[T]]
) -> tuple[dict[str, T], dict[str, str]]:
    """Run ``work`` for many streams at a time; return the results and the errors by stream."""
    limit = asyncio.Semaphore(_PARALLEL_STREAMS)
    found: dict[str, T] = {}
    faults: dict[str, str] = {}

    async def one(name: str) -> None:
        async with limit:
            try:
                found[name] = await work(name)
            except RhumblineError as error:
                faults[name] = str(error)

    wanted = list(names)
    async with asyncio.TaskGroup() as group:
        for name in wanted:
            group.create_task(one(name))
    return {name: found[name] for name in wanted if name in found}, faults


def _upload(job: ArchiveJob, segments: Iterable[SegmentKey]) -> Iterator[_Upload]:
    """Upload segments. Runs on an executor."""

    async def work() -> list[_Upload]:
        done = []
        async with _ArchiverContext(job) as archiver:
            for stream, lssn in segments:
                try:
                    manifest = await archiver.upload(stream, lssn)
                except RhumblineError as error:
                    done.append(_Upload(stream, lssn, b"", str(error)))
                else:
                    done.append(_Upload(stream, lssn, manifest.encode(), ""))
        return done

    return iter(asyncio.run(work()))


async def _commit(job: ArchiveJob, uploads: list[_Upload]) -> tuple[list[Manifest], dict[str, str]]:
    """Publish the uploaded segments of each stream in order, up to the first that failed."""
    by_stream: dict[str, list[_Upload]] = {}
    for upload in sorted(uploads):
        by_stream.setdefault(upload.stream, []).append(upload)
    committed: list[Manifest] = []
    async with _ArchiverContext(job) as archiver:

        async def commit(stream: str) -> None:
            for upload in by_stream[stream]:
                if upload.fault:
                    raise RhumblineError(upload.fault)
                manifest = Manifest.decode(upload.manifest)
                committed.append(await archiver.commit(stream, manifest))

        _, faults = await _by_stream(by_stream, commit)
    return sorted(committed, key=lambda manifest: (manifest.folder, manifest.lssn)), faults


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
