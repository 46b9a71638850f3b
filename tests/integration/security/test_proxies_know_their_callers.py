"""Callers of a real proxy identify themselves with a token, or with a certificate."""

import asyncio
from pathlib import Path

import pytest

from rhumbline.access.token_source import TokenSource, token_source
from rhumbline.client.connect import connect, connect_proxies
from rhumbline.core.protocol.errors import (
    AppendOutcomeUnknownError,
    ConfigurationError,
    RhumblineError,
    UnauthorizedError,
)
from rhumbline.proxies.rpc import identity_lifetime, methods
from rhumbline.proxies.rpc import rhumbline_pb2 as pb
from rhumbline.proxies.rpc.grpc_calls import GrpcTransport
from rhumbline.security.settings import SecuritySettings, TlsSettings
from rhumbline.security.token_claims import static_token_line
from rhumbline.tests.support.security.secured_cluster import STREAM, Secured, secured
from rhumbline.tls.authority import SERVER_NAME
from rhumbline.tls.credentials import TlsCredentials

REFUSED = (UnauthorizedError, AppendOutcomeUnknownError)
"""What an append gets whose token has expired: unknown if it was sent before."""


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


async def test_calls_in_progress_end_with_their_token_and_go_on_with_a_new_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(identity_lifetime, "CHECK_S", 0.2)
    tokens, own, file = tmp_path / "tokens", tmp_path / "own-token", tmp_path / "app-token"
    own.write_text("of-the-proxy")
    file.write_text("first")
    of_proxy = static_token_line("proxy", "of-the-proxy", [])
    tokens.write_text(f"{of_proxy}\n{static_token_line('app', 'first', [])}")
    security = SecuritySettings(static_tokens=str(tokens), token_file=str(own))
    async with (
        asyncio.timeout(90),
        secured(tmp_path, security, proxy_client_certificates=False) as made,
    ):
        tls = TlsSettings(ca=str(made.authority.certificate_file), server_name=SERVER_NAME)
        uri, token = f"grpc://{made.proxy.address}", TokenSource(file=str(file))
        async with connect_proxies(uri, credentials=TlsCredentials(tls), token=token) as thin:
            with pytest.raises(REFUSED):  # closing the writer
                async with thin.writer(STREAM) as writer, thin.reader(STREAM) as reader:
                    records = aiter(reader)
                    await writer.append(b"one")
                    assert (await anext(records)).payload == b"one"
                    parked = asyncio.ensure_future(anext(records))
                    file.write_text("second")
                    tokens.write_text(f"{of_proxy}\n{static_token_line('app', 'second', [])}")
                    await asyncio.sleep(1)  # the calls have begun with the first token
                    await writer.append(b"two")
                    assert (await parked).payload == b"two"
                    parked = asyncio.ensure_future(anext(records))
                    tokens.write_text(of_proxy)
                    with pytest.raises(UnauthorizedError):
                        await parked
                    with pytest.raises(REFUSED):
                        while True:
                            await writer.append(b"three")


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
