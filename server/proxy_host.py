"""Runs a proxy in this process, with its status server."""

import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING, Any

from ..client.connect import Client
from ..client.cpu_wait import cpu_wait_seconds
from ..core.protocol.errors import ConfigurationError
from ..core.protocol.installation import needs_extra
from ..core.runtime.metrics import Statistics
from ..proxies.config import ProxyConfig
from ..proxies.proxy_stores import RegionalProxyStore
from ..tls.protection import UNPROTECTED, Protection, certificate_statistics
from .listening_address import check_advertised, published_host, warn_of_loopback
from .status_server import StatusServer

if TYPE_CHECKING:
    from ..proxies.rpc.grpc_server import ProxyServer


@asynccontextmanager
async def running_proxy(
    client: Client,
    config: ProxyConfig,
    *,
    roles: Sequence[str],
    host: str,
    port: int,
    advertised: str = "",
    status_port: int | None = None,
    status_host: str = "",
    observe: Callable[[str, Statistics], None] | None = None,
    protection: Protection = UNPROTECTED,
) -> AsyncIterator["ProxyServer"]:
    """Run a proxy until the block ends; then it hands its streams over.

    Its metrics are served at ``status_port`` (0: a free port; None: not at all) of ``status_host``,
    which is ``host`` if it is empty. ``observe`` is
    called with the service name and the function that returns its statistics. Raises
    ConfigurationError (a port in use, gRPC not installed, a wildcard address without an advertised
    one, an address of a network without TLS), MetadataError.
    """
    with needs_extra("a proxy", "grpc"):
        from ..proxies.rpc.grpc_server import ProxyServer
    check_advertised(host, advertised, "set the address for clients with --advertise host:port")
    async with AsyncExitStack() as closing:
        own = await client.own_regional_store()
        regional = None
        if own is not None:

            async def find_region(namespace: str) -> str:
                return (await client.namespaces.find(namespace)).store_region or ""

            regional = RegionalProxyStore(client.region or "", own.store, find_region)
        server = ProxyServer(
            client.runtime,
            client.store if own is None else client.late_global_store(),
            client.namespace,
            config,
            roles=roles,
            region=client.region or "",
            regional=regional,
            all_namespaces=client.namespaces,
            cpu_seconds=time.process_time,
            cpu_wait_seconds=cpu_wait_seconds,
            protection=protection,
        )
        closing.push_async_callback(server.aclose)

        def statistics() -> dict[str, Any]:
            return {
                **server.statistics(),
                "client": client.statistics(),
                "tls": certificate_statistics(protection),
            }

        if observe is not None:
            observe("proxy", statistics)
        try:
            if status_port is not None:
                status = StatusServer(
                    statistics,
                    server.unready_reason,
                    service="proxy",
                    streams=server.append_latencies,
                    protection=protection,
                )
                closing.push_async_callback(status.aclose)
                at = status_host or host
                status_port = await status.start(at, status_port)
                at = published_host(at, advertised.rpartition(":")[0])
                server.status_address = f"{at}:{status_port}"
            await server.start(host, port, advertised=advertised)
        except OSError as error:
            raise ConfigurationError(f"{error.strerror or error}; choose another port") from error
        uri = (client.store if own is None else own.store).uri
        warn_of_loopback("proxy", server.address.rpartition(":")[0], uri)
        yield server
