"""Pauses and the share of the time that compaction may take."""

import asyncio

import pytest

from rhumbline.core.bookie.background_pace import SHARE_MIN, BackgroundPace
from rhumbline.core.bookie.config import BookieConfig
from rhumbline.core.bookie.maintenance.duty_cycle import DutyCycle
from rhumbline.tests.support.fakes.jumping_loop import run_jumping
from rhumbline.tests.unit.core.bookie.bookie_world import entry, one_bookie


@pytest.mark.parametrize(("share", "pause_ms"), [(0.1, 90), (0.5, 10), (1.0, 0)])
@pytest.mark.run_by(runner=run_jumping)
async def test_pause_length_follows_from_the_share(share: float, pause_ms: int) -> None:
    loop = asyncio.get_running_loop()
    duty_cycle = DutyCycle(lambda: share)
    duty_cycle.begin()
    for _ in range(3):
        await asyncio.sleep(0.01)  # the work
        before_s = loop.time()
        await duty_cycle.pause()
        assert round((loop.time() - before_s) * 1000) == pause_ms


async def test_share_grows_with_the_backlog_while_clients_add() -> None:
    config = BookieConfig(log_file_bytes=1 << 16, sealed_logs_kept=2, compaction_backlog_logs=4)
    async with one_bookie(config) as (_, bookie, wire):
        maintenance, storage = bookie.maintenance, bookie.storage
        shares = []
        for logs in (1, 3, 4, 6, 60):
            await wire.add(entry(1, logs))
            storage.sealed_logs = list(range(logs))
            storage.log.pace = BackgroundPace()  # a busy machine may have been late
            shares.append(maintenance._share())
        assert shares == [0.25, 0.25, 0.5, 1.0, 1.0]
        await asyncio.sleep(0.15)
        assert maintenance._share() == 0.5  # no adds
        storage.sealed_logs = []


async def test_share_falls_while_commits_are_late_unless_the_backlog_or_space_is_urgent() -> None:
    config = BookieConfig(log_file_bytes=1 << 16, sealed_logs_kept=0, compaction_backlog_logs=4)
    async with one_bookie(config) as (_, bookie, wire):
        maintenance, storage = bookie.maintenance, bookie.storage
        now_s = asyncio.get_running_loop().time
        pace = storage.log.pace
        await wire.add(entry(1, 0))
        storage.sealed_logs = [0, 1]
        assert maintenance._share() == 0.5
        for _ in range(20):
            pace.note_work(now_s())
            pace.note_commit(1.0, now_s(), 100)
        assert maintenance._share() == SHARE_MIN
        shares = []
        for logs in (4, 8, 16, 60):
            storage.sealed_logs = list(range(logs))
            shares.append(maintenance._share())
        assert shares == [1 / 16, 1 / 4, 1.0, 1.0]
        storage.sealed_logs = [0, 1]
        assert maintenance._share() == SHARE_MIN
        bookie.service.space.has_room = False
        assert maintenance._share() == 0.25, "of the logs with garbage; there are none"
        storage.sealed_logs = []
