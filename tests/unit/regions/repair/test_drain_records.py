"""The beginning of a drain is remembered, and gives an estimate to any process."""

import pytest

from rhumbline.backends.memory import MemoryStore
from rhumbline.core.protocol.errors import CorruptionError
from rhumbline.regions.repair.drain_records import DrainRecord, DrainRecords, region_target
from rhumbline.tests.support.fakes.jumping_loop import run_jumping

pytestmark = pytest.mark.run_by(runner=run_jumping)


def test_the_rest_takes_as_long_as_the_part_that_has_moved() -> None:
    record = DrainRecord(1_000, 400)
    assert record.left_ms(300, 6_000) == 15_000
    assert record.left_ms(0, 6_000) == 0
    assert record.left_ms(400, 6_000) is None, "nothing has moved yet"
    assert record.left_ms(500, 6_000) is None, "more is there than at the beginning"


async def test_the_first_record_stays_until_the_drain_ends() -> None:
    records = DrainRecords(MemoryStore())
    target = region_target("north")
    assert await records.read(target) is None
    first = DrainRecord(1, 10)
    assert await records.begin(target, first) == first
    assert await records.begin(target, DrainRecord(2, 9)) == first
    await records.end(target)
    await records.end(target)
    assert await records.read(target) is None


async def test_a_record_that_does_not_parse_is_corrupt() -> None:
    store = MemoryStore()
    records = DrainRecords(store)
    await records.begin("b@00000001", DrainRecord(1, 10))
    path = "/ledgers/rhumbline/repair/drains/b@00000001"
    value = await store.get(path)
    await store.put(path, b"{}", expect=value.version)
    with pytest.raises(CorruptionError):
        await records.read("b@00000001")
