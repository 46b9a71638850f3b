"""A console that is fed many servers and streams, as a program: FOLDER SERVERS NAMES.

Its cluster has three bookies; further servers and the names of streams are added to what the
console reads. The rest is the real console: feed, patches, search, requests and pages.
"""

import asyncio
import random
import sys
from pathlib import Path
from typing import Any

from rhumbline.cli.console.cluster.cluster_watch import ClusterWatch
from rhumbline.cli.console.serving import running_console
from rhumbline.cli.console.streams.stream_names import StreamName, StreamNames
from rhumbline.cli.servers.local_cluster import LocalCluster
from rhumbline.core.log.namespace import create_namespace
from rhumbline.core.log.policy import StreamPolicy
from rhumbline.core.protocol.quorum import Quorum
from rhumbline.tests.integration.console.large_cluster import NAMESPACE, REGIONS, name_of
from rhumbline.tls.protection import UNPROTECTED

_HOUR_S = 3_600


def feed(servers: int, names: int) -> None:
    """Replace what the console reads."""
    take = ClusterWatch.take

    async def take_more(watch: ClusterWatch) -> dict[str, Any]:
        found = await take(watch)
        known = dict(found["servers"])
        example = next(iter(known.values()))
        for number in range(servers - len(known)):
            name = f"fed-{number:03d}@{number:08x}"
            known[name] = {
                **example,
                "server": name,
                "region": REGIONS[number % len(REGIONS)],
                "mode": "writable",
                "work_per_second": round(random.uniform(0, 100), 1),
                "open_ledgers": random.randrange(40),
                "free_bytes": random.randrange(1 << 40),
            }
        return {**found, "servers": known}

    async def read_names(_: StreamNames) -> list[StreamName]:
        return [StreamName(NAMESPACE, name_of(number)) for number in range(names)]

    ClusterWatch.take = take_more  # type: ignore[method-assign, assignment]
    StreamNames._read_names = read_names  # type: ignore[method-assign, assignment]


async def serve(folder: Path, servers: int, names: int) -> None:
    """Run the cluster and the console until the process is killed."""
    feed(servers, names)
    cluster = LocalCluster(
        folder, REGIONS, bookies_per_region=1, round_trips_ms={}, serves_status=True
    )
    async with cluster, cluster.client(REGIONS[0], namespace=NAMESPACE) as client:
        policy = StreamPolicy(Quorum(3, 3, 2, 2))
        await create_namespace(client.store, client.runtime, NAMESPACE, policy)
        async with running_console(
            client, host="127.0.0.1", port=0, interval_s=1.0, protection=UNPROTECTED
        ) as url:
            print(url, flush=True)
            await asyncio.sleep(_HOUR_S)


if __name__ == "__main__":
    asyncio.run(serve(Path(sys.argv[1]), *map(int, sys.argv[2:4])))
