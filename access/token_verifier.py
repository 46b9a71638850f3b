"""Verifies the tokens of clients: JWTs by public keys, and static tokens by their hash."""

import asyncio
import json
import os
import time
import urllib.request
from collections.abc import Callable
from http.client import HTTPMessage
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from ..core.protocol.errors import (
    ConfigurationError,
    InvalidArgumentError,
    UnauthorizedError,
)
from ..core.protocol.installation import needs_extra
from ..core.runtime.event_log import EventLog
from ..security.principal import Principal
from ..security.settings import SecuritySettings
from ..security.token_claims import (
    StaticToken,
    parse_static_tokens,
    principal_of_claims,
    principal_of_static_token,
)

if TYPE_CHECKING:
    from jwt import PyJWK

_LOG = EventLog(__name__)

_ALGORITHMS = [
    "RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA",
]  # fmt: skip
"""Signatures by private keys only: with the others, whoever verifies a token could also make it."""
_TOKEN_CHARACTERS_MAX = 8_192
_KEYS_BYTES_MAX = 1 << 20
_KEYS_MAX = 100
_FETCH_SECONDS_MAX = 5.0
_PIECE_BYTES = 64 << 10
_REFRESH_S_MIN = 5.0
"""Shortest interval between two looks at the keys: unknown tokens must not flood their source."""
_REFRESH_S = 300.0
"""Age of the keys at which they are read again, so that a withdrawn key ends."""
_UNREADABLE = (0, 0, 0)
"""Stamp of static tokens that could not be read; no file has it."""


class TokenVerifier:
    """The tokens that the proxies of this process accept."""

    def __init__(
        self, settings: SecuritySettings, *, now_s: Callable[[], float] = time.monotonic
    ) -> None:
        """Raises ConfigurationError if a file cannot be read."""
        self._settings = settings
        self._roles = dict(settings.roles)
        self._now_s = now_s
        self._keys: dict[str, PyJWK] = {}
        self._keys_at: float | None = None
        self._static: tuple[StaticToken, ...] = ()
        self._static_stamp: tuple[int, int, int] | None = None
        self._refreshing = asyncio.Lock()
        if settings.jwks:
            with needs_extra("tokens", "security"):
                import jwt  # noqa: F401 - fails early if it is missing
        if settings.static_tokens:
            self._read_static()

    async def verify(self, token: str) -> Principal:
        """Return whose token it is. Raises UnauthorizedError, which never contains the token."""
        if not token or len(token) > _TOKEN_CHARACTERS_MAX:
            raise UnauthorizedError("the token is empty or too long")
        if self._settings.static_tokens:
            self._read_static()
            known = principal_of_static_token(token, self._static)
            if known is not None:
                return known
        if not self._settings.jwks:
            raise UnauthorizedError("the token is unknown")
        return await self._verify_jwt(token)

    # --- JWT ------------------------------------------------------------------------------------

    async def _verify_jwt(self, token: str) -> Principal:
        import jwt

        settings = self._settings
        try:
            header = jwt.get_unverified_header(token)
        except jwt.PyJWTError as error:
            raise UnauthorizedError("the token is neither known nor a JWT") from error
        key = await self._key(str(header.get("kid", "")))
        if key is None:
            raise UnauthorizedError("the token is signed with an unknown key")
        required = ["exp", "sub", "aud", *(["iss"] if settings.token_issuer else [])]
        try:
            claims: dict[str, Any] = jwt.decode(
                token,
                key,
                algorithms=_ALGORITHMS,
                audience=settings.token_audience,
                issuer=settings.token_issuer or None,
                leeway=settings.token_leeway_ms / 1000,
                options={"require": required},
            )
        except jwt.PyJWTError as error:
            raise UnauthorizedError(f"the token is not valid: {error}") from error
        return principal_of_claims(claims, self._roles)

    async def _key(self, key_id: str) -> "PyJWK | None":
        """Return a key by its id; a source with one key without an id has that for all."""
        found = self._find(key_id)
        age = self._now_s() - self._keys_at if self._keys_at is not None else _REFRESH_S
        if age < (_REFRESH_S if found is not None else _REFRESH_S_MIN):
            return found
        async with self._refreshing:
            if self._keys_at is None or self._now_s() - self._keys_at >= _REFRESH_S_MIN:
                await self._refresh()
        return self._find(key_id)

    def _find(self, key_id: str) -> "PyJWK | None":
        return self._keys.get(key_id) or self._keys.get("")

    async def _refresh(self) -> None:
        self._keys_at = self._now_s()
        source = self._settings.jwks
        try:
            content = await asyncio.to_thread(_read_keys, source)
            self._keys = _parse_keys(content)
        except (OSError, ValueError, InvalidArgumentError) as error:
            _LOG.warning("token keys not read", origin=source, error=error)

    # --- static tokens --------------------------------------------------------------------------

    def _read_static(self) -> None:
        file = self._settings.static_tokens
        try:
            found = os.stat(file)
            stamp = (found.st_ino, found.st_size, found.st_mtime_ns)
            if stamp != self._static_stamp:
                self._static = parse_static_tokens(Path(file).read_text(encoding="utf-8"))
                self._static_stamp = stamp
        except (OSError, UnicodeDecodeError, InvalidArgumentError) as error:
            if self._static_stamp is None:
                raise ConfigurationError(f"security.static_tokens: {file}: {error}") from error
            if self._static_stamp != _UNREADABLE:
                _LOG.warning("static tokens not read", file=file, error=error)
            self._static = ()  # better nobody than somebody whose token was withdrawn
            self._static_stamp = _UNREADABLE


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """Refuses redirects: they may lead to an address without TLS, where anybody answers."""

    def redirect_request(
        self,
        req: urllib.request.Request,
        fp: IO[bytes],
        code: int,
        msg: str,
        headers: HTTPMessage,
        newurl: str,
    ) -> None:
        """Follow no redirect, which makes the response an error. See HTTPRedirectHandler."""


_OPENER = urllib.request.build_opener(_NoRedirects)


def _read_keys(source: str) -> bytes:
    if not source.startswith(("https://", "http://")):
        return Path(source).read_bytes()[: _KEYS_BYTES_MAX + 1]
    request = urllib.request.Request(source, headers={"Accept": "application/json"})
    content = b""
    ends_at = time.monotonic() + _FETCH_SECONDS_MAX
    with _OPENER.open(request, timeout=_FETCH_SECONDS_MAX) as response:
        while len(content) <= _KEYS_BYTES_MAX and (piece := response.read1(_PIECE_BYTES)):
            content += piece
            if time.monotonic() > ends_at:
                raise TimeoutError(f"the keys did not arrive within {_FETCH_SECONDS_MAX:g} s")
    return content


def _parse_keys(content: bytes) -> "dict[str, PyJWK]":
    """Return the keys of a JWKS by id; those of unknown kinds, or for encryption, are left out."""
    import jwt

    if len(content) > _KEYS_BYTES_MAX:
        raise InvalidArgumentError(f"the keys have more than {_KEYS_BYTES_MAX} bytes")
    document = json.loads(content)
    listed = document.get("keys") if isinstance(document, dict) else None
    if not isinstance(listed, list):
        raise InvalidArgumentError("not a JWKS document: it has no list of keys")
    found: dict[str, PyJWK] = {}
    for item in listed[:_KEYS_MAX]:
        is_for_signatures = isinstance(item, dict) and item.get("use", "sig") == "sig"
        if not is_for_signatures or item.get("kty") == "oct":
            continue
        try:
            found[str(item.get("kid", ""))] = jwt.PyJWK.from_dict(item)
        except jwt.PyJWTError:
            continue  # a kind of key that this version does not know
    if not found:
        raise InvalidArgumentError("the JWKS document has no key for signatures")
    return found


def verifier_of(settings: SecuritySettings) -> TokenVerifier | None:
    """Return the verifier that the settings describe; None if they accept no tokens.

    Raises ConfigurationError.
    """
    return TokenVerifier(settings) if settings.jwks or settings.static_tokens else None
