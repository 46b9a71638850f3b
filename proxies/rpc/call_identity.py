"""The identity of the caller of a call: from its token, else from its certificate."""

import time
from collections.abc import Callable
from functools import lru_cache
from typing import Any

from ...access.token_verifier import TokenVerifier
from ...core.protocol.errors import InvalidArgumentError, UnauthorizedError
from ...security.certificate_names import principal_of_certificate
from ...security.principal import ANONYMOUS, Principal
from ...tls.certificate import decode_pem

AUTHORIZATION = "authorization"
_BEARER = "bearer "
_CERTIFICATE = "x509_pem_cert"
_CERTIFICATES_MAX = 1_024


class CallIdentity:
    """Identifies callers. Nobody may call anonymously if ``is_required``."""

    def __init__(
        self,
        verifier: TokenVerifier | None,
        roles_by_name: tuple[tuple[str, str], ...],
        *,
        is_required: bool,
        now_s: Callable[[], float] = time.time,
    ) -> None:
        """``now_s`` returns the seconds since the Unix epoch."""
        self.is_required = is_required
        self.refused_count = 0
        """Number of calls that were refused because the caller is unknown."""
        self._verifier = verifier
        self._now_s = now_s
        self._roles = dict(roles_by_name)
        self._of_certificate = lru_cache(_CERTIFICATES_MAX)(self._decode)

    async def principal(self, context: Any) -> Principal:  # noqa: ANN401 - grpc's ServicerContext
        """Return the caller of the call. Raises as ``identify``."""
        given = (
            value for key, value in context.invocation_metadata() or () if key == AUTHORIZATION
        )
        certificates = context.auth_context().get(_CERTIFICATE)
        return await self.identify(next(given, None), certificates[0] if certificates else None)

    async def identify(self, authorization: object, certificate: bytes | None) -> Principal:
        """Return the caller with this ``authorization`` header and PEM certificate, if any.

        Raises UnauthorizedError if the caller must be known and is not. A token that is not valid
        is an error, although the caller may have a certificate. So is a certificate that has
        expired since the connection began.
        """
        try:
            found = await self._identify(authorization, certificate)
            if found.is_anonymous and self.is_required:
                raise UnauthorizedError("the caller has neither a certificate nor a token")
        except UnauthorizedError:
            self.refused_count += 1
            raise
        return found

    def can_end(self, context: Any) -> bool:  # noqa: ANN401 - as above
        """Return whether the caller has a token or a certificate, either of which may end."""
        keys = (key for key, _ in context.invocation_metadata() or ())
        has_token = self._verifier is not None and AUTHORIZATION in keys
        return has_token or bool(context.auth_context().get(_CERTIFICATE))

    async def _identify(self, authorization: object, certificate: bytes | None) -> Principal:
        if authorization is not None and self._verifier is not None:
            text = authorization if isinstance(authorization, str) else ""
            if not text.lower().startswith(_BEARER):
                raise UnauthorizedError("the authorization of the call is not a bearer token")
            return await self._verifier.verify(text[len(_BEARER) :].strip())
        if certificate is None:
            return ANONYMOUS
        principal, ends_ms = self._of_certificate(certificate)
        if self._now_s() * 1000 >= ends_ms:
            raise UnauthorizedError(
                f"the certificate of {principal} has ended: connect again with a new one"
            )
        return principal

    def _decode(self, pem: bytes) -> tuple[Principal, int]:
        """Return the holder of a certificate, and when it ends."""
        try:
            certificate = decode_pem(pem)
            principal = principal_of_certificate(certificate.names, self._roles)
            return principal, certificate.not_after_ms
        except InvalidArgumentError as error:
            raise UnauthorizedError(f"the certificate of the caller: {error}") from error
