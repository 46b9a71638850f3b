"""A count of what crosses the wide area to read proxies."""

from collections import Counter

from rhumbline.chaos.checker.history import TOKEN
from rhumbline.chaos.simulation.cluster import PORT
from rhumbline.chaos.simulation.proxies.proxy_run import ProxyRun
from rhumbline.chaos.simulation.world.transport import SimTransport


class WanMeter:
    """Counts how often bookies of other regions sent each record to a region's read proxies."""

    def __init__(self, run: ProxyRun) -> None:
        self.crossings: Counter[tuple[str, bytes]] = Counter()
        """(region, token of a record) to the number of transfers."""
        self._readers = {host.name for host in run.read_hosts}
        network = run.world.network
        self._others = network.on_sent
        network.on_sent = self._sent

    def _sent(self, end: SimTransport, data: bytes) -> None:
        if self._others is not None:
            self._others(end, data)
        to = end.peer.node
        if end.port == PORT and to.name in self._readers and to.region != end.node.region:
            self.crossings.update((to.region, token) for token in TOKEN.findall(data))
