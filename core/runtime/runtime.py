"""The runtime: clock, randomness and tracing, passed to each component as one value."""

from dataclasses import dataclass
from random import Random

from .clock import Clock
from .primitives.transport_security import OutgoingSecurity
from .tracing import Tracer


@dataclass(frozen=True, slots=True)
class Runtime:
    """The sources of time, randomness and tracing of one process.

    Monotonic time, timers, connections and servers come from the running asyncio loop
    (``asyncio.get_running_loop()``). A ``Disk`` and a ``MetadataStore`` are passed to components
    that need them. ``random`` is the only source of randomness: the operating system seeds it in
    production, the seed of the run in simulation.
    """

    clock: Clock
    random: Random
    tracer: Tracer | None = None
    """The receiver of spans; None: nothing is traced."""
    security: OutgoingSecurity | None = None
    """Protects the connections to bookies; None: they are not encrypted."""

    def random_bytes(self, count: int) -> bytes:
        """Return ``count`` random bytes, e.g. for a token."""
        return self.random.getrandbits(8 * count).to_bytes(count, "big")
