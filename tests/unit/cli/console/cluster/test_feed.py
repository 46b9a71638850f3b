"""Pages get a whole snapshot and then patches; nothing is sampled while no page is open."""

import asyncio
from typing import Any

import pytest

from rhumbline.cli.console.cluster.feed import SnapshotFeed
from rhumbline.cli.console.cluster.merge_patch import patched
from rhumbline.cli.console.event_streams import ServerEvent
from rhumbline.core.protocol.errors import UnavailableError
from rhumbline.tests.support.fakes.jumping_loop import run_jumping
from rhumbline.tests.support.fakes.recorded_log import recorded_log

TICK_S = 0.01


def opened(event: ServerEvent) -> tuple[str, dict[str, Any]]:
    """Return the kind of an event, and what it contains."""
    return event.kind, dict(event.document)


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
    kind, shown = opened(await anext(following))
    assert kind == "snapshot" and shown["same"] == {"x": 1} and "gone" not in shown
    for _ in range(3):
        kind, patch = opened(await anext(following))
        assert kind == "patch" and set(patch) == {"n"}
        shown = patched(shown, patch)
    assert shown["n"] == taken
    await feed.aclose()
    assert await anext(following, None) is None


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
    await following.aclose()
    await asyncio.sleep(3 * TICK_S)
    before = taken
    _, shown = opened(await anext(feed.follow()))
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
    _, first = opened(await anext(following))
    await many.wait()
    _, patch = opened(await anext(following))
    assert first["n"] < 20 <= patch["n"], "nothing was queued"
    await following.aclose()
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
            kind, shown = opened(await anext(following))
            assert (kind, shown["error"]) == ("unavailable", "store away")
        fails = False
        while kind == "unavailable":
            kind, shown = opened(await anext(following))
        assert (kind, shown) == ("snapshot", {"n": 1})
        await feed.aclose()
    assert len(log.fields("snapshot not taken")) == 1


async def test_an_unexpected_error_is_shown_and_logged_and_the_feed_goes_on() -> None:
    """It ended the task, and every page waited for the next sample without a word."""
    errors = [ValueError("bad"), ValueError("bad")]

    async def take() -> dict[str, Any]:
        if errors:
            raise errors.pop()
        return {"n": 1}

    feed = SnapshotFeed(take, TICK_S)
    with recorded_log() as log:
        feed.start()
        following = feed.follow()
        kind, shown = opened(await anext(following))
        assert (kind, shown) == ("unavailable", {"code": "internal", "error": "ValueError: bad"})
        while kind != "snapshot":
            kind, shown = opened(await anext(following))
        await feed.aclose()
    assert len(log.fields("snapshot failed")) == 1


@pytest.mark.run_by(runner=run_jumping)
async def test_a_sample_that_does_not_end_is_given_up() -> None:
    async def take() -> dict[str, Any]:
        await asyncio.Event().wait()
        raise AssertionError

    feed = SnapshotFeed(take, 1.0)
    feed.start()
    kind, shown = opened(await anext(feed.follow()))
    assert (kind, shown["code"]) == ("unavailable", "deadline-exceeded")
    await feed.aclose()


async def test_pages_that_have_the_same_snapshot_share_a_patch() -> None:
    taken = 0

    async def take() -> dict[str, Any]:
        nonlocal taken
        taken += 1
        return {"n": taken}

    feed = SnapshotFeed(take, TICK_S)
    feed.start()
    followers = [feed.follow() for _ in range(3)]
    for _ in range(3):
        found = await asyncio.gather(*map(anext, followers))
    assert found[0].kind == "patch"
    assert found[0] is found[1] is found[2]
    await feed.aclose()
