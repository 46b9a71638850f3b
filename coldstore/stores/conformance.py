"""What every cold store must do, as checks that anyone can run against a store of their own.

``CHECKS`` maps names to coroutines that take an open, empty (or at least own) store.
"""

import asyncio
import contextlib
import hashlib
from collections.abc import Awaitable, Callable

from ...core.protocol.errors import InvalidArgumentError, NoSuchObjectError
from ...core.runtime.cold_store import ColdStore
from ...core.runtime.tasks import run_all

Check = Callable[[ColdStore], Awaitable[None]]

_WRITERS = 6


def _require(holds: bool, what: str) -> None:
    if not holds:
        raise AssertionError(what)


async def what_is_put_is_read_back(store: ColdStore) -> None:
    """Whole, in ranges, and beyond the end."""
    data = bytes(range(256)) * 300
    _require(await store.put_if_absent("round/trip.bin", data), "a new key is taken")
    _require(await store.get("round/trip.bin") == data, "whole")
    _require(await store.get("round/trip.bin", 100) == data[100:], "from an offset")
    _require(await store.get("round/trip.bin", 100, 50) == data[100:150], "a range")
    _require(await store.get("round/trip.bin", len(data) - 5, 50) == data[-5:], "a short range")
    _require(await store.get("round/trip.bin", len(data), 50) == b"", "at the end")
    _require(await store.get("round/trip.bin", 0, 0) == b"", "nothing")


async def an_empty_object_is_an_object(store: ColdStore) -> None:
    """Of size 0, listed, readable."""
    await store.put_if_absent("empty/one", b"")
    _require((await store.stat("empty/one")).size_bytes == 0, "size")
    _require(await store.get("empty/one") == b"", "bytes")
    _require(await store.list("empty") == ["empty/one"], "list")


async def a_key_is_put_once(store: ColdStore) -> None:
    """The second writer is told so, and changes nothing."""
    _require(await store.put_if_absent("once/key", b"first"), "first")
    _require(not await store.put_if_absent("once/key", b"second"), "second")
    _require(not await store.put_if_absent("once/key", b"first"), "the same bytes again")
    _require(await store.get("once/key") == b"first", "kept")


async def of_racing_writers_one_wins(store: ColdStore) -> None:
    """And what is there is what the winner wrote."""
    for round_ in range(3):
        key = f"race/{round_}"
        bodies = [f"writer {n}".encode() * 2000 for n in range(_WRITERS)]
        won = await run_all([store.put_if_absent(key, body) for body in bodies], "racing writers")
        _require(sum(won) == 1, f"{sum(won)} winners")
        _require(await store.get(key) == bodies[won.index(True)], "the winner's bytes")


async def what_is_not_there_is_said_so(store: ColdStore) -> None:
    """By get and stat; delete has nothing to do."""
    for ask in (store.get, store.stat):
        try:
            await ask("absent/key")
        except NoSuchObjectError:
            continue
        raise AssertionError(f"{ask.__name__} of an absent key")
    await store.delete("absent/key")
    _require(await store.list("absent") == [], "list")


async def a_deleted_key_can_be_put_again(store: ColdStore) -> None:
    """With other bytes."""
    await store.put_if_absent("again/key", b"old")
    await store.delete("again/key")
    await store.delete("again/key")
    _require(await store.put_if_absent("again/key", b"new"), "taken")
    _require(await store.get("again/key") == b"new", "read")


async def lists_are_sorted_and_end_at_part_borders(store: ColdStore) -> None:
    """A prefix is whole parts: ``list/a`` has nothing of ``list/ab``."""
    keys = ["list/a/1", "list/a/2", "list/a/x/3", "list/ab/1", "list/b"]
    for key in reversed(keys):
        await store.put_if_absent(key, key.encode())
    _require(await store.list("list") == keys, "all")
    _require(await store.list("list/a") == keys[:3], "below a")
    _require(await store.list("list/b") == ["list/b"], "a key itself")
    _require(set(keys) <= set(await store.list()), "the whole store")


async def a_checksum_when_given_is_right(store: ColdStore) -> None:
    """SHA-256 of the bytes, or None where the store keeps none."""
    data = b"checksum me" * 1000
    await store.put_if_absent("checksum/key", data)
    found = await store.stat("checksum/key")
    _require(found.size_bytes == len(data), "size")
    _require(found.sha256 in (None, hashlib.sha256(data).hexdigest()), "checksum")


async def odd_keys_are_refused(store: ColdStore) -> None:
    """Before anything is asked of the store."""
    for key in ("", "/abs", "a//b", "../up", "a/../b", "a/", "ü", "a b", "x" * 1001):
        try:
            await store.put_if_absent(key, b"")
        except InvalidArgumentError:
            continue
        raise AssertionError(f"{key!r} was accepted")


async def a_large_object_comes_back_in_parallel_ranges(store: ColdStore) -> None:
    """16 MiB in eight ranges at once."""
    step = 2 << 20
    data = b"".join(hashlib.sha256(str(n).encode()).digest() for n in range((8 * step) // 32))
    await store.put_if_absent("large/object", data)
    parts = await run_all(
        [store.get("large/object", at, step) for at in range(0, len(data), step)], "ranges"
    )
    _require(b"".join(parts) == data, "joined")


async def a_cancelled_put_leaves_all_or_nothing(store: ColdStore) -> None:
    """Cancellation is a crash of the caller, not of the store."""
    data = b"z" * (4 << 20)
    put = asyncio.ensure_future(store.put_if_absent("cancel/key", data))
    await asyncio.sleep(0.001)
    put.cancel()
    with contextlib.suppress(asyncio.CancelledError):  # what counts is what the store holds now
        await put
    try:
        _require(await store.get("cancel/key") == data, "a torn object")
    except NoSuchObjectError:
        return


CHECKS: dict[str, Check] = {
    check.__name__: check
    for check in (
        what_is_put_is_read_back,
        an_empty_object_is_an_object,
        a_key_is_put_once,
        of_racing_writers_one_wins,
        what_is_not_there_is_said_so,
        a_deleted_key_can_be_put_again,
        lists_are_sorted_and_end_at_part_borders,
        a_checksum_when_given_is_right,
        odd_keys_are_refused,
        a_large_object_comes_back_in_parallel_ranges,
        a_cancelled_put_leaves_all_or_nothing,
    )
}
