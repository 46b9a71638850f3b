"""The workloads: which records, how many streams, how they are sent, for how long."""

from dataclasses import dataclass
from typing import Literal

from ...core.log.policy import FlushPolicy, StreamPolicy
from ...core.protocol.quorum import Quorum

_QUORUM = Quorum(3, 3, 2)
_PERIODIC = FlushPolicy(period_ms=10)
_LIKE_OTHERS = FlushPolicy(period_ms=5)
"""What Kafka's producers wait as they are measured beside us (linger.ms), and what DistributedLog's
acknowledgements say that it waits with a period of 10 ms."""
_QUICK = FlushPolicy(period_ms=1)
IMMEDIATE = FlushPolicy()

Mode = Literal["max", "rate", "sync"]


@dataclass(frozen=True, slots=True)
class BenchWorkload:
    """One row of a benchmark.

    ``max``: at most ``window`` records without an acknowledgement, over all streams. ``rate``: an
    open loop of ``rate`` records a second. ``sync``: each stream has one record outstanding.
    """

    name: str
    mode: Mode
    size: int
    streams: int = 16
    window: int = 16_000
    rate: int = 0
    flush: FlushPolicy = _PERIODIC
    readers: int = 0
    """Tailing readers of the first stream, in the client's process."""

    @property
    def policy(self) -> StreamPolicy:
        """Of its streams: three copies, two acknowledgements, fsync always."""
        return StreamPolicy(quorum=_QUORUM, flush=self.flush)

    @property
    def peer(self) -> str:
        """How the row is called beside the peers' rows."""
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
        for flush in (_PERIODIC, _LIKE_OTHERS, _QUICK, IMMEDIATE)
    ),
    *(
        BenchWorkload(
            f"fan-{readers}", "rate", 1024, streams=1, rate=1_000, flush=flush, readers=readers
        )
        for readers in (10, 40)
        for flush in (_PERIODIC, _LIKE_OTHERS)
    ),
)

READ = (("W4-128", 128, 4_000_000), ("W4-1K", 1024, 500_000))
"""(name, record size, record count): written once, then read back from the beginning."""
