"""The workloads through proxies: many streams and producers in, one stream and many readers out."""

from dataclasses import dataclass
from typing import Literal

from ..core.log.policy import FlushPolicy
from .harness.workload import BenchWorkload

Kind = Literal["batching", "awaiting", "reading"]


@dataclass(frozen=True, slots=True)
class ProxyWork:
    """One row of ``bench proxy``.

    ``batching``: a producer for each stream, which appends ``batch`` records at a time and has at
    most ``window`` without an acknowledgement. ``awaiting``: every producer awaits each record
    before it makes the next one, as fast as it goes, or in all at ``rate`` a second, timed from
    when each was due. ``reading``: one stream is written at ``rate``, all ``clients`` read it.
    """

    name: str
    kind: Kind
    size: int
    streams: int = 100
    clients: int = 100
    """Producers or readers, in all."""
    processes: int = 1
    """That the clients share; each has one connection."""
    rate: int = 0
    """Records a second in all; 0: as fast as it goes."""
    batch: int = 1
    window: int = 1

    @property
    def per10(self) -> BenchWorkload:
        """Its streams: three copies, two acknowledgements, fsync, flushed after 10 ms; what nobody
        reads at once is made visible by the next entry, if that comes within 10 ms."""
        flush = FlushPolicy(period_ms=10, visibility_ms=0 if self.kind == "reading" else 10)
        return BenchWorkload(self.name, "max", self.size, streams=self.streams, flush=flush)


PROXY = (
    ProxyWork("P1-batching", "batching", 128, batch=100, window=1_000),
    ProxyWork("P2-awaiting", "awaiting", 128, clients=1_000, processes=4),
    ProxyWork("P2-20000", "awaiting", 128, clients=1_000, processes=4, rate=20_000),
    ProxyWork("P3-100", "reading", 1_000, streams=1, clients=100, processes=2, rate=1_000),
    ProxyWork("P3-1000", "reading", 128, streams=1, clients=1_000, processes=2, rate=5),
)

FAILOVER = ProxyWork(
    "P4-failover", "awaiting", 128, streams=1, clients=100, processes=1, rate=4_000
)
"""A hundred producers of one stream while its owner ends, again and again."""
