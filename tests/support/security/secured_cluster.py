"""A running cluster of one region with a proxy, with TLS on every port."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

from rhumbline.cli.servers.local_cluster import HOST, LocalCluster
from rhumbline.client.connect import Client
from rhumbline.client.system_runtime import system_runtime
from rhumbline.core.log.namespace import create_namespace
from rhumbline.core.log.policy import StreamPolicy
from rhumbline.core.protocol.quorum import Quorum
from rhumbline.proxies.config import ProxyConfig
from rhumbline.proxies.rpc.grpc_server import ProxyServer
from rhumbline.security.audit import NO_AUDIT, AuditSink
from rhumbline.security.principal import Role
from rhumbline.security.settings import SecuritySettings
from rhumbline.server.proxy_host import running_proxy
from rhumbline.tests.support.security.certificates import authority, settings_for
from rhumbline.tls.authority import Authority
from rhumbline.tls.credentials import TlsCredentials
from rhumbline.tls.protection import Protection

REGION, NAMESPACE, STREAM = "oslo", "default", "greetings"
SERVER_ROLES = (Role.BOOKIE, Role.PROXY)


class Secured:
    """A running cluster of one region with a proxy, and its authority."""

    def __init__(
        self, directory: Path, security: SecuritySettings, audit: AuditSink, **tls: bool
    ) -> None:
        self.authority: Authority = authority(directory / "tls")
        (directory / "cluster").mkdir()
        settings = settings_for(self.authority, "server", *SERVER_ROLES, **tls)
        self.protection = Protection(TlsCredentials(settings), security, audit)
        self.cluster = LocalCluster(
            directory / "cluster",
            [REGION],
            bookies_per_region=3,
            round_trips_ms={},
            serves_status=True,
            protection=self.protection,
        )
        self.client_tls = settings_for(self.authority, "client")
        self.credentials = TlsCredentials(self.client_tls)
        self.proxy: ProxyServer

    @property
    def key_line(self) -> str:
        """Return a line of the private key of the client."""
        return Path(self.client_tls.key).read_text().splitlines()[1]

    @property
    def status_addresses(self) -> list[tuple[str, int]]:
        """Return the addresses of all status servers."""
        found = [local.status_address for local in self.cluster.bookies]
        found.append(self.proxy.status_address)
        return [(HOST, int(address.rpartition(":")[2])) for address in found]


@asynccontextmanager
async def secured(
    directory: Path,
    security: SecuritySettings | None = None,
    *,
    audit: AuditSink = NO_AUDIT,
    proxy: ProxyConfig | None = None,
    **tls: bool,
) -> AsyncIterator[Secured]:
    """Run a cluster and a proxy with TLS; ``tls`` are further settings of the servers."""
    made = Secured(directory, security or SecuritySettings(), audit, **tls)
    async with AsyncExitStack() as closing:
        await closing.enter_async_context(made.cluster)
        client = Client(
            made.cluster.metadata_uri,
            region=REGION,
            runtime=system_runtime(None, made.protection.connecting),
        )
        await closing.enter_async_context(client)
        policy = StreamPolicy(Quorum(3, 3, 2))
        await create_namespace(client.store, client.runtime, NAMESPACE, policy)
        await client.namespace().create_stream(STREAM)
        made.proxy = await closing.enter_async_context(
            running_proxy(
                client,
                proxy or ProxyConfig(),
                roles=("write", "read"),
                host=HOST,
                port=0,
                status_port=0,
                protection=made.protection,
            )
        )
        yield made
