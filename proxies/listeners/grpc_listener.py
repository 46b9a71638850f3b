"""A port on which a proxy serves calls with gRPC."""

import grpc
import grpc.aio
from grpc_health.v1 import health, health_pb2_grpc
from grpc_reflection.v1alpha import reflection

from ...tls.protection import Protection
from ..rpc import methods
from ..rpc.call_audit import CallAudit
from ..rpc.call_identity import CallIdentity
from ..rpc.grpc_credentials import server_credentials
from .call_handlers import refused_reflection, stream_handler, unary_handler
from .listener import Listener
from .listener_calls import ListenerCalls

_REFLECTION = "ServerReflectionInfo"
_REFLECTION_V1 = "grpc.reflection.v1.ServerReflection"
"""A later name of the service, which clients try first."""


class GrpcListener:
    """A port with the TLS and the limits of a proxy, which is open from ``start`` to ``stop``."""

    def __init__(self, protection: Protection, connection_idle_ms: int) -> None:
        """Connections are closed after ``connection_idle_ms`` without a call."""
        self._serving = serving = protection.serving
        options = [*methods.SERVER_OPTIONS, ("grpc.max_connection_idle_ms", connection_idle_ms)]
        if serving is not None:
            options.append(("grpc.server_handshake_timeout_ms", serving.settings.handshake_ms_max))
        self._server = grpc.aio.server(options=options)

    def bind(self, host: str, port: int) -> int:
        """Take a port, 0 for a free one, and return it. Raises OSError."""
        try:
            if self._serving is None:
                return self._server.add_insecure_port(f"{host}:{port}")
            return self._server.add_secure_port(f"{host}:{port}", server_credentials(self._serving))
        except RuntimeError as error:
            raise OSError(f"cannot listen on {host}:{port}: {error}") from error

    async def start(
        self,
        calls: ListenerCalls,
        identity: CallIdentity,
        audit: CallAudit,
        healths: health.aio.HealthServicer,
    ) -> None:
        """Serve these calls, health checks, and reflection where callers are known."""
        server = self._server
        handlers = {
            method.name: (stream_handler if method.is_stream else unary_handler)(
                method, calls, identity, audit
            )
            for method in methods.METHODS
        }
        server.add_generic_rpc_handlers(
            (grpc.method_handlers_generic_handler(methods.SERVICE, handlers),)
        )
        health_pb2_grpc.add_HealthServicer_to_server(healths, server)
        if calls.listener is Listener.DATA:
            refused = {_REFLECTION: refused_reflection(calls, identity, audit)}
            server.add_generic_rpc_handlers(
                tuple(
                    grpc.method_handlers_generic_handler(service, refused)
                    for service in (reflection.SERVICE_NAME, _REFLECTION_V1)
                )
            )
        elif self._serving is None or self._serving.settings.proxy_client_certificates:
            # Without certificates, strangers who have no token reach it.
            reflection.enable_server_reflection(
                (methods.SERVICE, health.SERVICE_NAME, reflection.SERVICE_NAME), server
            )
        await server.start()

    async def stop(self, grace_s: float) -> None:
        """Accept no more calls, and end those in progress after ``grace_s``. Safe to repeat."""
        await self._server.stop(grace_s)
