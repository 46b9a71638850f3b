"""Verifies the tokens of clients: JWTs by public keys, and static tokens by their hash."""

import asyncio
import json
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..core.protocol.errors import (
    ConfigurationError,
    InvalidArgumentError,
    UnauthorizedError,
    UnavailableError,
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
from .key_fetch import fetch

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
_REFRESH_S_MIN = 5.0
"""Shortest interval between two looks at the keys: unknown tokens must not flood their source."""
_REFRESH_S = 300.0
"""Age of the keys at which they are read again, so that a withdrawn key is refused."""
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
        self._looked_at: float | None = None
        self._read_at: float | None = None
        self._is_failing = False
        self._static: tuple[StaticToken, ...] = ()
        self._static_stamp: tuple[int, int, int] | None = None
        self._refreshing = asyncio.Lock()
        if settings.jwks:
            with needs_extra("tokens", "security"):
                import jwt  # noqa: F401 - fails early if it is missing
        if settings.static_tokens:
            self._read_static()

    async def verify(self, token: str) -> Principal:
        """Return the holder of a token. Raises UnauthorizedError, which never contains the token.

        Raises UnavailableError if the keys of JWTs could not be read for too long.
        """
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
        """Return a key by its id; a key without an id serves all ids that are not found."""
        found = self._find(key_id)
        age = self._now_s() - self._looked_at if self._looked_at is not None else _REFRESH_S
        if age >= (_REFRESH_S if found is not None else _REFRESH_S_MIN):
            async with self._refreshing:
                if self._looked_at is None or self._now_s() - self._looked_at >= _REFRESH_S_MIN:
                    await self._refresh()
        self._check_age()
        return self._find(key_id)

    def _find(self, key_id: str) -> "PyJWK | None":
        return self._keys.get(key_id) or self._keys.get("")

    def _check_age(self) -> None:
        """Raise UnavailableError if a key may have been withdrawn long ago."""
        if self._read_at is None:
            raise UnavailableError("this process could not read the keys of tokens yet")
        age_s = self._now_s() - self._read_at
        if age_s * 1000 >= self._settings.jwks_stale_ms_max:
            raise UnavailableError(
                f"this process has last read the keys of tokens {age_s:.0f} s ago, which is too "
                "long"
            )

    async def _refresh(self) -> None:
        self._looked_at = began_at = self._now_s()
        source = self._settings.jwks
        try:
            content = await asyncio.to_thread(_read_keys, source)
            self._keys = _parse_keys(content)
        except (OSError, ValueError, InvalidArgumentError) as error:
            if not self._is_failing:
                self._is_failing = True
                _LOG.warning("token keys not read", origin=source, error=error)
            return
        self._read_at = began_at
        if self._is_failing:
            self._is_failing = False
            _LOG.info("token keys read again", origin=source)

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


def _read_keys(source: str) -> bytes:
    if source.startswith(("https://", "http://")):
        return fetch(source, bytes_max=_KEYS_BYTES_MAX, seconds_max=_FETCH_SECONDS_MAX)
    return Path(source).read_bytes()[: _KEYS_BYTES_MAX + 1]


def _parse_keys(content: bytes) -> "dict[str, PyJWK]":
    """Return the keys of a JWKS by id, without symmetric, encryption and unknown kinds of keys."""
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
