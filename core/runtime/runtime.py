"""Everything that a component may use of the world, in one value that is passed in."""

from dataclasses import dataclass
from random import Random

from .clock import Clock
from .tracing import Tracer


@dataclass(frozen=True, slots=True)
class Runtime:
    """The world of one process.

    Monotonic time, timers, connections and servers come from the running asyncio loop
    (``asyncio.get_running_loop()``); a ``Disk`` and a ``MetadataStore`` are passed to those
    who need them. ``random`` is the only source of randomness: in production it is seeded by the
    operating system, in simulation by the seed of the run.
    """

    clock: Clock
    random: Random
    tracer: Tracer | None = None
    """Hears of traced record sets; None: nothing is traced."""

    def random_bytes(self, count: int) -> bytes:
        """``count`` random bytes, e.g. for a token."""
        return self.random.getrandbits(8 * count).to_bytes(count, "big")
