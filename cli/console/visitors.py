"""The visitors of the console: who sent a request, and what they may see (rules CON-1, CON-2)."""

import ssl
from collections.abc import Iterator
from contextlib import contextmanager

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
from ...security.audit import AuditEvent, AuditResult, result_of
from ...security.caller import Caller
from ...security.grants import CLUSTER, Action, Resource, stream_resource
from ...tls.protection import Protection
from .streams.stream_names import StreamName

CERTIFICATE = "client_certificate"
"""Key of a request's scope: the verified certificate of its connection, in DER form, or None."""

_SEES = (Action.READ, Action.ADMINISTER)
_READS = (Action.READ,)
_ACTS = (Action.ADMINISTER,)


class Visitors:
    """Identifies visitors as a proxy identifies its callers, and checks the same grants."""

    def __init__(self, store: MetadataStore, protection: Protection) -> None:
        """Raises ConfigurationError if grants are to be checked and no caller can be identified."""
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

    def may_act(self, caller: Caller) -> bool:
        """Return whether the visitor may change the cluster: it needs the grant to administer it.

        Raises UnavailableError if the grants are not current.
        """
        access = self._access
        return access is None or access.decide(caller.principal, _ACTS, CLUSTER).is_allowed

    def check_acts(self, caller: Caller, action: str, target: str) -> None:
        """Raise PermissionDeniedError unless the visitor may administer the cluster (CON-5)."""
        if self._access is None:
            return
        try:
            self._access.check(caller, _ACTS, CLUSTER)
        except RhumblineError as error:
            self._record(caller, target, error, action)
            raise

    @contextmanager
    def audited(self, caller: Caller, action: str, target: str) -> Iterator[None]:
        """Record an act of the visitor at the end of the block, whatever that is (CON-8)."""
        result, code = AuditResult.UNKNOWN, "interrupted"
        try:
            yield
            result, code = AuditResult.DONE, ""
        except RhumblineError as error:
            result, code = result_of(error), error.code
            raise
        finally:
            who = str(caller.principal), caller.peer
            self._audit.record(AuditEvent(f"console {action}", result, *who, target, code))

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

    def _record(
        self, caller: Caller, resource: str, error: RhumblineError, action: str = ""
    ) -> None:
        who = str(caller.principal), caller.peer
        name = f"console {action}".strip()
        self._audit.record(AuditEvent(name, result_of(error), *who, resource, error.code))
