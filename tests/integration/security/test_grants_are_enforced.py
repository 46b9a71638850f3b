"""A real proxy with TLS serves only what grants allow, also in calls that are in progress."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from rhumbline.access.grant_store import change_grants
from rhumbline.client.connect import Client, connect
from rhumbline.core.protocol.errors import (
    AppendOutcomeUnknownError,
    ConfigurationError,
    PermissionDeniedError,
    RhumblineError,
)
from rhumbline.proxies.client.proxy_client import ProxyClient
from rhumbline.proxies.config import ProxyConfig
from rhumbline.proxies.rpc.grpc_server import ProxyServer
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

APP = "spiffe://test/client/app"
BOUND_S = 5.0
SECURITY = SecuritySettings(access_control=True)


class Grants:
    """An administrator with the credentials of the metadata store."""

    def __init__(self, client: Client) -> None:
        self._client = client

    async def grant(self, one: Grant) -> None:
        """Store a grant, and wait until it is in force."""
        await change_grants(self._client.store, lambda table: table.granted(one))
        await asyncio.sleep(1.5)

    async def revoke(self, one: Grant) -> None:
        """Remove a grant."""
        await change_grants(self._client.store, lambda table: table.revoked(one))


@asynccontextmanager
async def guarded(tmp_path: Path) -> AsyncIterator[tuple[Secured, Grants, ProxyClient]]:
    """Run a cluster with grants; yield it, its administrator, and the client of an application."""
    async with asyncio.timeout(60), secured(tmp_path, SECURITY) as made:
        uri = made.cluster.metadata_uri
        tls = settings_for(made.authority, "app", Role.CLIENT)
        async with (
            connect(uri, region=REGION, tls=made.client_tls) as direct,
            connect(f"grpc://{made.proxy.address}", tls=tls) as thin,
        ):
            assert isinstance(direct, Client)
            assert isinstance(thin, ProxyClient)
            yield made, Grants(direct), thin


async def test_without_a_grant_every_call_is_refused_with_its_reason(tmp_path: Path) -> None:
    async with guarded(tmp_path) as (made, _, app):
        namespace = app.namespace()
        reason = f"no grant allows {APP} to"
        for call in (
            namespace.create_stream("mine"),
            namespace.delete_stream(STREAM),
            namespace.describe(STREAM),
            namespace.streams(),
        ):
            with pytest.raises(PermissionDeniedError, match=reason):
                await call
        with pytest.raises(PermissionDeniedError, match="append"):
            async with app.writer(STREAM) as writer:
                await writer.append(b"no")
        with pytest.raises(PermissionDeniedError, match="read"):
            async with app.reader(STREAM) as reader:
                await anext(aiter(reader))
        refusals = made.proxy.statistics()["access"]["refusals"]
        assert refusals["create"] == refusals["delete"] == 1, "a refusal is not retried"


async def test_a_revocation_ends_appends_and_parked_reads_in_progress(tmp_path: Path) -> None:
    append = make_grant(APP, ["append"], f"stream:{NAMESPACE}/{STREAM}")
    read = make_grant(APP, ["read"], f"stream:{NAMESPACE}/*")
    async with guarded(tmp_path) as (_, grants, app):
        await grants.grant(append)
        await grants.grant(read)
        async with app.writer(STREAM) as writer, app.reader(STREAM) as reader:
            await writer.append(b"first")
            records = aiter(reader)
            assert bytes((await anext(records)).payload) == b"first"
            parked = asyncio.ensure_future(anext(records))
            await asyncio.sleep(0.1)
            await grants.revoke(read)
            began_s = time.monotonic()
            with pytest.raises(PermissionDeniedError, match="read"):
                await parked
            read_ended_s = time.monotonic() - began_s
            await writer.append(b"second")
        with pytest.raises(PermissionDeniedError, match="append"):  # the writer closes with it
            async with app.writer(STREAM) as writer:
                await grants.revoke(append)
                began_s = time.monotonic()
                error = await _append_until_refused(writer)
                append_ended_s = time.monotonic() - began_s
        assert isinstance(error, PermissionDeniedError | AppendOutcomeUnknownError)
        assert "append" in str(error)
        print(f"a revocation ended a read after {read_ended_s * 1000:.0f} ms, "
              f"appends after {append_ended_s * 1000:.0f} ms")  # fmt: skip
        assert max(read_ended_s, append_ended_s) < BOUND_S


async def _append_until_refused(writer: object) -> RhumblineError:
    while True:
        try:
            await writer.append(b"more")  # type: ignore[attr-defined]
        except RhumblineError as error:
            return error


async def test_a_tenant_sees_only_its_own_streams_and_an_administrator_sees_all(
    tmp_path: Path,
) -> None:
    async with guarded(tmp_path) as (made, grants, app):
        await grants.grant(
            make_grant(APP, ["create", "append", "read"], f"stream:{NAMESPACE}/app-*")
        )
        await app.namespace().create_stream("app-1")
        async with app.writer("app-1") as writer:
            await writer.append(b"mine")
        assert await app.namespace().streams("app-") == ["app-1"]
        with pytest.raises(PermissionDeniedError, match=STREAM):
            await app.namespace().describe(STREAM)
        with pytest.raises(PermissionDeniedError):
            await app.namespace().streams()
        await grants.grant(make_grant("*", ["append"], f"stream:{NAMESPACE}/app-1", "deny"))
        with pytest.raises(PermissionDeniedError, match="denied: deny"):
            async with app.writer("app-1") as writer:
                await writer.append(b"no longer")
        tls = settings_for(made.authority, "admin", Role.ADMIN)
        async with connect(f"grpc://{made.proxy.address}", tls=tls) as admin:
            assert await admin.namespace().streams() == ["app-1", STREAM]


async def test_grants_need_callers_that_are_known(tmp_path: Path) -> None:
    from rhumbline.tls.protection import Protection

    (tmp_path / "unused").mkdir()
    async with (
        secured(tmp_path) as made,
        connect(made.cluster.metadata_uri, region=REGION, tls=made.client_tls) as client,
    ):
        assert isinstance(client, Client)
        server = ProxyServer(
            client.runtime, client.store, client.namespace, ProxyConfig(),
            roles=("write",), region=REGION, protection=Protection(None, SECURITY),
        )  # fmt: skip
        with pytest.raises(ConfigurationError, match="needs TLS or tokens"):
            await server.start("127.0.0.1", 0)
        await server.aclose()
