"""Readers get the same records, positions and sequence ids from the archive as from ledgers."""

import asyncio
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rhumbline.coldstore.archive import segment_archiver as archive_module
from rhumbline.coldstore.archive.catalog import list_manifests
from rhumbline.coldstore.config import ArchiveConfig
from rhumbline.coldstore.ledger import archived_ledger
from rhumbline.coldstore.restore.restore import check_chain
from rhumbline.core.log.policy import StreamPolicy
from rhumbline.core.protocol.dlsn import Dlsn
from rhumbline.core.protocol.errors import (
    ConfigurationError,
    CorruptionError,
    NoSuchLedgerError,
    RhumblineError,
    TruncatedError,
)
from rhumbline.core.protocol.record_set import Kind, decode_entry, encode_control, encode_record_set
from rhumbline.core.protocol.segments import Residence
from rhumbline.core.protocol.start import AtSequenceId, AtTxid
from rhumbline.tests.support.fakes.log_world import LogWorld
from rhumbline.tests.unit.coldstore.archive.archive_world import (
    DictColdStore,
    archive_segments,
    comparable,
    fill_stream,
    read_records,
)


class CrashError(RhumblineError):
    """A simulated crash of the process."""

    code = "test-crash"


@pytest.fixture(autouse=True)
def small_files(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make segments of many parts, row groups and reads, so that tests cross all boundaries."""
    small = ArchiveConfig(part_bytes=2000, row_group_bytes=25)
    monkeypatch.setattr(archive_module, "DEFAULTS", small)
    monkeypatch.setattr(archived_ledger, "CHUNK_BYTES_MAX", 300)


async def test_the_archive_returns_the_same_records(world: LogWorld) -> None:
    await fill_stream(world)
    before = comparable(await read_records(world))
    await archive_segments(world, DictColdStore())
    assert (await world.namespace.maintain("s")).retired == (1, 2, 3, 4)
    assert world.ledgers.ledgers == {}
    assert comparable(await read_records(world)) == before
    assert len(before) == 120


async def test_archived_hot_and_open_segments_form_one_stream(world: LogWorld) -> None:
    await fill_stream(world)
    await archive_segments(world, DictColdStore(), upto=3)
    assert (await world.namespace.maintain("s")).retired == (1, 2)
    residences = [s.residence for s in await world.segments("s")]
    assert residences == [Residence.ARCHIVE] * 2 + [Residence.HOT] * 2
    writer = await world.writer("s")
    await writer.append(b"tail")
    await writer.flush()
    records = await read_records(world)
    assert len(records) == 121
    assert [r.sequence_id for r in records] == list(range(121))
    await writer.close()


async def test_reading_starts_at_any_archived_record(world: LogWorld) -> None:
    await fill_stream(world)
    all_fields = comparable(await read_records(world))
    records = await read_records(world)
    await archive_segments(world, DictColdStore())
    await world.namespace.maintain("s")
    for n in range(0, 120, 7):
        record = records[n]
        assert comparable(await read_records(world, record.dlsn)) == all_fields[n:]
        assert comparable(await read_records(world, AtSequenceId(n))) == all_fields[n:]
        first = next(i for i, r in enumerate(records) if r.txid >= record.txid)
        assert comparable(await read_records(world, AtTxid(record.txid))) == all_fields[first:]


async def test_a_reader_continues_when_its_ledger_is_deleted(world: LogWorld) -> None:
    await fill_stream(world)
    before = comparable(await read_records(world))
    await archive_segments(world, DictColdStore())
    world.ledgers.batch_entries_max = 1
    async with await world.namespace.open_reader("s", Dlsn(1, 0, 0)) as reader:
        seen = [await anext(reader) for _ in range(2)]
        await world.namespace.maintain("s")
        seen += [await asyncio.wait_for(anext(reader), 60) for _ in range(118)]
    assert comparable(seen) == before


async def test_reading_without_the_archive_names_the_setting(world: LogWorld) -> None:
    await fill_stream(world)
    await archive_segments(world, DictColdStore())
    await world.namespace.maintain("s")
    world.archives = None
    world.namespace = world.open_namespace()
    with pytest.raises(ConfigurationError, match="only in the archive"):
        await read_records(world)


async def test_a_hot_copy_is_kept_if_its_archive_is_damaged(world: LogWorld) -> None:
    await fill_stream(world)
    cold = DictColdStore()
    await archive_segments(world, cold)
    part = next(k for k in cold.objects if "/segment-0000000000000000002-" in k)
    data = cold.objects.pop(part)
    for broken in (None, data[:-1]):
        if broken is not None:
            cold.objects[part] = broken
        with pytest.raises(CorruptionError):
            await world.namespace.maintain("s")
        residences = [s.residence for s in await world.segments("s")]
        assert residences == [Residence.ARCHIVE] + [Residence.HOT_AND_ARCHIVE] * 3
    cold.objects[part] = data
    assert (await world.namespace.maintain("s")).retired == (2, 3, 4)


async def test_a_crash_while_retiring_leaves_no_ledger_behind(world: LogWorld) -> None:
    await fill_stream(world)
    before = comparable(await read_records(world))
    await archive_segments(world, DictColdStore())
    client = world.namespace._ledgers
    delete = client.delete
    failures = iter([True, False, True, False, False, True])

    async def failing(ledger_id: int) -> None:
        if next(failures, False):
            raise CrashError("simulated crash")
        await delete(ledger_id)

    client.delete = failing  # type: ignore[method-assign]
    for _ in range(8):
        try:
            await world.namespace.maintain("s")
        except CrashError:
            continue
    assert world.ledgers.ledgers == {}
    assert comparable(await read_records(world)) == before


async def test_recent_segments_and_producer_snapshots_stay_hot(world: LogWorld) -> None:
    policy = StreamPolicy(roll_bytes=1 << 40, hot_retention_ms=1000)
    for number in range(3):
        writer = await world.writer("s", policy)
        await writer.append_numbered(b"p" * 16, number, [b"x"])
        await writer.close()
    await archive_segments(world, DictColdStore())
    assert (await world.namespace.maintain("s")).retired == ()
    world.clock.now_ms += 1000
    retired = (await world.namespace.maintain("s")).retired
    newest = (await world.segments("s"))[-1]
    assert retired == tuple(range(1, newest.producers_lssn))
    writer = await world.writer("s")
    assert writer.last_sequence(b"p" * 16) == 2
    await writer.close()


async def test_a_purge_keeps_the_archive_until_its_own_retention_ends(world: LogWorld) -> None:
    await fill_stream(world)
    cold = DictColdStore()
    await archive_segments(world, cold)
    await world.namespace.maintain("s")
    await world.namespace.truncate("s", Dlsn(3, 0, 0))
    assert (await world.namespace.maintain("s")).purged == ()
    world.clock.now_ms += 3_600_000
    done = await world.namespace.maintain("s")
    assert (done.purged, done.expired) == ((1, 2), ())
    assert [m.lssn for m in await list_manifests(cold)] == [1, 2, 3, 4]
    with pytest.raises(TruncatedError):
        await read_records(world, Dlsn(1, 0, 0))
    assert len(await read_records(world)) == 60

    completed_ms = [m.completed_ms for m in await list_manifests(cold)]
    age_ms = world.clock.now_ms - completed_ms[1]
    policy = (await world.namespace.describe("s")).policy
    longer = replace(policy, archive_retention_ms=age_ms + 1)
    await world.namespace.set_stream_policy("s", longer)
    assert (await world.namespace.maintain("s")).expired == tuple(
        n for n in (1, 2) if completed_ms[n - 1] < completed_ms[1]
    )
    await world.namespace.set_stream_policy("s", replace(policy, archive_retention_ms=0))
    await world.namespace.maintain("s")
    assert [m.lssn for m in await list_manifests(cold)] == [3, 4], "what the stream has is kept"
    assert not [key for key in await cold.list("test") if "-0000000000000000001" in key]
    assert len(await read_records(world)) == 60


async def test_archives_of_an_earlier_stream_of_the_name_do_not_expire(world: LogWorld) -> None:
    await fill_stream(world)
    cold = DictColdStore()
    await archive_segments(world, cold)
    assert world.archives is not None
    late_ms = world.clock.now_ms
    assert await world.archives.expire("s", "other", below=9, completed_by_ms=late_ms) == []
    identity = (await world.namespace.describe("s")).identity
    partial = next(key for key in cold.objects if "/manifest-0000000000000000002" in key)
    del cold.objects[partial]  # an interrupted deletion: parts without a manifest
    expired = await world.archives.expire("s", identity, below=4, completed_by_ms=late_ms)
    assert expired == [1, 2, 3]
    assert [m.lssn for m in await list_manifests(cold)] == [4]
    assert not [key for key in await cold.list("test") if "-0000000000000000002" in key]


async def test_the_chain_of_archives_continues_over_purged_segments(world: LogWorld) -> None:
    await fill_stream(world)
    cold = DictColdStore()
    await archive_segments(world, cold, upto=3)
    await world.namespace.truncate("s", Dlsn(3, 0, 0))
    world.clock.now_ms += 3_600_000
    assert (await world.namespace.maintain("s")).purged == (1, 2)
    await archive_segments(world, cold)
    check_chain(await list_manifests(cold))


async def test_a_deleted_archive_is_reported_as_a_missing_ledger(world: LogWorld) -> None:
    await fill_stream(world, segments=2)
    cold = DictColdStore()
    await archive_segments(world, cold)
    await world.namespace.maintain("s")
    segment = (await world.segments("s"))[0]
    assert world.archives is not None
    reader = await world.archives.open("s", segment)
    for key in list(cold.objects):
        if key.endswith(".parquet"):
            del cold.objects[key]
    with pytest.raises(NoSuchLedgerError):
        await reader.read(segment.last_entry_id, segment.last_entry_id)
    with pytest.raises(NoSuchLedgerError):
        await world.archives.open("s", segment)
    await reader.aclose()


sets = st.lists(st.binary(max_size=5), min_size=1, max_size=3)
entries = st.lists(st.lists(st.one_of(st.none(), sets), min_size=1, max_size=3), max_size=10)


@settings(max_examples=60, deadline=None)
@given(entries)
def test_entries_are_rebuilt_with_the_same_slots_and_positions(
    shape: list[list[list[bytes] | None]],
) -> None:
    """``None`` is a control record, alone in its entry or between data."""

    async def check(world: LogWorld) -> None:
        await world.namespace.create_stream("s", StreamPolicy(hot_retention_ms=0))
        writer = await world.writer("s")
        ledger = list(world.ledgers.ledgers.values())[-1]
        position = 0
        for sets_of_entry in shape:
            payload = b""
            for one in sets_of_entry:
                if one is None:
                    payload += encode_control(Kind.FLUSH, txid=1, position=position, created_ms=0)
                else:
                    payload += encode_record_set(one, first_txid=1, last_txid=1, position=position)
                    position += len(one)
            ledger.entries.append(payload)
        ledger.acked = len(shape) - 1
        expected = [decode_entry(entry) for entry in ledger.entries]
        later = await world.writer("s")
        await archive_segments(world, DictColdStore())
        segment = (await world.segments("s"))[0]
        if segment.is_empty:
            return
        assert world.archives is not None
        reader = await world.archives.open("s", segment)
        at = 0
        while at < len(expected):
            for entry in await reader.read(at, segment.last_entry_id):
                assert entry.entry_id == at
                found = decode_entry(entry.payload)
                assert [
                    (one.slot, one.position, one.payloads()) for one in found if not one.is_control
                ] == [
                    (one.slot, one.position, one.payloads())
                    for one in expected[at]
                    if not one.is_control
                ]
                at += 1
        await reader.aclose()
        writer._pipeline.fail(RhumblineError("over"))
        await later.close()

    world = LogWorld.create()
    world.run(check(world))


async def test_the_archive_of_another_stream_of_the_name_is_not_found(world: LogWorld) -> None:
    """Archives outlive their stream, and their keys name its id (rule ARC-20)."""
    await fill_stream(world, segments=1)
    await archive_segments(world, DictColdStore())
    segment = (await world.segments("s"))[0]
    assert world.archives is not None
    await world.archives.check("s", segment)
    other = replace(segment, stream_id="0123456789ab")
    with pytest.raises(NoSuchLedgerError, match="no archive"):
        await world.archives.open("s", other)
    with pytest.raises(CorruptionError, match="is missing"):
        await world.archives.check("s", other)
