"""The visitors of the console: who sent a request, and what they may see (rules CON-1, CON-2)."""

import ssl
from typing import Any

from starlette.requests import HTTPConnection

from ...access.access_control import AccessControl, access_control_of
from ...access.token_verifier import verifier_of
from ...core.protocol.errors import (
    ConfigurationError,
    RhumblineError,
    UnauthorizedError,
)
from ...core.runtime.metadata_store import MetadataStore
from ...proxies.rpc.call_identity import AUTHORIZATION, CallIdentity
from ...security.audit import AuditEvent, result_of
from ...security.caller import Caller
from ...security.grants import CLUSTER, Action, Resource, stream_resource
from ...tls.protection import Protection
from .streams.stream_names import StreamName

CERTIFICATE = "client_certificate"
"""Key of a request's scope: the verified certificate of its connection, in DER form, or None."""

_SEES = (Action.READ, Action.ADMINISTER)
_READS = (Action.READ,)


class Visitors:
    """Identifies visitors as a proxy identifies its callers, and checks the same grants."""

    def __init__(self, store: MetadataStore, protection: Protection) -> None:
        """Raises ConfigurationError if grants are to be checked and nobody can be known."""
        security = protection.security
        verifier = verifier_of(security)
        self.accepts_tokens = verifier is not None
        self._identity = CallIdentity(
            verifier,
            security.roles,
            is_required=verifier is not None or protection.serving is not None,
        )
        self._audit = protection.audit
        self._access: AccessControl | None = None
        if security.access_control:
            if not self._identity.is_required:
                raise ConfigurationError(
                    "security.access_control needs TLS or tokens: without them callers are unknown"
                )
            self._access = access_control_of(store, security)

    async def start(self) -> None:
        """Begin to follow the grants."""
        if self._access is not None:
            await self._access.start()

    async def aclose(self) -> None:
        """Stop following the grants. Safe to repeat."""
        if self._access is not None:
            await self._access.aclose()

    async def caller(self, request: HTTPConnection) -> Caller:
        """Return who sent a request. Raises UnauthorizedError."""
        certificate = request.scope.get(CERTIFICATE)
        pem = None if certificate is None else ssl.DER_cert_to_PEM_cert(certificate).encode()
        peer = "" if request.client is None else f"{request.client.host}:{request.client.port}"
        try:
            authorization = request.headers.get(AUTHORIZATION)
            principal = await self._identity.identify(authorization, pem)
        except UnauthorizedError as error:
            self._record(Caller(peer=peer), "", error)
            raise
        return Caller(principal, peer)

    def sees_cluster(self, caller: Caller) -> bool:
        """Return whether the visitor may read or administer the cluster.

        Raises UnavailableError if the grants are not current.
        """
        access = self._access
        return access is None or access.decide(caller.principal, _SEES, CLUSTER).is_allowed

    def check_cluster(self, caller: Caller) -> None:
        """Raise PermissionDeniedError unless the visitor may read or administer the cluster."""
        self._check(caller, _SEES, CLUSTER)

    def check_stream(self, caller: Caller, name: StreamName) -> None:
        """Raise PermissionDeniedError unless the visitor may read the stream."""
        self._check(caller, _READS, stream_resource(name.namespace, name.stream))

    def may_list(self, caller: Caller, name: StreamName) -> bool:
        """Return whether a list may contain the stream. Raises UnavailableError."""
        access = self._access
        if access is None or self.sees_cluster(caller):
            return True
        resource = stream_resource(name.namespace, name.stream)
        return access.decide(caller.principal, _READS, resource).is_allowed

    def _check(self, caller: Caller, actions: tuple[Action, ...], resource: Resource) -> None:
        if self._access is None:
            return
        try:
            self._access.check(caller, actions, resource)
        except RhumblineError as error:
            self._record(caller, str(resource), error)
            raise

    def _record(self, caller: Caller, resource: str, error: RhumblineError) -> None:
        who: dict[str, Any] = {"principal": str(caller.principal), "peer": caller.peer}
        self._audit.record(
            AuditEvent("console", result_of(error), resource=resource, error=error.code, **who)
        )
