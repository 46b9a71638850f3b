"""The balance of one proxy process: its meter, and its part in each metadata store."""

import asyncio
from typing import Any

from ...core.runtime.tasks import Tasks
from ..config import ProxyConfig
from ..proxy_stores import ProxyStores
from ..write.write_proxy import WriteProxy
from .assignment_follower import AssignmentFollower
from .balancer import RegionBalancer
from .load_meter import CpuSeconds, LoadMeter, ProcessLoad


class ProxyBalance:
    """Measures, publishes and balances the load of a write proxy, from ``start`` to ``aclose``."""

    def __init__(
        self,
        stores: ProxyStores,
        writes: WriteProxy,
        config: ProxyConfig,
        cpu_seconds: CpuSeconds,
    ) -> None:
        self._writes = writes
        self._config = config
        self._meter = LoadMeter(cpu_seconds)
        self._followers = [AssignmentFollower(store, writes) for store in stores.all]
        self._balancers = [RegionBalancer(store, config) for store in stores.all]
        self._tasks = Tasks()
        self._process = ProcessLoad(0, 0)
        self._load = 0.0

    def start(self) -> None:
        """Begin, after the proxy has registered."""
        for follower in self._followers:
            self._tasks.spawn(follower.run(), "follow assignments")
        if self._config.balance_ms:
            self._tasks.spawn(self._meter.probe_queue(), "probe the event loop")
            self._tasks.spawn(self._take_rounds(), "balance load")

    async def aclose(self) -> None:
        """Stop measuring and balancing. Safe to repeat."""
        await self._tasks.aclose()

    async def _take_rounds(self) -> None:
        while True:
            await asyncio.sleep(self._config.balance_ms / 1000)
            self._process = self._meter.sample_process()
            streams = self._meter.sample_streams(self._writes.served_streams())
            self._load = sum(stream.hot.load for stream in streams)
            for balancer in self._balancers:
                await balancer.take_round(self._process, streams)

    def statistics(self) -> dict[str, Any]:
        """Return counters and measurements for metrics."""
        elected = [balancer for balancer in self._balancers if balancer.is_elected]
        return {
            "load": round(self._load, 2),
            "cpu": self._process.cpu_percent / 100,
            "queue_ms": self._process.queue_ms,
            "elected": len(elected),
            "moves": sum(balancer.move_count for balancer in self._balancers),
            "imbalance": max((balancer.imbalance for balancer in elected), default=0.0),
        }
