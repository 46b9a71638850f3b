"""Proxies as real processes, beside a cluster of real bookies."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from rhumbline.chaos.server_processes import ProxyProcess
from rhumbline.tests.support.processes.process_cluster import ProcessCluster


class ClusterProxy(ProxyProcess):
    """A proxy of a cluster, killed at the end of a ``with`` block; ``kind`` is its command."""

    def __init__(
        self,
        cluster: ProcessCluster,
        kind: str,
        name: str,
        *options: str,
        region: str | None = None,
        environ: Mapping[str, str] | None = None,
    ) -> None:
        region = region or cluster.regions[0]
        super().__init__(
            cluster.root, cluster.metadata, kind, name, *options, region=region, environ=environ
        )

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.kill()
        if kind is not None:
            print(f"--- {self.log.name}\n{self.output}")


class ProxyRegions:
    """Two bookies, two write proxies and a read proxy in each region, all of them processes."""

    def __init__(self, root: Path, regions: Sequence[str]) -> None:
        self.regions = tuple(regions)
        self.bookies = ProcessCluster(root, [region for region in regions for _ in range(2)])
        self.writes: list[ClusterProxy] = []
        self.reads: list[ClusterProxy] = []

    def uri(self, proxies: Sequence[ClusterProxy]) -> str:
        """Return the URI for a client of these proxies."""
        return "grpc://" + ",".join(proxy.address for proxy in proxies)

    def near(self, region: str) -> str:
        """Return the URI for a producer in ``region``: local write proxies first."""
        return self.uri(sorted(self.writes, key=lambda proxy: proxy.region != region))

    def reads_of(self, region: str) -> str:
        """Return the URI for a reader in ``region``."""
        return self.uri([proxy for proxy in self.reads if proxy.region == region])

    def at(self, address: str) -> ClusterProxy:
        """Return the write proxy at ``address``."""
        return next(proxy for proxy in self.writes if proxy.address == address)

    def kill_region(self, region: str) -> None:
        """Send SIGKILL to all processes of a region."""
        for number, bookie_region in enumerate(self.bookies.regions):
            if bookie_region == region:
                self.bookies.bookies[number].kill()
        for proxy in (*self.writes, *self.reads):
            if proxy.region == region:
                proxy.kill()

    def __enter__(self) -> Self:
        self.bookies.start()
        for region in self.regions:
            for number in range(2):
                name = f"w-{region}-{number}"
                self.writes.append(ClusterProxy(self.bookies, "write-proxy", name, region=region))
            self.reads.append(
                ClusterProxy(self.bookies, "read-proxy", f"r-{region}", region=region)
            )
        try:
            for proxy in (*self.writes, *self.reads):
                proxy.launch()
            for proxy in (*self.writes, *self.reads):
                proxy.wait_ready()
        except BaseException:
            self._kill_all()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._kill_all()
        self.bookies.__exit__(kind, error, trace)

    def _kill_all(self) -> None:
        for proxy in (*self.writes, *self.reads):
            proxy.kill()
        self.bookies.kill_all()
