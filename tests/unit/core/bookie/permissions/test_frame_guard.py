"""A guarded client uses only the ledgers that it may use, and only for as long as it may."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest

from rhumbline.core.bookie.bookie import Bookie
from rhumbline.core.bookie.config import BookieConfig
from rhumbline.core.bookie.permissions import frame_guard
from rhumbline.core.bookie.permissions.ledger_owners import LedgerOwner
from rhumbline.core.bookie.permissions.ledger_uses import LedgerUse
from rhumbline.core.protocol.errors import (
    MetadataUnavailableError,
    PermissionDeniedError,
    RhumblineError,
    UnavailableError,
)
from rhumbline.core.protocol.ledger_metadata import (
    NAMESPACE_KEY,
    STREAM_KEY,
    Fragment,
    LedgerMetadata,
)
from rhumbline.core.runtime.metadata_store import Value
from rhumbline.core.wire import v2, v3
from rhumbline.core.wire.v2 import Code
from rhumbline.core.wire.v3 import Status
from rhumbline.tests.support.fakes.ledger_numbers import create
from rhumbline.tests.unit.core.bookie.bookie_world import (
    KEY,
    PASSWORD,
    Wire,
    World,
    entry,
    lac_body,
    one_bookie,
)
from rhumbline.tests.unit.core.bookie.memory_disk import MemoryDisk

MINE, OTHERS = 11, 12
APPEND, READ, FENCE = LedgerUse.APPEND, LedgerUse.READ, LedgerUse.FENCE


class Permissions:
    """The permissions of one client, which the test changes. Implements LedgerPermissions."""

    def __init__(self, *uses: LedgerUse) -> None:
        self.client = "tester"
        self.uses = set(uses)
        self.is_current = True
        self.listeners: list[Callable[[], None]] = []
        self.decision_count = 0

    def refusal(self, use: LedgerUse, owner: LedgerOwner) -> RhumblineError | None:
        """See LedgerPermissions."""
        self.decision_count += 1
        if not self.is_current:
            return UnavailableError("the grants are too old")
        is_allowed = use in self.uses and owner == LedgerOwner("n", "mine")
        return None if is_allowed else PermissionDeniedError(f"may not {use} {owner}")

    def on_change(self, listener: Callable[[], None]) -> None:
        """See LedgerPermissions."""
        self.listeners.append(listener)

    def forget(self, listener: Callable[[], None]) -> None:
        """See LedgerPermissions."""
        if listener in self.listeners:
            self.listeners.remove(listener)

    def change(self, *uses: LedgerUse) -> None:
        """Replace what is allowed."""
        self.uses = set(uses)
        for listener in list(self.listeners):
            listener()


@asynccontextmanager
async def guarded(
    permissions: Permissions, config: BookieConfig | None = None, disk: MemoryDisk | None = None
) -> AsyncIterator[tuple[World, Bookie, Wire, Wire]]:
    """Yield a world, a bookie, a client without a guard, and one with ``permissions``."""
    async with one_bookie(config, disk) as (world, bookie, internal):
        for ledger_id, stream in ((MINE, b"mine"), (OTHERS, b"others")):
            custom = {NAMESPACE_KEY: b"n", STREAM_KEY: stream}
            metadata = LedgerMetadata(
                ledger_id,
                1,
                1,
                1,
                (Fragment(0, (bookie.bookie_id,)),),
                password=PASSWORD,
                creation_token=1,
                custom=custom,
            )
            await create(world.store, metadata)
            assert await internal.add(entry(ledger_id, 0)) == Code.OK
        bookie.service.clients.permissions_of = lambda _: permissions
        wire = await Wire.connect(bookie)
        try:
            yield world, bookie, internal, wire
        finally:
            await wire.aclose()


async def test_only_permitted_uses_of_permitted_ledgers_are_served() -> None:
    refused: list[tuple[str, int | None, str]] = []
    async with guarded(Permissions(APPEND, READ)) as (_, bookie, _, wire):
        bookie.service.on_refused = lambda _, kind, ledger, why: refused.append((kind, ledger, why))
        assert await wire.add(entry(MINE, 1)) == Code.OK
        assert await wire.read(MINE, 1) == (Code.OK, entry(MINE, 1))
        assert await wire.fence(MINE) == Code.UNAUTHORIZED
        assert await wire.add(entry(OTHERS, 1)) == Code.UNAUTHORIZED
        assert await wire.read(OTHERS, 0) == (Code.UNAUTHORIZED, b"")
        assert await wire.read(1, 0) == (Code.UNAUTHORIZED, b""), "a ledger of no stream"
        assert [(kind, ledger) for kind, ledger, _ in refused] == [
            ("fence", MINE), ("append", OTHERS), ("read", OTHERS), ("read", 1),
        ]  # fmt: skip
        assert {why for _, _, why in refused} == {"permission-denied"}
        assert not bookie.service.ledgers[MINE].is_fenced
        assert await wire.add(entry(MINE, 2)) == Code.OK


async def test_every_form_of_request_is_checked() -> None:
    async with guarded(Permissions(APPEND, READ, FENCE)) as (_, bookie, _, wire):
        for request in (
            v3.add_request(1, OTHERS, 1, KEY, entry(OTHERS, 1)),
            v3.read_request(1, OTHERS, 0),
            v3.read_request(1, OTHERS, 0, fence_key=KEY),
            v3.long_poll_request(1, OTHERS, previous_lac=0, timeout_ms=60_000),
            v3.write_lac_request(1, OTHERS, 0, KEY, lac_body(OTHERS, 0)),
            v3.read_lac_request(1, OTHERS),
            v3.force_request(1, OTHERS),
            v3.list_entries_request(1, OTHERS),
        ):
            assert v3.status_of(await wire.request3(request)) == Status.UNAUTHORIZED
        for flags, key in ((0, b""), (v2.FLAG_FENCE, KEY)):
            frame = v2.encode_batch_read(
                OTHERS, 0, 1, count_max=1, bytes_max=0, flags=flags, master_key=key
            )
            response = await wire.request(frame)
            assert response == v2.BatchReadResponse(Code.UNAUTHORIZED, OTHERS, 0, 1, [])
        assert v3.status_of(await wire.request3(v3.bookie_info_request(1))) == Status.OK
        assert not bookie.service.ledgers[OTHERS].is_fenced


async def test_a_use_is_decided_once_for_many_frames() -> None:
    permissions = Permissions(APPEND)
    async with guarded(permissions) as (_, _, _, wire):
        frames = [v2.encode_add(KEY, entry(MINE, number)) for number in range(1, 1_001)]
        wire.send(b"".join(frames))  # the first ones wait for the owner of the ledger
        responses = [await wire.add_response() for _ in frames]
        assert responses == [Code.OK] * len(frames)
        waiting_count = permissions.decision_count
        assert await wire.add(entry(MINE, 1_001)) == Code.OK
        assert permissions.decision_count == waiting_count


async def test_frames_of_other_ledgers_pass_those_that_wait(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with guarded(Permissions(READ)) as (world, bookie, _, wire):
        assert await wire.read(MINE, 0) == (Code.OK, entry(MINE, 0))
        gate = asyncio.Event()
        get = world.store.get

        async def slow(path: str, *, stale_ok: bool = False) -> Value:
            await gate.wait()
            return await get(path, stale_ok=stale_ok)

        monkeypatch.setattr(world.store, "get", slow)
        wire.send(v2.encode_read(OTHERS, 0))
        assert await wire.read(MINE, 0) == (Code.OK, entry(MINE, 0))
        assert [connection.has_work for connection in bookie._connections] == [False, True]
        gate.set()
        response = v2.decode_response(await wire.frame())
        assert response == v2.ReadResponse(Code.UNAUTHORIZED, OTHERS, 0, b"")


async def test_without_the_metadata_of_a_ledger_nothing_is_decided(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def unavailable(*_: object, **__: object) -> Value:
        raise MetadataUnavailableError("cut off")

    async with guarded(Permissions(APPEND, READ, FENCE)) as (world, bookie, _, wire):
        assert (await wire.read(99, 0))[0] == Code.NO_LEDGER
        assert await wire.fence(99) == Code.IO, "no proof that the ledger does not exist"
        monkeypatch.setattr(world.store, "get", unavailable)
        assert (await wire.read(MINE, 0))[0] == Code.IO
        assert await wire.fence(MINE) == Code.IO
        assert not bookie.service.ledgers[MINE].is_fenced


async def test_waiting_frames_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    config = BookieConfig(log_file_bytes=1 << 20, metadata_waits_max=1)
    async with guarded(Permissions(READ), config) as (world, _, _, wire):
        never = asyncio.Event()
        with monkeypatch.context() as patched:
            patched.setattr(world.store, "get", lambda *_, **__: never.wait())
            wire.send(v2.encode_read(MINE, 0))
            assert (await wire.read(OTHERS, 0))[0] == Code.TOO_MANY_REQUESTS


async def test_the_end_of_a_permission_closes_connections_that_used_it() -> None:
    permissions = Permissions(APPEND, READ)
    async with guarded(permissions) as (_, bookie, internal, wire):
        appends = await Wire.connect(bookie)
        assert await appends.add(entry(MINE, 1)) == Code.OK
        assert await wire.read(MINE, 0) == (Code.OK, entry(MINE, 0))
        wire.send(v3.frame(v3.long_poll_request(1, MINE, previous_lac=5, timeout_ms=60_000)))
        for _ in range(1_000):
            if bookie.service.polls.parked_count:
                break
            await asyncio.sleep(0.01)
        permissions.change(APPEND)
        assert await wire.is_closed()
        assert bookie.service.polls.parked_count == 0
        assert await appends.add(entry(MINE, 2)) == Code.OK, "its permission has not ended"
        again = await Wire.connect(bookie)
        assert await again.read(MINE, 0) == (Code.UNAUTHORIZED, b"")
        assert await internal.read(MINE, 0) == (Code.OK, entry(MINE, 0))
        assert bookie.statistics()["closed"] == {"permission-ended": 1}
        for one in (again, appends):
            await one.aclose()


async def test_adds_in_progress_are_not_acknowledged_after_the_end() -> None:
    permissions, disk = Permissions(APPEND), MemoryDisk()
    async with guarded(permissions, disk=disk) as (_, _, internal, wire):
        assert await wire.add(entry(MINE, 1)) == Code.OK
        gate = disk.gate = asyncio.Event()
        wire.send(v2.encode_add(KEY, entry(MINE, 2)))
        for _ in range(1_000):
            if disk.gated_bytes:
                break
            await asyncio.sleep(0.01)
        permissions.change()
        disk.gate = None
        gate.set()
        assert await wire.is_closed(), "nothing was sent before the end of the connection"
        assert await internal.read(MINE, 2) == (Code.OK, entry(MINE, 2)), "its outcome is unknown"


async def test_adds_are_not_acknowledged_by_permissions_that_are_too_old() -> None:
    permissions, disk = Permissions(APPEND), MemoryDisk()
    async with guarded(permissions, disk=disk) as (_, bookie, _, wire):
        assert await wire.add(entry(MINE, 1)) == Code.OK
        gate = disk.gate = asyncio.Event()
        wire.send(v2.encode_add(KEY, entry(MINE, 2)))
        for _ in range(1_000):
            if disk.gated_bytes:
                break
            await asyncio.sleep(0.01)
        permissions.is_current = False  # its timer is late
        disk.gate = None
        gate.set()
        assert await wire.is_closed()
        again = await Wire.connect(bookie)
        assert await again.add(entry(MINE, 3)) == Code.IO
        await again.aclose()


async def test_a_connection_that_has_made_too_many_uses_is_closed_by_the_next_change(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(frame_guard, "_USES_MAX", 1)
    permissions = Permissions(APPEND, READ)
    async with guarded(permissions) as (_, _, _, wire):
        assert await wire.read(MINE, 0) == (Code.OK, entry(MINE, 0))
        assert await wire.add(entry(MINE, 1)) == Code.OK
        assert await wire.read(MINE, 1) == (Code.OK, entry(MINE, 1))
        permissions.change(APPEND, READ, FENCE)
        assert await wire.is_closed()


async def test_a_closed_connection_is_forgotten() -> None:
    permissions = Permissions(READ)
    async with guarded(permissions) as (_, bookie, _, wire):
        assert await wire.read(MINE, 0) == (Code.OK, entry(MINE, 0))
        assert len(permissions.listeners) == 1
        await wire.aclose()
        for _ in range(1_000):
            if len(bookie._connections) == 1:
                break
            await asyncio.sleep(0.01)
        assert permissions.listeners == []


async def test_malformed_frames_of_guarded_clients_close_their_connection() -> None:
    async with guarded(Permissions(READ)) as (_, _, _, wire):
        wire.send(b"\x00\x00\x00\x04\x02\x63\x00\x00")
        assert await wire.is_closed()
