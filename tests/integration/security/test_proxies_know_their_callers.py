"""Callers of a real proxy identify themselves with a token, or with a certificate."""

import asyncio
from pathlib import Path

import pytest

from rhumbline.access.token_source import TokenSource, token_source
from rhumbline.client.connect import connect
from rhumbline.core.protocol.errors import ConfigurationError, RhumblineError, UnauthorizedError
from rhumbline.proxies.rpc import methods
from rhumbline.proxies.rpc import rhumbline_pb2 as pb
from rhumbline.proxies.rpc.grpc_calls import GrpcTransport
from rhumbline.security.settings import SecuritySettings, TlsSettings
from rhumbline.security.token_claims import static_token_line
from rhumbline.tests.support.security.secured_cluster import STREAM, Secured, secured
from rhumbline.tls.authority import SERVER_NAME
from rhumbline.tls.credentials import TlsCredentials


async def outcome(
    made: Secured, credentials: TlsCredentials, token: TokenSource | None
) -> type[RhumblineError] | None:
    """Return the kind of error of a call; None if the proxy serves it."""
    calls = GrpcTransport(credentials, token)
    try:
        await calls.call_unary(
            made.proxy.address, methods.LIST_PROXIES, pb.ListProxiesRequest(), 5.0
        )
    except RhumblineError as error:
        return type(error)
    finally:
        await calls.aclose()
    return None


async def test_a_token_replaces_a_certificate_and_can_be_withdrawn(tmp_path: Path) -> None:
    tokens, own = tmp_path / "tokens", tmp_path / "own-token"
    own.write_text("of-the-proxy")
    lines = [static_token_line("proxy", "of-the-proxy", []), static_token_line("app", "s3cret", [])]
    tokens.write_text("\n".join(lines))
    security = SecuritySettings(static_tokens=str(tokens), token_file=str(own))
    async with (
        asyncio.timeout(60),
        secured(tmp_path, security, proxy_client_certificates=False) as made,
    ):
        tls = TlsSettings(ca=str(made.authority.certificate_file), server_name=SERVER_NAME)
        uri = f"grpc://{made.proxy.address}"
        async with connect(uri, tls=tls, token="s3cret") as thin, thin.writer(STREAM) as writer:
            await writer.append(b"with a token")
        credentials = TlsCredentials(tls)
        assert await outcome(made, credentials, token_source("s3cret")) is None
        assert await outcome(made, credentials, token_source("wrong")) is UnauthorizedError
        assert await outcome(made, credentials, None) is UnauthorizedError
        tokens.write_text(lines[0])
        assert await outcome(made, credentials, token_source("s3cret")) is UnauthorizedError
        assert made.proxy.statistics()["unknown_callers_refused"] == 3


async def test_a_certificate_identifies_its_holder_and_a_wrong_token_is_an_error(
    tmp_path: Path,
) -> None:
    tokens = tmp_path / "tokens"
    tokens.write_text(static_token_line("app", "s3cret", []))
    async with (
        asyncio.timeout(60),
        secured(tmp_path, SecuritySettings(static_tokens=str(tokens))) as made,
    ):
        assert await outcome(made, made.credentials, None) is None
        assert await outcome(made, made.credentials, token_source("s3cret")) is None
        assert await outcome(made, made.credentials, token_source("wrong")) is UnauthorizedError


def test_a_token_is_never_sent_over_a_network_without_tls() -> None:
    with pytest.raises(ConfigurationError, match="not sent without TLS"):
        connect("grpc://10.0.0.1:4281", token="s3cret")
    with pytest.raises(ConfigurationError, match="need a certificate"):
        connect("sqlite:///metadata.db", token="s3cret")
