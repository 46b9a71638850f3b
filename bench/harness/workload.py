"""The write, tail and read workloads: record sizes, numbers of streams, modes of sending."""

from dataclasses import dataclass
from typing import Literal

from ...core.log.policy import FlushPolicy, StreamPolicy
from ...core.protocol.quorum import Quorum
from .bookie_processes import REGION

_QUORUM = Quorum(3, 3, 2)
_PERIODIC = FlushPolicy(period_ms=10)
_LIKE_PEERS = FlushPolicy(period_ms=5)
"""The linger.ms of the Kafka producers in comparisons, and the effective delay of DistributedLog
with a period of 10 ms."""
_QUICK = FlushPolicy(period_ms=1)
IMMEDIATE = FlushPolicy()

Mode = Literal["max", "rate", "sync"]


@dataclass(frozen=True, slots=True)
class BenchWorkload:
    """One row of a benchmark.

    ``max``: at most ``window`` unacknowledged records over all streams. ``rate``: an open loop of
    ``rate`` records per second. ``sync``: one outstanding record per stream.
    """

    name: str
    mode: Mode
    size: int
    streams: int = 16
    window: int = 16_000
    rate: int = 0
    flush: FlushPolicy = _PERIODIC
    readers: int = 0
    """Number of readers that tail the first stream in the client's process."""
    region: str = REGION
    """The region of the writers and of these readers."""
    viewers: tuple[str, ...] = ()
    """Other regions, in each of which one more reader tails the first stream."""
    quorum: Quorum = _QUORUM

    @property
    def policy(self) -> StreamPolicy:
        """The policy of its streams; by default three copies and two acknowledgements."""
        return StreamPolicy(quorum=self.quorum, flush=self.flush)

    @property
    def peer(self) -> str:
        """The name of this system in comparisons with other systems."""
        return f"rhumbline-per{self.flush.period_ms}" if self.flush.period_ms else "rhumbline-imm"


WRITE = (
    BenchWorkload("W1-128", "max", 128),
    BenchWorkload("W1-1K", "max", 1024),
    BenchWorkload("W1b", "rate", 128, rate=10_000),
    BenchWorkload("W1b", "rate", 128, rate=10_000, flush=IMMEDIATE),
    BenchWorkload("W2-1", "sync", 1024, streams=1, flush=IMMEDIATE),
    BenchWorkload("W2-64", "sync", 1024, streams=64, flush=IMMEDIATE),
)

TAIL = (
    *(
        BenchWorkload(f"W3-{rate}", "rate", 128, streams=1, rate=rate, flush=flush, readers=1)
        for rate in (1_000, 10_000)
        for flush in (_PERIODIC, _LIKE_PEERS, _QUICK, IMMEDIATE)
    ),
    *(
        BenchWorkload(
            f"fan-{readers}", "rate", 1024, streams=1, rate=1_000, flush=flush, readers=readers
        )
        for readers in (10, 40)
        for flush in (_PERIODIC, _LIKE_PEERS)
    ),
)

READ = (("W4-128", 128, 4_000_000), ("W4-1K", 1024, 500_000))
"""(name, record size, record count): written once, then read back from the beginning."""
