"""Pages get a whole snapshot and then patches; nothing is sampled while no page is open."""

import asyncio
from typing import Any

from rhumbline.cli.console.cluster.feed import SnapshotFeed
from rhumbline.cli.console.cluster.merge_patch import patched
from rhumbline.core.protocol.errors import UnavailableError
from rhumbline.tests.support.fakes.recorded_log import recorded_log

TICK_S = 0.01


async def test_a_page_gets_a_snapshot_and_then_patches() -> None:
    taken = 0

    async def take() -> dict[str, Any]:
        nonlocal taken
        taken += 1
        return {"n": taken, "same": {"x": 1}, "gone": None}

    feed = SnapshotFeed(take, TICK_S)
    feed.start()
    await asyncio.sleep(3 * TICK_S)
    assert taken == 0, "no page is open"
    following = feed.follow()
    kind, shown = await anext(following)
    assert kind == "snapshot" and shown["same"] == {"x": 1} and "gone" not in shown
    for _ in range(3):
        kind, patch = await anext(following)
        assert kind == "patch" and set(patch) == {"n"}
        shown = patched(shown, patch)
    assert shown["n"] == taken
    await feed.aclose()
    assert await anext(following, None) is None
    assert feed.follower_count == 0


async def test_the_first_page_after_a_pause_gets_no_snapshot_from_before_it() -> None:
    """It was shown as live although nobody had looked at the cluster for hours."""
    taken = 0

    async def take() -> dict[str, Any]:
        nonlocal taken
        taken += 1
        return {"n": taken}

    feed = SnapshotFeed(take, TICK_S)
    feed.start()
    following = feed.follow()
    await anext(following)
    await following.aclose()  # type: ignore[attr-defined]
    await asyncio.sleep(3 * TICK_S)
    before = taken
    _, shown = await anext(feed.follow())
    assert shown["n"] > before
    await feed.aclose()


async def test_a_slow_page_gets_the_difference_to_what_it_has() -> None:
    taken = 0
    many = asyncio.Event()

    async def take() -> dict[str, Any]:
        nonlocal taken
        taken += 1
        if taken == 20:
            many.set()
        return {"n": taken}

    feed = SnapshotFeed(take, 0.0)
    feed.start()
    following = feed.follow()
    _, first = await anext(following)
    await many.wait()
    _, patch = await anext(following)
    assert first["n"] < 20 <= patch["n"], "nothing was queued"
    await following.aclose()  # type: ignore[attr-defined]
    await feed.aclose()


async def test_an_error_is_an_event_and_one_line_of_the_log() -> None:
    fails = True

    async def take() -> dict[str, Any]:
        if fails:
            raise UnavailableError("store away")
        return {"n": 1}

    feed = SnapshotFeed(take, TICK_S)
    with recorded_log() as log:
        feed.start()
        following = feed.follow()
        for _ in range(3):
            kind, shown = await anext(following)
            assert (kind, shown["error"]) == ("unavailable", "store away")
        fails = False
        while kind == "unavailable":
            kind, shown = await anext(following)
        assert (kind, shown) == ("snapshot", {"n": 1})
        await feed.aclose()
    assert len(log.fields("snapshot not taken")) == 1
