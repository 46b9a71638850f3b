"""Partial frames are limited in bytes and in time."""

import asyncio

from rhumbline.core.bookie.config import BookieConfig
from rhumbline.core.wire import v2
from rhumbline.core.wire.v2 import Code
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
        assert bookie.statistics()["half_frame_bytes"] == 8_900
        wire.send(frame[3_000:])
        assert await wire.add_response() == Code.OK
        assert await slow.is_closed()
        figures = bookie.statistics()
        assert figures["closed"] == {"half-frames-too-large": 1, "half-frame-too-old": 1}
        assert figures["half_frame_bytes"] == 0
        assert await wire.add(entry(1, 1)) == Code.OK
        await slow.aclose()
        await other.aclose()
