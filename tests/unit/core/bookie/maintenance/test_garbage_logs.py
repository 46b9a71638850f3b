"""While space is short, logs are compacted up to the last one with garbage, and no others."""

from dataclasses import replace

from rhumbline.core.bookie.maintenance.duty_cycle import do_nothing
from rhumbline.core.bookie.maintenance.garbage_logs import GarbageLogs
from rhumbline.core.wire import v2
from rhumbline.core.wire.v2 import Code
from rhumbline.tests.unit.core.bookie.bookie_world import KEY, Wire, entry, one_bookie
from rhumbline.tests.unit.core.bookie.small_files import PAYLOAD, SMALL, all_there, fill

QUIET = replace(SMALL, collect_ms=3_600_000, sealed_logs_kept=99)


async def fill_one(wire: Wire, ledger_id: int, count: int) -> None:
    for number in range(count):
        wire.send(v2.encode_add(KEY, entry(ledger_id, number, PAYLOAD)))
        assert v2.decode_response(await wire.frame())[0] == Code.OK


async def test_logs_count_up_to_the_last_one_with_garbage() -> None:
    async with one_bookie(QUIET) as (_, bookie, wire):
        bookie._maintenance_task.cancel()  # type: ignore[union-attr]
        storage = bookie.storage
        garbage = GarbageLogs(storage, do_nothing)
        await fill(wire, 60)
        await fill_one(wire, 4, 30)
        middle = len(storage.sealed_logs)
        await fill_one(wire, 5, 200)
        logs = list(storage.sealed_logs)
        assert 1 < middle < len(logs) - 1
        await garbage.count_again()
        assert garbage.count == 0
        storage.delete_ledger(4)
        await garbage.count_again()
        assert middle <= garbage.count <= middle + 1
        garbage.oldest_removed()
        count = garbage.count
        await garbage.count_again()
        assert garbage.count == count, "nothing was deleted since"
        await bookie.maintenance.step()
        assert storage.sealed_logs == logs, "there is room"


async def test_full_bookie_compacts_only_logs_that_free_space_and_seals_the_current_one() -> None:
    async with one_bookie(QUIET) as (_, bookie, wire):
        bookie._maintenance_task.cancel()  # type: ignore[union-attr]
        storage, space = bookie.storage, bookie._space
        await fill(wire, 100)
        logs = list(storage.sealed_logs)
        space.mark_full()
        await bookie.maintenance.step()
        assert storage.sealed_logs == logs, "all of it is live"
        for ledger_id in (1, 2):
            storage.delete_ledger(ledger_id)
        space.mark_full()
        await bookie.maintenance.step()
        space.mark_full()
        await bookie.maintenance.step()
        assert not set(logs) & set(storage.sealed_logs)
        await all_there(wire, (3,), 100)
