"""Archives of streams that had the same name are never taken for one another (rule ARC-20)."""

import pytest

from rhumbline.core.protocol.errors import CorruptionError, InvalidPositionError
from rhumbline.spark.read.batch import RhumblineBatchReader
from rhumbline.spark.read.options import parse_options
from rhumbline.tests.unit.spark.streaming_world import Query, StreamingWorld

STREAM = "s"


def recreate(world: StreamingWorld, entries: list[int]) -> None:
    world.roll(STREAM)
    world.run(world.world.namespace.delete_stream(STREAM))
    world.pass_time(1000)
    old = len(world.truth[STREAM])
    world.write(STREAM, entries)  # other payloads, as their numbers continue
    del world.truth[STREAM][:old]
    world.roll(STREAM)


def payloads(**given: str) -> list[bytes]:
    """Return the payloads of a batch query."""
    fixed = {"archive": "file:///cold", "namespace": "test", "subscribe": STREAM}
    reader = RhumblineBatchReader(parse_options({**fixed, **given}, is_streaming=False))
    batches = [batch for split in reader.partitions() for batch in reader.read(split)]
    return [payload for batch in batches for payload in batch.column("payload").to_pylist()]


def test_a_query_with_the_cluster_reads_the_stream_that_has_the_name_now() -> None:
    """The records of the deleted stream were returned as those of the new one."""
    with StreamingWorld() as world:
        world.write(STREAM, [3, 2])
        world.roll(STREAM)
        world.archive(STREAM, 9)
        recreate(world, [3, 2])  # the same numbers of entries and records
        new = [payload for _, payload in world.truth[STREAM]]
        assert payloads(metadata="memory:") == new
        world.archive(STREAM, 9)
        assert payloads(metadata="memory:") == new
        assert payloads() == new, "without a cluster, the newest stream has the name"


def test_a_checkpoint_on_an_archive_is_refused_once_the_next_stream_is_archived() -> None:
    """180 new records, 20 delivered, and no error."""
    with StreamingWorld() as world:
        world.write(STREAM, [3, 2])
        world.roll(STREAM)
        world.archive(STREAM, 9)
        strict = Query(world, subscribe=STREAM)
        lenient = Query(world, subscribe=STREAM, failOnDataLoss="false")
        for query in (strict, lenient):
            assert query.begin(None) is not None
            query.plan()
            assert query.read() == world.truth
            query.finish()
        recreate(world, [1, 1, 5])
        assert strict.begin(None) is None, "nothing of the new stream is archived yet"
        world.archive(STREAM, 9)
        with pytest.raises(InvalidPositionError, match="another stream than s"):
            strict.begin(None)
        assert lenient.begin(None) is not None
        lenient.plan()
        assert lenient.read() == world.truth
        for query in (strict, lenient):
            query.reader.stop()


def test_a_damaged_manifest_fails_only_queries_that_include_its_segment() -> None:
    with StreamingWorld() as world:
        for _ in range(3):
            world.write(STREAM, [2])
            world.roll(STREAM)
        world.archive(STREAM, 9)
        key = next(one for one in world.cold.objects if "manifest-0000000000000000002" in one)
        world.cold.objects[key] = world.cold.objects[key][:-9]
        queries: list[dict[str, str]] = [{}, {"metadata": "memory:"}, {"failOnDataLoss": "false"}]
        for given in queries:
            with pytest.raises(CorruptionError, match=key):
                payloads(**given)
        expected = [payload for dlsn, payload in world.truth[STREAM] if dlsn.lssn == 3]
        assert payloads(startingOffsets='{"s": "3:0:0"}') == expected
