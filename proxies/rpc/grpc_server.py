"""The gRPC server of a proxy process; all decisions are made by ``ProxyService``."""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

from grpc_health.v1 import health, health_pb2

from ...access.access_control import AccessControl, access_control_of
from ...access.token_source import token_source
from ...access.token_verifier import verifier_of
from ...core.log.api.log_namespaces import LogNamespaces
from ...core.log.namespace import Namespace
from ...core.protocol.errors import ConfigurationError
from ...core.runtime.metadata_store import MetadataStore
from ...core.runtime.runtime import Runtime
from ...tls.protection import UNPROTECTED, Protection
from ..config import ProxyConfig
from ..listeners.grpc_listener import GrpcListener
from ..listeners.listener import Listener
from ..listeners.listener_calls import ListenerCalls
from ..listeners.operator_address import published_address
from ..permissions.guarded_calls import GuardedCalls
from ..proxy_stores import RegionalProxyStore
from . import methods
from .call_audit import AuditedItems, CallAudit
from .call_identity import CallIdentity
from .grpc_calls import GrpcTransport
from .proxy_service import ProxyService

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
        self.operator_address = ""
        """The host:port for operators, once it serves; "" if they have no listener of their own."""
        self.status_address = ""
        """Address of the status server if there is one; set by the component that runs it."""
        self._runtime = runtime
        self._store = store
        self._namespaces = namespaces
        self._config = config
        self._roles = tuple(roles)
        self._region = region
        self._listeners: dict[Listener, GrpcListener] = {}
        self._health = health.aio.HealthServicer()
        self._is_closing = False
        self._service: ProxyService | None = None
        self._access: AccessControl | None = None

    async def start(self, host: str, port: int, *, advertised: str = "") -> None:
        """Listen (port 0 selects a free one), also for operators if they have a port, and register.

        Raises OSError, MetadataError, and ConfigurationError for an address that needs TLS.
        """
        config = self._config
        bound = self._bind(Listener.DATA if config.operator_port else Listener.SHARED, host, port)
        self.address = advertised or f"{host}:{bound}"
        if config.operator_port:
            own_host = config.operator_host or host
            bound = self._bind(Listener.OPERATORS, own_host, config.operator_port)
            self.operator_address = published_address(config, own_host, self.address, bound)
        service = self._service = ProxyService(
            self._runtime,
            self._store,
            self._namespaces,
            config,
            roles=self._roles,
            address=self.address,
            operator_address=self.operator_address,
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
        calls = GuardedCalls(service, self._access)
        for kind, listener in self._listeners.items():
            other = self.address if kind is Listener.OPERATORS else self.operator_address
            await listener.start(
                ListenerCalls(calls, kind, other), self._identity, self._audit, self._health
            )
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
        await asyncio.gather(*(each.stop(_GRACE_SECONDS) for each in self._listeners.values()))
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

    def append_latencies(self, names: Sequence[str]) -> dict[str, dict[str, float]]:
        """Return how long recent appends took, by ``namespace/stream``; if served here."""
        writes = None if self._service is None else self._service.writes
        return {} if writes is None else writes.append_latencies(names)

    def unready_reason(self) -> str | None:
        """Return why the proxy should get no new clients; None if it is ready."""
        return "starting" if self._service is None else self._service.unready_reason()

    def _bind(self, kind: Listener, host: str, port: int) -> int:
        """Take a port, and return it. Raises OSError, ConfigurationError."""
        of_whom = " for operators" if kind is Listener.OPERATORS else ""
        self._protection.check_address(host, f"the proxy{of_whom}")
        listener = GrpcListener(self._protection, self._config.connection_idle_ms)
        self._listeners[kind] = listener
        return listener.bind(host, port)

    async def _set_health(self, status: int) -> None:
        for service in ("", methods.SERVICE):
            await self._health.set(service, status)


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
