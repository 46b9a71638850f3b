"""The gRPC server of a proxy process; all decisions are made by ``ProxyService``."""

from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any

import grpc
import grpc.aio
from google.protobuf.message import Message
from grpc_health.v1 import health, health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection

from ...access.access_control import AccessControl, access_control_of
from ...access.token_source import token_source
from ...access.token_verifier import verifier_of
from ...core.log.api.log_namespaces import LogNamespaces
from ...core.log.namespace import Namespace
from ...core.protocol.errors import (
    ConfigurationError,
    InvariantBrokenError,
    RhumblineError,
    UnauthorizedError,
)
from ...core.runtime.metadata_store import MetadataStore
from ...core.runtime.runtime import Runtime
from ...security.caller import CURRENT_CALLER, Caller
from ...tls.credentials import TlsCredentials
from ...tls.protection import UNPROTECTED, Protection
from ..config import ProxyConfig
from ..permissions.guarded_calls import GuardedCalls
from ..proxy_stores import RegionalProxyStore
from . import methods
from .call_audit import AuditedItems, CallAudit, CallRecord, peer_of
from .call_identity import CallIdentity
from .grpc_calls import GrpcTransport
from .grpc_credentials import server_credentials
from .grpc_status import DETAILS_KEY, encode_details, status_name
from .identity_lifetime import serve_while_identity_is_valid
from .proxy_service import ProxyService

Context = grpc.aio.ServicerContext[Any, Any]

_GRACE_SECONDS = 1.0


class ProxyServer:
    """A proxy that serves until it is closed."""

    def __init__(
        self,
        runtime: Runtime,
        store: MetadataStore,
        namespaces: Callable[[str], Namespace],
        config: ProxyConfig,
        *,
        roles: Sequence[str],
        region: str,
        regional: RegionalProxyStore | None = None,
        all_namespaces: LogNamespaces | None = None,
        cpu_seconds: Callable[[], float] = lambda: 0.0,
        cpu_wait_seconds: Callable[[], float] = lambda: 0.0,
        protection: Protection = UNPROTECTED,
    ) -> None:
        """``store`` is the global metadata store, ``regional`` that of the proxy's region.

        ``all_namespaces`` creates, lists and deletes namespaces for clients.
        ``cpu_seconds`` returns the CPU time of the process, ``cpu_wait_seconds`` the time for which
        it has waited for a CPU.
        """
        self._protection = protection
        verifier = verifier_of(protection.security)
        self._identity = CallIdentity(
            verifier,
            protection.security.roles,
            is_required=verifier is not None or protection.serving is not None,
        )
        self._audit = CallAudit(protection.audit, runtime.random)
        self._regional = regional
        self._all_namespaces = all_namespaces
        self._cpu_seconds = cpu_seconds
        self._cpu_wait_seconds = cpu_wait_seconds
        self.address = ""
        """The host:port under which others reach the proxy; known once it serves."""
        self.status_address = ""
        """Address of the status server if there is one; set by the component that runs it."""
        self._runtime = runtime
        self._store = store
        self._namespaces = namespaces
        self._config = config
        self._roles = tuple(roles)
        self._region = region
        self._server: grpc.aio.Server | None = None
        self._health = health.aio.HealthServicer()
        self._is_closing = False
        self._service: ProxyService | None = None
        self._access: AccessControl | None = None

    async def start(self, host: str, port: int, *, advertised: str = "") -> None:
        """Listen (port 0 selects a free one) and register.

        Raises OSError, MetadataError, and ConfigurationError for an address that needs TLS.
        """
        self._protection.check_address(host, "the proxy")
        serving = self._protection.serving
        server = grpc.aio.server(options=self._options(serving))
        try:
            if serving is None:
                bound = server.add_insecure_port(f"{host}:{port}")
            else:
                bound = server.add_secure_port(f"{host}:{port}", server_credentials(serving))
        except RuntimeError as error:
            raise OSError(f"cannot listen on {host}:{port}: {error}") from error
        self.address = advertised or f"{host}:{bound}"
        service = self._service = ProxyService(
            self._runtime,
            self._store,
            self._namespaces,
            self._config,
            roles=self._roles,
            address=self.address,
            region=self._region,
            regional=self._regional,
            calls=GrpcTransport(
                self._protection.connecting,
                token_source(None, self._protection.security.token_file),
            ),
            all_namespaces=self._all_namespaces,
            cpu_seconds=self._cpu_seconds,
            cpu_wait_seconds=self._cpu_wait_seconds,
        )
        self._access = await self._access_control()
        self._add_services(server, GuardedCalls(service, self._access))
        await server.start()
        self._server = server
        service.quotas.audit = self._protection.audit
        service.quotas.start()
        await service.join()
        await self._set_health(health_pb2.HealthCheckResponse.SERVING)

    async def aclose(self) -> None:
        """Release streams, end calls, stop listening. Safe to repeat."""
        if self._is_closing:
            return
        self._is_closing = True
        await self._set_health(health_pb2.HealthCheckResponse.NOT_SERVING)
        if self._service is not None:
            await self._service.hand_over()
            await self._service.leave()  # before others find that nobody listens here
        if self._server is not None:
            await self._server.stop(_GRACE_SECONDS)
        if self._access is not None:
            await self._access.aclose()

    async def _access_control(self) -> AccessControl | None:
        """Return the access control that the settings ask for. Raises ConfigurationError."""
        security = self._protection.security
        if not security.access_control:
            return None
        if not self._identity.is_required:
            raise ConfigurationError(
                "security.access_control needs TLS or tokens: without them callers are unknown"
            )
        access = access_control_of(self._store, security, AuditedItems(self._audit.sink))
        await access.start()
        return access

    def statistics(self) -> dict[str, Any]:
        """Return counters and sizes for metrics."""
        service = self._service
        return {
            "address": self.address,
            "region": self._region,
            "roles": list(self._roles),
            "unknown_callers_refused": self._identity.refused_count,
            "access": None if self._access is None else self._access.statistics(),
            **(service.statistics() if service is not None else _NOT_STARTED),
        }

    def unready_reason(self) -> str | None:
        """Return why the proxy should get no new clients; None if it is ready."""
        return "starting" if self._service is None else self._service.unready_reason()

    def _options(self, serving: TlsCredentials | None) -> list[tuple[str, int]]:
        """Return gRPC's options: limits for connections that are idle or not yet encrypted."""
        options = [*methods.SERVER_OPTIONS]
        options.append(("grpc.max_connection_idle_ms", self._config.connection_idle_ms))
        if serving is not None:
            limit = serving.settings.handshake_ms_max
            options.append(("grpc.server_handshake_timeout_ms", limit))
        return options

    async def _set_health(self, status: int) -> None:
        for service in ("", methods.SERVICE):
            await self._health.set(service, status)

    def _add_services(self, server: grpc.aio.Server, calls: GuardedCalls) -> None:
        handlers = {
            method.name: (_stream_handler if method.is_stream else _unary_handler)(
                method, calls, self._identity, self._audit
            )
            for method in methods.METHODS
        }
        server.add_generic_rpc_handlers(
            (grpc.method_handlers_generic_handler(methods.SERVICE, handlers),)
        )
        health_pb2_grpc.add_HealthServicer_to_server(self._health, server)
        serving = self._protection.serving
        if serving is None or serving.settings.proxy_client_certificates:
            # Without certificates, strangers who have no token reach it.
            reflection.enable_server_reflection(
                (methods.SERVICE, health.SERVICE_NAME, reflection.SERVICE_NAME), server
            )


_NOT_STARTED = {
    "registered": False,
    "sessions_lost": 0,
    "removed": 0,
    "calls": 0,
    "group_members": 0,
    "quotas": None,
    "probing": None,
    "homes_moved": 0,
    "write": None,
    "read": None,
    "balance": None,
}


# --- errors to statuses -------------------------------------------------------------------------


async def _admit(context: Context, identity: CallIdentity, record: CallRecord) -> Caller:
    """Return the caller; end the call if its caller must be known and is not."""
    try:
        record.principal = await identity.principal(context)
        caller = Caller(record.principal, peer_of(context), record.request_id)
        CURRENT_CALLER.set(caller)
        return caller
    except UnauthorizedError as error:
        record.failed(error)
        await _abort(context, error, "UNAUTHENTICATED")
        raise


async def _abort(context: Context, error: RhumblineError, status: str = "") -> None:
    code = grpc.StatusCode[status or status_name(error)]
    details = encode_details(error, code.value[0])
    await context.abort(code, str(error), trailing_metadata=((DETAILS_KEY, details),))


def _unary_handler(
    method: methods.Method, calls: GuardedCalls, identity: CallIdentity, audit: CallAudit
) -> "grpc.RpcMethodHandler[Any, Any]":
    async def serve(request: Message, context: Context) -> Message | None:
        record = audit.begin(context, method, request)
        caller = await _admit(context, identity, record)
        try:
            response = await calls.serve_unary(method, request, caller)
        except RhumblineError as error:
            record.failed(error)
            await _abort(context, error)
            return None
        record.done()
        return response

    return grpc.unary_unary_rpc_method_handler(
        serve,
        request_deserializer=method.request.FromString,
        response_serializer=_serialized,
    )


def _stream_handler(
    method: methods.Method, calls: GuardedCalls, identity: CallIdentity, audit: CallAudit
) -> "grpc.RpcMethodHandler[Any, Any]":
    async def serve(requests: AsyncIterator[Message], context: Context) -> None:
        record = audit.begin(context, method)
        caller = await _admit(context, identity, record)
        try:
            serving = calls.serve_stream(method, requests, context.write, caller)
            await serve_while_identity_is_valid(identity, context, serving)
        except RhumblineError as error:
            record.failed(error)
            await _abort(context, error)
        except AssertionError as error:
            await _abort(context, InvariantBrokenError(repr(error)))

    return grpc.stream_stream_rpc_method_handler(
        serve,
        request_deserializer=method.request.FromString,
        response_serializer=_serialized,
    )


def _serialized(message: Message | bytes) -> bytes:
    return message if isinstance(message, bytes) else message.SerializeToString()
