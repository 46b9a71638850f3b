"""Partial frames are limited in bytes and in time."""

import asyncio

import pytest

from rhumbline.core.bookie.config import BookieConfig
from rhumbline.core.bookie.server.limits.partial_frames import FrameHolder, PartialFrames
from rhumbline.core.wire import v2
from rhumbline.core.wire.v2 import Code
from rhumbline.tests.support.fakes.jumping_loop import run_jumping
from rhumbline.tests.unit.core.bookie.bookie_world import KEY, Wire, entry, one_bookie


async def test_partial_frames_are_limited_in_bytes_and_in_time() -> None:
    config = BookieConfig(partial_frame_bytes_max=10_000, partial_frame_ms_max=200)
    frame = v2.encode_add(KEY, entry(1, 0, bytes(6_000)))
    async with one_bookie(config) as (_, bookie, wire):
        slow, other = await Wire.connect(bookie), await Wire.connect(bookie)
        slow.send(frame[:5_900])
        await asyncio.sleep(0.02)
        other.send(frame[:5_900])
        assert await other.is_closed()
        wire.send(frame[:3_000])
        await asyncio.sleep(0.02)
        assert bookie.statistics()["partial_frame_bytes"] == 8_900
        wire.send(frame[3_000:])
        assert await wire.add_response() == Code.OK
        assert await slow.is_closed()
        figures = bookie.statistics()
        assert figures["closed"] == {"half-frames-too-large": 1, "half-frame-too-old": 1}
        assert figures["partial_frame_bytes"] == 0
        assert await wire.add(entry(1, 1)) == Code.OK
        await slow.aclose()
        await other.aclose()


class Holder(FrameHolder):
    """A connection that notes why it was closed, and when."""

    def __init__(self) -> None:
        self.reasons: list[str] = []
        self.closed_ms = 0
        self.paused = False

    @property
    def is_paused(self) -> bool:
        return self.paused

    def close(self, reason: str) -> None:
        self.reasons.append(reason)
        self.closed_ms = now_ms()


def now_ms() -> int:
    return round(asyncio.get_running_loop().time() * 1000)


async def test_bytes_of_all_connections_are_limited() -> None:
    frames = PartialFrames(100, 1_000)
    one, two, three = Holder(), Holder(), Holder()
    frames.hold(one, 60, is_new=True)
    frames.hold(two, 40, is_new=True)
    assert (frames.held_bytes, one.reasons, two.reasons) == (100, [], [])
    frames.hold(three, 1, is_new=True)
    assert three.reasons == ["half-frames-too-large"]
    assert frames.held_bytes == 100
    frames.hold(one, 50, is_new=True)
    assert frames.held_bytes == 90, "the record of a connection is replaced"
    frames.hold(two, 51, is_new=False)
    assert (frames.held_bytes, two.reasons) == (50, ["half-frames-too-large"])
    frames.release(one)
    frames.release(one)
    frames.release(three)
    assert frames.held_bytes == 0
    frames.close()
    frames.close()


@pytest.mark.run_by(runner=run_jumping)
async def test_frame_that_is_not_complete_in_time_is_closed_and_others_are_not() -> None:
    frames = PartialFrames(1_000, 100)
    start = now_ms()
    slow, again, paused, late, gone = (Holder() for _ in range(5))
    paused.paused = True
    for holder in (slow, again, paused, gone):
        frames.hold(holder, 10, is_new=True)
    await asyncio.sleep(0.06)
    frames.hold(slow, 20, is_new=False)  # more of the same frame
    frames.hold(again, 20, is_new=True)  # the next frame
    frames.hold(late, 10, is_new=False)
    frames.release(gone)
    assert frames.held_bytes == 60
    await asyncio.sleep(1)
    assert slow.reasons == again.reasons == late.reasons == ["half-frame-too-old"]
    assert slow.closed_ms - start == 100
    assert again.closed_ms - start == late.closed_ms - start == 160
    assert (paused.reasons, gone.reasons) == ([], [])
    assert frames.held_bytes == 10
    paused.paused = False
    resumed = now_ms()
    await asyncio.sleep(0.5)
    assert paused.reasons == ["half-frame-too-old"]
    assert 0 < paused.closed_ms - resumed <= 200
    frames.hold(slow, 5, is_new=True)
    start = now_ms()
    await asyncio.sleep(0.2)
    assert slow.closed_ms - start == 100, "the timer runs again"
    assert frames.held_bytes == 0


@pytest.mark.run_by(runner=run_jumping)
async def test_nothing_is_closed_after_the_end() -> None:
    frames = PartialFrames(1_000, 100)
    holder = Holder()
    frames.hold(holder, 10, is_new=True)
    frames.close()
    await asyncio.sleep(1)
    assert holder.reasons == []
