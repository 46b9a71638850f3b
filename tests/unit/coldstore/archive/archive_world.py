"""Streams with archived segments in a world of fake ledgers, and a cold store in memory."""

from rhumbline.coldstore.archive.cold_archives import ColdArchives
from rhumbline.coldstore.archive.manifest import Manifest
from rhumbline.coldstore.archive.segment_archiver import SegmentArchiver
from rhumbline.coldstore.config import ArchiveConfig
from rhumbline.core.log.metadata.stream_store import StreamStore
from rhumbline.core.log.policy import StreamPolicy
from rhumbline.core.log.read.record_batch import Record
from rhumbline.core.protocol.errors import NoSuchObjectError
from rhumbline.core.protocol.start import EARLIEST, LATEST, Start
from rhumbline.core.runtime.cold_store import ColdStore, ObjectStat
from rhumbline.tests.support.fakes.log_world import LogWorld


class DictColdStore:
    """A cold store in a dict that counts the bytes that ``get`` returned."""

    uri = "memory:"

    def __init__(self) -> None:
        self.objects: dict[str, bytes] = {}
        self.bytes_read = 0

    async def put_if_absent(self, key: str, data: bytes) -> bool:
        return self.objects.setdefault(key, data) is data

    async def get(self, key: str, offset: int = 0, length: int | None = None) -> bytes:
        if key not in self.objects:
            raise NoSuchObjectError(key)
        data = self.objects[key][offset : None if length is None else offset + length]
        self.bytes_read += len(data)
        return data

    async def stat(self, key: str) -> ObjectStat:
        if key not in self.objects:
            raise NoSuchObjectError(key)
        return ObjectStat(len(self.objects[key]), None)

    async def list(self, prefix: str = "") -> list[str]:
        return sorted(key for key in self.objects if key.startswith(prefix))

    async def delete(self, key: str) -> None:
        self.objects.pop(key, None)

    async def close(self) -> None:
        return


async def archive_segments(
    world: LogWorld,
    cold: ColdStore,
    stream: str = "s",
    upto: int | None = None,
    config: ArchiveConfig | None = None,
) -> list[Manifest]:
    """Archive every completed segment of ``stream`` (below ``upto``), in order."""
    streams = StreamStore(world.store, "test")
    archiver = SegmentArchiver(world.runtime, cold, world.ledgers.client(), streams, config=config)
    world.archives = ColdArchives(cold, "test")
    world.namespace = world.open_namespace()
    return [
        await archiver.archive(stream, segment.lssn)
        for segment in await world.segments(stream)
        if segment.is_completed and (upto is None or segment.lssn < upto)
    ]


async def fill_stream(world: LogWorld, segments: int = 4, records: int = 30) -> None:
    """Fill stream "s", whose hot copies may be deleted as soon as they are archived."""
    policy = StreamPolicy(roll_bytes=1 << 40, hot_retention_ms=0)
    for number in range(segments):
        writer = await world.writer("s", policy)
        for n in range(records):
            payload, txid = b"%d/%d" % (number, n), 1 + number * records + n // 2
            if number % 2 == 0 or n < records // 2:
                writer.append(payload, txid)
            else:  # from the middle of every second segment on
                key = b"k%d" % n if n % 3 else None
                headers = {"n": b"%d" % n} if n % 2 else None
                writer.append(payload, txid, key=key, headers=headers, event_time=n)
            if n % 7 == 0:
                await writer.flush()
        await writer.close()


async def read_records(world: LogWorld, start: Start = EARLIEST, stream: str = "s") -> list[Record]:
    """Return every record from ``start`` to the last one that is visible now."""
    async with await world.namespace.open_reader(stream, LATEST) as at_end:
        until = at_end.position
    records: list[Record] = []
    async with await world.namespace.open_reader(stream, start) as reader:
        while (batch := await reader.next_batch(until=until)) is not None:
            records.extend(batch.records())
    return records


def comparable(records: list[Record]) -> list[tuple[object, ...]]:
    """Return the fields that must be equal for the ledger and the archive."""
    return [
        (
            *(r.dlsn, r.sequence_id, r.txid, r.payload, r.created_ms, r.producer),
            *(r.key, dict(r.headers), r.event_time),
        )
        for r in records
    ]
