"""``rhumbline_server`` gives the tests of applications a cluster with TLS, tokens and grants."""

import asyncio

import pytest

from rhumbline import connect
from rhumbline.errors import PermissionDeniedError, UnauthorizedError, UnavailableError
from rhumbline.testing import LocalServer, LocalServerFactory

STREAM = "orders"


async def append_one(server: LocalServer, token: str | None = None, name: str = "client") -> None:
    """Append a record as an application does."""
    async with (
        asyncio.timeout(30),
        connect(server.uri, tls=server.client_tls(name), token=token) as client,
        client.writer(STREAM) as writer,
    ):
        await writer.append(b"hello")


async def create_stream(server: LocalServer, token: str | None = None) -> None:
    tls = server.client_tls("operator", "admin")
    async with connect(server.uri, tls=tls, token=token) as client:
        await client.namespace().create_stream(STREAM)


async def test_a_server_with_tls_serves_its_certificates_only(
    rhumbline_server: LocalServerFactory,
) -> None:
    server = rhumbline_server()
    await create_stream(server)
    await append_one(server)
    with pytest.raises((UnavailableError, TimeoutError)):
        async with asyncio.timeout(1), connect(server.uri) as stranger:
            await stranger.namespace().streams()


async def test_a_server_with_tokens_and_grants_refuses_what_is_not_granted(
    rhumbline_server: LocalServerFactory,
) -> None:
    server = rhumbline_server(tokens=True, access_control=True)
    await create_stream(server, server.token("operator", "admin"))
    token = server.token("app")
    with pytest.raises(PermissionDeniedError, match=r"no grant allows app to .*append"):
        await append_one(server, token)
    server.grant("app", ["append"], f"stream:default/{STREAM}")
    await append_one(server, token)
    server.revoke("app", ["append"], f"stream:default/{STREAM}")
    with pytest.raises(PermissionDeniedError):
        await append_one(server, token)
    server.withdraw_token("app")
    with pytest.raises(UnauthorizedError):
        await append_one(server, token)
