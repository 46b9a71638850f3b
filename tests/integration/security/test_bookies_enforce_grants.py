"""Bookies serve applications the ledgers of the streams that grants allow them, and no others."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from rhumbline.access.grant_store import change_grants
from rhumbline.client.connect import Client, connect
from rhumbline.core.protocol.errors import (
    ConfigurationError,
    PermissionDeniedError,
    RhumblineError,
    StreamLostError,
)
from rhumbline.security.audit import AuditEvent
from rhumbline.security.grants import Grant, make_grant
from rhumbline.security.principal import Role
from rhumbline.security.settings import SecuritySettings
from rhumbline.tests.support.security.certificates import settings_for
from rhumbline.tests.support.security.secured_cluster import (
    NAMESPACE,
    REGION,
    STREAM,
    Secured,
    secured,
)
from rhumbline.tls.protection import Protection

APP = "spiffe://test/client/app"
BOUND_S = 5.0
WAIT_S = 1.5
SECURITY = SecuritySettings(bookie_clients="granted", grants_refresh_ms=200)


class Refusals:
    """Remembers audit events. Implements AuditSink."""

    def __init__(self) -> None:
        self.events: list[AuditEvent] = []

    def record(self, event: AuditEvent) -> None:
        """See AuditSink."""
        self.events.append(event)


@asynccontextmanager
async def guarded(tmp_path: Path) -> AsyncIterator[tuple[Secured, Client, Client, Refusals]]:
    """Run a cluster; yield it, a client with the role proxy, and one that is an application.

    Both have the credentials of the metadata store, so that only bookies can refuse them.
    """
    refusals = Refusals()
    async with asyncio.timeout(60), secured(tmp_path, SECURITY, audit=refusals) as made:
        uri = made.cluster.metadata_uri
        own = settings_for(made.authority, "own", Role.PROXY)
        app = settings_for(made.authority, "app", Role.CLIENT)
        async with (
            connect(uri, region=REGION, tls=own) as internal,
            connect(uri, region=REGION, tls=app) as direct,
        ):
            assert isinstance(internal, Client)
            assert isinstance(direct, Client)
            await internal.namespace().create_stream("private")
            for stream in (STREAM, "private"):
                async with internal.writer(stream) as writer:
                    await writer.append(f"first of {stream}".encode())
            yield made, internal, direct, refusals


async def grant(client: Client, one: Grant) -> None:
    """Store a grant, and wait until it is in force."""
    await change_grants(client.store, lambda table: table.granted(one))
    await asyncio.sleep(1)


async def first_of(client: Client, stream: str) -> bytes:
    """Read the first record of a stream, within the time in which a permitted one is read."""
    async with asyncio.timeout(WAIT_S), client.reader(stream) as reader:
        return bytes((await anext(aiter(reader))).payload)


async def test_an_application_reads_only_the_streams_that_it_is_granted(tmp_path: Path) -> None:
    async with guarded(tmp_path) as (_, internal, direct, refusals):
        with pytest.raises((RhumblineError, TimeoutError)):
            await first_of(direct, STREAM)
        await grant(internal, make_grant(APP, ["read"], f"stream:{NAMESPACE}/{STREAM}"))
        assert await first_of(direct, STREAM) == f"first of {STREAM}".encode()
        with pytest.raises((RhumblineError, TimeoutError)):
            await first_of(direct, "private")
        assert await first_of(internal, "private") == b"first of private"
        found = {(one.action, one.principal, one.error) for one in refusals.events}
        assert ("read", APP, "permission-denied") in found
        denied = [one for one in refusals.events if one.principal == APP]
        assert all(one.resource.startswith("ledger:") for one in denied)


async def test_an_application_appends_and_takes_over_with_append_and_read(tmp_path: Path) -> None:
    async with guarded(tmp_path) as (_, internal, direct, _):
        await grant(internal, make_grant(APP, ["append", "read"], f"stream:{NAMESPACE}/{STREAM}"))
        writer = await internal.namespace().open_writer(STREAM)
        await writer.append(b"second")
        async with direct.writer(STREAM) as successor:
            await successor.append(b"third")  # its takeover has fenced the other writer
            with pytest.raises(StreamLostError):
                await writer.append(b"too late")
        await writer.abort()
        found = []
        async with direct.reader(STREAM) as reader:
            async for record in reader:
                found.append(bytes(record.payload))
                if record.payload == b"third":
                    break
        assert found == [f"first of {STREAM}".encode(), b"second", b"third"]


async def test_a_reader_fences_nobody(tmp_path: Path) -> None:
    async with guarded(tmp_path) as (_, internal, direct, _):
        await grant(internal, make_grant(APP, ["read"], f"stream:{NAMESPACE}/{STREAM}"))
        async with internal.writer(STREAM) as writer:
            await writer.append(b"second")
            (ledger_id,) = [
                one.ledger_id for one in internal.ledgers.writers() if one.last_add_pushed >= 0
            ]
            with pytest.raises((RhumblineError, TimeoutError)):
                async with asyncio.timeout(WAIT_S):
                    await direct.ledgers.recover(ledger_id, min_regions=1)
            await writer.append(b"third")


async def test_a_revocation_ends_appends(tmp_path: Path) -> None:
    one = make_grant(APP, ["append", "read"], f"stream:{NAMESPACE}/{STREAM}")
    async with guarded(tmp_path) as (_, internal, direct, _):
        await grant(internal, one)
        writer = await direct.namespace().open_writer(STREAM)
        await writer.append(b"before")
        await change_grants(internal.store, lambda table: table.revoked(one))
        began_s = time.monotonic()
        count, last_s = 0, 0.0
        with pytest.raises((RhumblineError, TimeoutError)):
            async with asyncio.timeout(BOUND_S):
                while True:
                    await writer.append(b"after")
                    count, last_s = count + 1, time.monotonic() - began_s
        print(f"{count} appends in {last_s * 1000:.0f} ms after the revocation, none later")
        assert last_s < BOUND_S - 1
        await writer.abort()
        with pytest.raises((RhumblineError, TimeoutError)):
            await first_of(direct, STREAM)


async def test_a_writer_without_its_grants_ends_at_once_and_leaves_nothing_half_done(
    tmp_path: Path,
) -> None:
    one = make_grant(APP, ["append", "read"], f"stream:{NAMESPACE}/{STREAM}")
    async with guarded(tmp_path) as (_, internal, direct, _):
        await grant(internal, one)
        writer = await direct.namespace().open_writer(STREAM)
        await writer.append(b"before")
        segments = await segments_of(internal)
        await change_grants(internal.store, lambda table: table.revoked(one))
        with pytest.raises(RhumblineError):
            async with asyncio.timeout(BOUND_S):
                while True:
                    await writer.append(b"after")
        began_s = time.monotonic()
        with pytest.raises(PermissionDeniedError):
            await writer.close()
        print(f"closed in {(time.monotonic() - began_s) * 1000:.0f} ms")
        assert await segments_of(internal) == segments
        began_s = time.monotonic()
        with pytest.raises(PermissionDeniedError):
            await direct.namespace().open_writer(STREAM)
        print(f"a takeover was refused in {(time.monotonic() - began_s) * 1000:.0f} ms")
        async with internal.writer(STREAM) as successor:
            await successor.append(b"last")


async def segments_of(client: Client) -> list[tuple[int, bool]]:
    """Return the ledgers of the stream, each with True if its segment is completed."""
    found = (await client.namespace().describe(STREAM)).segments
    return [(one.ledger_id, one.is_completed) for one in found]


def test_grants_at_bookies_need_tls() -> None:
    with pytest.raises(ConfigurationError, match="needs TLS"):
        Protection(None, SECURITY).bookie_gate()
