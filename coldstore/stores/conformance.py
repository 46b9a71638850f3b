"""Conformance checks for cold stores. Implementers can run them against stores of their own.

``CHECKS`` maps names to coroutines that take an open store, which should be empty and must not be
used by anything else.
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


def _require(holds: bool, requirement: str) -> None:
    if not holds:
        raise AssertionError(requirement)


async def objects_are_read_back(store: ColdStore) -> None:
    """Check reads of the whole object, of ranges, and at the end."""
    data = bytes(range(256)) * 300
    _require(
        await store.put_if_absent("round/trip.bin", data), "put_if_absent of a new key returns True"
    )
    _require(await store.get("round/trip.bin") == data, "get returns the whole object")
    _require(await store.get("round/trip.bin", 100) == data[100:], "get reads from an offset")
    _require(await store.get("round/trip.bin", 100, 50) == data[100:150], "get reads a range")
    _require(
        await store.get("round/trip.bin", len(data) - 5, 50) == data[-5:],
        "get returns less at the end of the object",
    )
    _require(
        await store.get("round/trip.bin", len(data), 50) == b"", "get at the end returns nothing"
    )
    _require(await store.get("round/trip.bin", 0, 0) == b"", "get of 0 bytes returns nothing")


async def empty_objects_are_kept(store: ColdStore) -> None:
    """Check that an object of 0 bytes is listed and readable."""
    await store.put_if_absent("empty/one", b"")
    _require((await store.stat("empty/one")).size_bytes == 0, "stat returns size 0")
    _require(await store.get("empty/one") == b"", "get returns no bytes")
    _require(await store.list("empty") == ["empty/one"], "list includes it")


async def an_existing_key_is_not_replaced(store: ColdStore) -> None:
    """Check that a second write returns False and changes nothing."""
    _require(await store.put_if_absent("once/key", b"first"), "the first put returns True")
    _require(not await store.put_if_absent("once/key", b"second"), "the second put returns False")
    _require(
        not await store.put_if_absent("once/key", b"first"), "a put of the same bytes returns False"
    )
    _require(await store.get("once/key") == b"first", "the first bytes are kept")


async def one_of_several_concurrent_writers_succeeds(store: ColdStore) -> None:
    """Check that exactly one of several writers succeeds, and that its bytes are kept."""
    for attempt in range(3):
        key = f"race/{attempt}"
        bodies = [f"writer {n}".encode() * 2000 for n in range(_WRITERS)]
        successes = await run_all(
            [store.put_if_absent(key, body) for body in bodies], "racing writers"
        )
        _require(sum(successes) == 1, f"{sum(successes)} of {_WRITERS} writers succeeded, not 1")
        _require(
            await store.get(key) == bodies[successes.index(True)],
            "get returns the bytes of the successful writer",
        )


async def absent_keys_are_reported(store: ColdStore) -> None:
    """Check that get and stat of an absent key fail, and that delete does nothing."""
    for call in (store.get, store.stat):
        try:
            await call("absent/key")
        except NoSuchObjectError:
            continue
        raise AssertionError(f"{call.__name__} of an absent key raised nothing")
    await store.delete("absent/key")
    _require(await store.list("absent") == [], "list omits an absent key")


async def a_deleted_key_can_be_put_again(store: ColdStore) -> None:
    """Check that other bytes can be put under a deleted key."""
    await store.put_if_absent("again/key", b"old")
    await store.delete("again/key")
    await store.delete("again/key")
    _require(await store.put_if_absent("again/key", b"new"), "a deleted key can be put")
    _require(await store.get("again/key") == b"new", "get returns the new bytes")


async def lists_are_sorted_and_match_whole_parts(store: ColdStore) -> None:
    """Check that a prefix matches whole parts of keys: ``list/a`` does not match ``list/ab``."""
    keys = ["list/a/1", "list/a/2", "list/a/x/3", "list/ab/1", "list/b"]
    for key in reversed(keys):
        await store.put_if_absent(key, key.encode())
    _require(await store.list("list") == keys, "list is sorted")
    _require(await store.list("list/a") == keys[:3], "list returns only keys below list/a")
    _require(await store.list("list/b") == ["list/b"], "list of a key returns the key itself")
    _require(set(keys) <= set(await store.list()), "list without a prefix returns every key")


async def the_checksum_is_sha256_or_none(store: ColdStore) -> None:
    """Check that stat returns the SHA-256 of the bytes, or None."""
    data = b"checksum me" * 1000
    await store.put_if_absent("checksum/key", data)
    found = await store.stat("checksum/key")
    _require(found.size_bytes == len(data), "stat returns the size")
    _require(
        found.sha256 in (None, hashlib.sha256(data).hexdigest()), "stat returns the SHA-256 or None"
    )


async def malformed_keys_are_refused(store: ColdStore) -> None:
    """Check that malformed keys raise InvalidArgumentError."""
    for key in ("", "/abs", "a//b", "../up", "a/../b", "a/", "ü", "a b", "x" * 1001):
        try:
            await store.put_if_absent(key, b"")
        except InvalidArgumentError:
            continue
        raise AssertionError(f"{key!r} was accepted")


async def a_large_object_is_read_in_parallel_ranges(store: ColdStore) -> None:
    """Check concurrent reads of eight ranges of a 16 MiB object."""
    step = 2 << 20
    data = b"".join(hashlib.sha256(str(n).encode()).digest() for n in range((8 * step) // 32))
    await store.put_if_absent("large/object", data)
    parts = await run_all(
        [store.get("large/object", at, step) for at in range(0, len(data), step)], "ranges"
    )
    _require(b"".join(parts) == data, "the ranges join to the object")


async def a_cancelled_put_is_atomic(store: ColdStore) -> None:
    """Check that a cancelled put leaves no object or the whole one, like a crash of the caller."""
    data = b"z" * (4 << 20)
    put = asyncio.ensure_future(store.put_if_absent("cancel/key", data))
    await asyncio.sleep(0.001)
    put.cancel()
    with contextlib.suppress(asyncio.CancelledError):  # only the content of the store matters here
        await put
    try:
        _require(await store.get("cancel/key") == data, "the object is incomplete")
    except NoSuchObjectError:
        return


CHECKS: dict[str, Check] = {
    check.__name__: check
    for check in (
        objects_are_read_back,
        empty_objects_are_kept,
        an_existing_key_is_not_replaced,
        one_of_several_concurrent_writers_succeeds,
        absent_keys_are_reported,
        a_deleted_key_can_be_put_again,
        lists_are_sorted_and_match_whole_parts,
        the_checksum_is_sha256_or_none,
        malformed_keys_are_refused,
        a_large_object_is_read_in_parallel_ranges,
        a_cancelled_put_is_atomic,
    )
}
