import base64
import hmac
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec
from jwt.algorithms import ECAlgorithm

from rhumbline.access.token_verifier import TokenVerifier, verifier_of
from rhumbline.core.protocol.errors import (
    ConfigurationError,
    UnauthorizedError,
    UnavailableError,
)
from rhumbline.security.principal import Principal, Role
from rhumbline.security.settings import SecuritySettings
from rhumbline.security.token_claims import static_token_line
from rhumbline.tests.support.fakes.recorded_log import recorded_log

CLIENT = frozenset({Role.CLIENT})


class Issuer:
    """A small issuer of tokens, with one key at a time."""

    def __init__(self, key_id: str = "k1") -> None:
        self.key_id = key_id
        self.key = ec.generate_private_key(ec.SECP256R1())

    def jwks(self) -> str:
        key = json.loads(ECAlgorithm.to_jwk(self.key.public_key()))
        secret = {"kty": "oct", "kid": "shared", "k": "c2VjcmV0"}
        other = {"kty": "odd", "kid": "new"}
        return json.dumps({"keys": [{**key, "kid": self.key_id, "use": "sig"}, secret, other]})

    def token(self, *, headers: dict[str, str] | None = None, **claims: Any) -> str:  # noqa: ANN401
        now = datetime.now(UTC)
        content = {"sub": "app", "aud": "log", "iss": "me", "exp": now + timedelta(minutes=5)}
        content.update(claims)
        content = {name: value for name, value in content.items() if value is not None}
        headers = headers or {"kid": self.key_id}
        return jwt.encode(content, self.key, algorithm="ES256", headers=headers)


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def settings(source: str, **others: Any) -> SecuritySettings:  # noqa: ANN401
    return SecuritySettings(jwks=source, token_audience="log", token_issuer="me", **others)


async def refusal(verifier: TokenVerifier, token: str) -> str:
    with pytest.raises(UnauthorizedError) as caught:
        await verifier.verify(token)
    if token:
        assert token not in str(caught.value)
    return str(caught.value)


async def test_a_token_names_its_subject(tmp_path: Path) -> None:
    issuer = Issuer()
    (tmp_path / "jwks").write_text(issuer.jwks())
    verifier = TokenVerifier(settings(str(tmp_path / "jwks"), roles=(("boss", "admin"),)))
    assert await verifier.verify(issuer.token()) == Principal("app", CLIENT)
    boss = await verifier.verify(issuer.token(sub="boss"))
    assert boss == Principal("boss", frozenset({Role.ADMIN}))


async def test_everything_about_a_token_is_checked(tmp_path: Path) -> None:
    issuer, stranger = Issuer(), Issuer()
    (tmp_path / "jwks").write_text(issuer.jwks())
    verifier = TokenVerifier(settings(str(tmp_path / "jwks")))
    past = datetime.now(UTC) - timedelta(minutes=1)
    for claims in (
        {"exp": past}, {"exp": None}, {"nbf": datetime.now(UTC) + timedelta(minutes=1)},
        {"aud": "other"}, {"aud": None}, {"iss": "other"}, {"iss": None}, {"sub": None},
        {"sub": ""}, {"sub": "x" * 300},
    ):  # fmt: skip
        await refusal(verifier, issuer.token(**claims))
    assert "within" not in await refusal(verifier, stranger.token())
    for text in ("", "x", "a.b.c", "x" * 10_000):
        await refusal(verifier, text)


async def test_algorithms_that_prove_nothing_are_refused(tmp_path: Path) -> None:
    issuer = Issuer()
    (tmp_path / "jwks").write_text(issuer.jwks())
    verifier = TokenVerifier(settings(str(tmp_path / "jwks")))
    claims = {"sub": "app", "aud": "log", "iss": "me", "exp": datetime.now(UTC).timestamp() + 60}
    none = jwt.encode(claims, "", algorithm="none", headers={"kid": "k1"})
    await refusal(verifier, none)
    public = issuer.key.public_key().public_bytes(
        serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    for key_id in ("k1", "shared"):
        head, body, _ = jwt.encode(claims, "x" * 32, "HS256", {"kid": key_id}).split(".")
        signature = hmac.digest(public, f"{head}.{body}".encode(), "sha256")
        forged = f"{head}.{body}.{base64.urlsafe_b64encode(signature).rstrip(b'=').decode()}"
        await refusal(verifier, forged)


async def test_a_leeway_is_tolerated_and_bounded(tmp_path: Path) -> None:
    issuer = Issuer()
    (tmp_path / "jwks").write_text(issuer.jwks())
    verifier = TokenVerifier(settings(str(tmp_path / "jwks"), token_leeway_ms=60_000))
    late = issuer.token(exp=datetime.now(UTC) - timedelta(seconds=20))
    assert (await verifier.verify(late)).name == "app"
    with pytest.raises(ConfigurationError):
        SecuritySettings(token_leeway_ms=3_600_000)


@contextmanager
def served(issuer: Issuer) -> Iterator[tuple[str, list[str]]]:
    """Serve the keys of an issuer over HTTP; yield the address and the requests."""
    requests: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            requests.append(self.path)
            body = issuer.jwks().encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    with listening(Handler) as source:
        yield source, requests


@contextmanager
def redirected(to: str) -> Iterator[str]:
    """Run a server that redirects every request to ``to``, and yield its address."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(302)
            self.send_header("Location", to)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    with listening(Handler) as source:
        yield source


@contextmanager
def listening(handler: type[BaseHTTPRequestHandler]) -> Iterator[str]:
    with HTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/jwks"
        server.shutdown()
        thread.join()


async def test_new_keys_are_fetched_rarely_and_withdrawn_ones_end() -> None:
    issuer, clock = Issuer(), Clock()
    with served(issuer) as (source, requests):
        verifier = TokenVerifier(settings(source), now_s=clock)
        assert (await verifier.verify(issuer.token())).name == "app"
        old = issuer.token()
        issuer.key_id, issuer.key = "k2", ec.generate_private_key(ec.SECP256R1())
        for _ in range(5):
            await refusal(verifier, issuer.token())  # nobody can make us ask all the time
        assert len(requests) == 1
        clock.now += 5
        assert (await verifier.verify(issuer.token())).name == "app"
        assert len(requests) == 2
        assert "unknown key" in await refusal(verifier, old)
    clock.now += 300
    with recorded_log() as log:
        assert (await verifier.verify(issuer.token())).name == "app"  # the issuer is down
    assert log.events() == ["token keys not read"]


async def test_static_tokens_are_known_by_their_hash(tmp_path: Path) -> None:
    file = tmp_path / "tokens"
    file.write_text(f"# of the lab\n\n{static_token_line('ops', 's3cret', [Role.ADMIN])}\n")
    verifier = verifier_of(SecuritySettings(static_tokens=str(file)))
    assert verifier is not None
    assert await verifier.verify("s3cret") == Principal("ops", frozenset({Role.ADMIN}))
    await refusal(verifier, "s3cre")
    assert "s3cret" not in file.read_text()
    file.write_text("")
    await refusal(verifier, "s3cret")  # withdrawn at once
    with recorded_log() as log:
        file.write_text("nonsense")
        for _ in range(3):
            await refusal(verifier, "s3cret")
    assert log.events() == ["static tokens not read"]


async def test_static_tokens_are_known_again_when_their_file_is_back(tmp_path: Path) -> None:
    file = tmp_path / "tokens"
    file.write_text(static_token_line("ops", "s3cret", [Role.ADMIN]))
    verifier = TokenVerifier(SecuritySettings(static_tokens=str(file)))
    moved = file.rename(tmp_path / "moved")
    with recorded_log() as log:
        for _ in range(3):
            await refusal(verifier, "s3cret")
    assert log.events() == ["static tokens not read"]
    moved.rename(file)
    assert (await verifier.verify("s3cret")).name == "ops"


async def test_keys_are_not_taken_from_another_address() -> None:
    issuer = Issuer()
    with served(issuer) as (source, requests), redirected(source) as other:
        verifier = TokenVerifier(settings(other))
        with recorded_log() as log, pytest.raises(UnavailableError):
            await verifier.verify(issuer.token())
    assert (requests, log.events()) == ([], ["token keys not read"])


async def test_known_keys_are_used_for_a_limited_time_while_their_server_is_away() -> None:
    issuer, clock = Issuer(), Clock()
    with served(issuer) as (source, _):
        verifier = TokenVerifier(settings(source, jwks_stale_ms_max=3_600_000), now_s=clock)
        await verifier.verify(issuer.token())
    with recorded_log() as log:
        for _ in range(11):
            clock.now += 300
            assert (await verifier.verify(issuer.token())).name == "app"
        clock.now += 299.9
        assert (await verifier.verify(issuer.token())).name == "app"
        clock.now += 0.1
        for _ in range(3):
            with pytest.raises(UnavailableError, match="3600 s ago"):
                await verifier.verify(issuer.token())
    assert log.events() == ["token keys not read"], "one line for the outage"


async def test_tokens_are_verified_again_when_the_keys_are_back(tmp_path: Path) -> None:
    issuer, clock = Issuer(), Clock()
    verifier = TokenVerifier(settings(str(tmp_path / "jwks")), now_s=clock)
    with recorded_log() as log:
        with pytest.raises(UnavailableError, match="could not read the keys of tokens yet"):
            await verifier.verify(issuer.token())
        (tmp_path / "jwks").write_text(issuer.jwks())
        clock.now += 5
        assert (await verifier.verify(issuer.token())).name == "app"
    assert log.events() == ["token keys not read", "token keys read again"]


def test_mistakes_in_the_settings_are_named(tmp_path: Path) -> None:
    assert verifier_of(SecuritySettings()) is None
    with pytest.raises(ConfigurationError, match="nowhere"):
        verifier_of(SecuritySettings(static_tokens=str(tmp_path / "nowhere")))
    with pytest.raises(ConfigurationError, match="token_audience is not set"):
        SecuritySettings(jwks="keys.json")
    for source in (
        "http://issuer.example/keys", "http://localhost.example/keys", "http://127.0.0.1.example/",
        "http://127.0.0.1@issuer.example/keys", "ftp://issuer.example/keys",
    ):  # fmt: skip
        with pytest.raises(ConfigurationError, match="https"):
            SecuritySettings(jwks=source, token_audience="log")
    for source in ("keys.json", "https://issuer.example/", "http://localhost:80/", "http://[::1]/"):
        assert SecuritySettings(jwks=source, token_audience="log").jwks == source
    with pytest.raises(ConfigurationError, match="'king'"):
        SecuritySettings(roles=(("app", "king"),))
