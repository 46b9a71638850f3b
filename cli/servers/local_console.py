"""The web console beside a cluster in this process, for ``dev`` and ``demo``."""

from contextlib import AsyncExitStack

from ...core.protocol.installation import needs_extra
from ...tls.protection import UNPROTECTED
from .local_cluster import HOST, LocalCluster

_INTERVAL_S = 1.0


async def start_console(
    closing: AsyncExitStack, cluster: LocalCluster, region: str, namespace: str, port: int
) -> str:
    """Serve a console that only reads, until ``closing`` ends, and return its address.

    Port 0 selects a free one. Raises ConfigurationError.
    """
    with needs_extra("the console", "console"):
        from ..console.serving import running_console
    client = await closing.enter_async_context(cluster.client(region, namespace=namespace))
    return await closing.enter_async_context(
        running_console(
            client, host=HOST, port=port, interval_s=_INTERVAL_S, protection=UNPROTECTED
        )
    )
