"""The state of a bookie follows from its disk, its log and the operator's command."""

import asyncio
from itertools import product

import pytest

from rhumbline.core.bookie.bookie import Bookie
from rhumbline.core.bookie.config import BookieConfig
from rhumbline.core.bookie.life_cycle import BookieEvent, BookieState, admission
from rhumbline.core.protocol.errors import DiskFailedError, DiskFullError
from rhumbline.tests.unit.core.bookie.bookie_world import one_bookie
from rhumbline.tests.unit.core.bookie.memory_disk import MemoryDisk


def test_admission_follows_the_worst_fact() -> None:
    for is_failed, has_reserve, has_room, is_commanded in product((False, True), repeat=4):
        event = admission(
            is_failed=is_failed,
            has_reserve=has_reserve,
            has_room=has_room,
            is_read_only_by_command=is_commanded,
        )
        assert (event is BookieEvent.FAIL) == is_failed
        if not is_failed:
            assert (event is BookieEvent.ADMIT_NONE) == (not has_reserve)
            may_add = has_reserve and has_room and not is_commanded
            assert (event is BookieEvent.ADMIT_ALL) == may_add


async def test_bookie_goes_through_its_states() -> None:
    async with one_bookie(BookieConfig(), MemoryDisk()) as (_, bookie, _):
        service = bookie.service
        seen = [bookie.state]
        assert service.accepts_adds
        bookie.set_read_only(True)
        seen.append(bookie.state)
        assert (service.accepts_adds, service.accepts_recovery_adds) == (False, True)
        bookie.set_read_only(True)
        bookie.set_read_only(False)
        seen.append(bookie.state)
        assert service.accepts_adds
        service.log_failed(DiskFailedError("the disk is broken"))
        bookie.set_read_only(False)
        seen.append(bookie.state)
        assert not service.accepts_adds and not service.accepts_recovery_adds
        await bookie.aclose()
        seen.append(bookie.state)
        names = [state.name for state in seen]
        assert names == ["WRITABLE", "READ_ONLY", "WRITABLE", "FAILED", "CLOSED"]
        assert "WRITABLE -> FAILED by FAIL (the disk is broken)" in bookie.story()


async def test_bookie_that_closes_accepts_no_adds_though_space_is_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Space that was found during the shutdown made the bookie accept adds which nobody wrote."""
    disk = MemoryDisk()
    async with one_bookie(BookieConfig(space_check_ms=5), disk) as (_, bookie, _):
        disk.room = 10
        await _wait_for(bookie, BookieState.FULL)
        may_close = asyncio.Event()
        close_storage = bookie.storage.aclose

        async def close_late() -> None:
            await may_close.wait()
            await close_storage()

        monkeypatch.setattr(bookie.storage, "aclose", close_late)
        closing = asyncio.create_task(bookie.aclose())
        disk.room = None
        await asyncio.sleep(0.05)
        assert bookie.state is BookieState.CLOSING
        assert not bookie.service.accepts_adds
        may_close.set()
        await closing


async def test_write_without_space_makes_the_bookie_full_before_the_next_check() -> None:
    async with one_bookie(BookieConfig(), MemoryDisk()) as (_, bookie, _):
        bookie.service.space_ran_out(DiskFullError("no space left"))
        assert bookie.state is BookieState.FULL
        assert (bookie._space.has_room, bookie._space.has_reserve) == (False, False)
        assert not bookie.service.accepts_recovery_adds
        await bookie._space.check()
        assert not bookie.is_read_only


async def _wait_for(bookie: Bookie, state: BookieState) -> None:
    for _ in range(400):
        if bookie.state is state:
            return
        await asyncio.sleep(0.005)
    raise AssertionError(f"{bookie.story()}: never {state}")
