"""The workloads of the proxy benchmark: many producers, or one stream with many readers."""

from dataclasses import dataclass
from typing import Literal

from ...core.log.policy import FlushPolicy
from ..harness.workload import BenchWorkload

Kind = Literal["batching", "awaiting", "reading"]


@dataclass(frozen=True, slots=True)
class ProxyWorkload:
    """One row of ``bench proxy``.

    ``batching``: one producer per stream appends ``batch`` records at a time, with at most
    ``window`` unacknowledged records. ``awaiting``: every producer awaits each record before it
    sends the next, either at full speed or at ``rate`` records per second in total, with latencies
    measured from the due times. ``reading``: one stream is written at ``rate``, and all ``clients``
    read it; without a rate they only wait.
    """

    name: str
    kind: Kind
    size: int
    streams: int = 100
    clients: int = 100
    """Total number of producers or readers."""
    processes: int = 1
    """Number of processes that share the clients; each process has one connection."""
    rate: int = 0
    """Records per second in total; 0: full speed."""
    batch: int = 1
    window: int = 1
    is_direct: bool = False
    """True if the clients are core clients, without a proxy: the same work, for comparison."""

    @property
    def is_idle(self) -> bool:
        """True if nothing is written, so that only the cost of waiting readers is measured."""
        return self.kind == "reading" and self.rate == 0

    @property
    def direct_workload(self) -> BenchWorkload:
        """The equivalent workload without proxies; it determines the streams' policy.

        Entries are flushed after 10 ms. Unless the workload reads, their visibility may wait up to
        10 ms for the next entry.
        """
        flush = FlushPolicy(period_ms=10, visibility_ms=0 if self.kind == "reading" else 10)
        return BenchWorkload(self.name, "max", self.size, streams=self.streams, flush=flush)


PROXY = (
    ProxyWorkload("P1-batching", "batching", 128, batch=100, window=1_000),
    ProxyWorkload("P1-core", "batching", 128, batch=100, window=1_000, is_direct=True),
    ProxyWorkload("P2-awaiting", "awaiting", 128, clients=1_000, processes=4),
    ProxyWorkload("P2-20000", "awaiting", 128, clients=1_000, processes=4, rate=20_000),
    ProxyWorkload("P2-5000", "awaiting", 128, streams=25, clients=250, rate=5_000),
    ProxyWorkload("P3-100", "reading", 1_000, streams=1, clients=100, processes=2, rate=1_000),
    ProxyWorkload("P3-1000", "reading", 128, streams=1, clients=1_000, processes=2, rate=5),
    ProxyWorkload("P3-5000", "reading", 128, streams=1, clients=5_000, processes=4, rate=1),
    ProxyWorkload("P3-idle", "reading", 128, streams=1, clients=10_000, processes=4),
)

FAILOVER = ProxyWorkload(
    "P4-failover", "awaiting", 128, streams=1, clients=100, processes=1, rate=4_000
)
"""A hundred producers of one stream, while its owner ends repeatedly."""

TAKEOVER = ProxyWorkload(
    "P5-takeover", "awaiting", 128, streams=1, clients=20, processes=1, rate=400
)
"""Twenty producers of one stream at a rate that leaves the CPU to the takeovers."""
