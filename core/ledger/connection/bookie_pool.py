"""The links to bookies that all ledgers of a process share: one per bookie, or two for Apache's.

An Apache bookie treats a connection that has carried a v2 packet as a v2 connection from then on,
so v3 messages to it need a second connection. A Rhumbline bookie distinguishes the protocols by the
first byte of each frame.
"""

import asyncio
from collections.abc import Sequence

from ...protocol.bookie_id import BookieId, Region, has_incarnation
from ...protocol.errors import ClosedError
from ...protocol.placement import BookieInfo
from ...runtime.primitives.rate_limiter import RateLimiter
from ...runtime.runtime import Runtime
from ...runtime.tasks import Tasks
from ..config import LedgerConfig
from ..measured_load import MeasuredLoad
from .bookie_link import Addresses, BookieLink
from .reachability import KnownPaths
from .region_round_trips import RegionRoundTrips

_DEPARTURES_PER_SECOND = 20
"""Rate at which the writers of a process leave slow bookies."""


class BookiePool:
    """All links of a process. ``region``, its own, selects among advertised addresses."""

    def __init__(
        self, runtime: Runtime, addresses: Addresses, *, config: LedgerConfig, region: Region | None
    ) -> None:
        self._runtime = runtime
        self._addresses = addresses
        self._config = config
        self._region = region
        self._tasks = Tasks()
        self._fast: dict[BookieId, BookieLink] = {}
        self._message: dict[BookieId, BookieLink] = {}
        self._failed_at: dict[BookieId, float] = {}
        self._silent_at: dict[BookieId, float] = {}
        self._doubted_from: dict[BookieId, float] = {}
        self._proved_at: dict[BookieId, float] = {}
        self._slow_at: dict[BookieId, float] = {}
        self._departures = RateLimiter(_DEPARTURES_PER_SECOND, burst=_DEPARTURES_PER_SECOND)
        self.round_trips = RegionRoundTrips()
        self.departure_count = 0
        """Number of times that a writer left a slow bookie."""

    def link(self, bookie: BookieId) -> BookieLink:
        """Returns the link for v2 adds and reads."""
        link = self._fast.get(bookie)
        if link is None:
            link = self._fast[bookie] = self._make(bookie)
        return link

    def message_link(self, bookie: BookieId) -> BookieLink:
        """Returns the link for v3 messages, which is the v2 link unless it is an Apache bookie."""
        if has_incarnation(bookie):
            return self.link(bookie)
        link = self._message.get(bookie)
        if link is None:
            link = self._message[bookie] = self._make(bookie)
        return link

    def _make(self, bookie: BookieId) -> BookieLink:
        return BookieLink(
            bookie,
            self._addresses,
            runtime=self._runtime,
            config=self._config,
            region=self._region,
            tasks=self._tasks,
        )

    def on_failure(self, bookie: BookieId) -> None:
        """Records that the bookie failed a request, for new ensembles and the read order."""
        self._fail(bookie, self._failed_at)

    def on_silence(self, bookie: BookieId) -> None:
        """Records that the bookie did not respond to a probe: it has failed until it does."""
        self._fail(bookie, self._silent_at)

    def _fail(self, bookie: BookieId, times: dict[BookieId, float]) -> None:
        now = asyncio.get_running_loop().time()
        times.pop(bookie, None)
        times[bookie] = now
        self._doubted_from[bookie] = now + self._config.failure_memory_ms / 1000

    def on_response(self, bookie: BookieId) -> None:
        """Records that the bookie responded to a probe."""
        self._silent_at.pop(bookie, None)
        self._proved_at[bookie] = asyncio.get_running_loop().time()

    def failed_lately(self) -> list[BookieId]:
        """Returns the bookies that failed within ``failure_memory_ms``, oldest first."""
        return list(self._failures())

    def _failures(self) -> dict[BookieId, float]:
        memory_ms = self._config.failure_memory_ms
        failed = _since(self._failed_at, memory_ms)
        silent = _since(self._silent_at, memory_ms)
        if not silent:
            return failed
        last = {b: max(failed.get(b, 0.0), silent.get(b, 0.0)) for b in (*failed, *silent)}
        return dict(sorted(last.items(), key=lambda item: item[1]))

    def known_paths(self) -> KnownPaths:
        """Returns what is known about the paths to bookies, for the placement of new copies.

        Nothing is known if ``failure_memory_ms`` is 0. A lost connection counts until there is a
        new one, however long ago that was.
        """
        if not self._config.failure_memory_ms:
            return KnownPaths()
        failed = self._failures()
        lost: dict[BookieId, float] = {}
        proved = dict(self._proved_at)
        for bookie, link in self._fast.items():
            if link.failed_since is not None:
                lost[bookie] = link.failed_since
            for at in (link.connected_at, link.traffic.latency.answered_at):
                if at is not None:
                    proved[bookie] = max(at, proved.get(bookie, 0.0))
        for bookie, at in list(self._doubted_from.items()):
            if proved.get(bookie, 0.0) >= at:
                del self._doubted_from[bookie]
        lapsed = frozenset(bookie for bookie in self._doubted_from if bookie not in failed)
        return KnownPaths(failed, lost, proved, lapsed)

    def may_leave(self, now: float) -> bool:
        """Returns whether another writer may leave a slow bookie now, and counts it if so."""
        if self._departures.wait_s(1, now) > 0:
            return False
        self._departures.take(1, now)
        return True

    def on_slow(self, bookie: BookieId) -> None:
        """Records that a writer left the bookie because it was slow."""
        self._slow_at.pop(bookie, None)
        self._slow_at[bookie] = asyncio.get_running_loop().time()
        self.departure_count += 1

    def slow_lately(self) -> list[BookieId]:
        """Returns the bookies that were left within ``slow_memory_ms``, oldest first."""
        return list(_since(self._slow_at, self._config.slow_memory_ms))

    def loads(self, bookies: Sequence[BookieInfo], now: float) -> dict[BookieId, MeasuredLoad]:
        """Returns the load of those of the bookies to which this process has links (PLC-27)."""
        slow = dict.fromkeys(self.slow_lately())
        found: dict[BookieId, MeasuredLoad] = {}
        for info in bookies:
            link = self._fast.get(info.bookie)
            if link is None:
                continue
            latency_ms = link.traffic.latency.recent_ms(now)
            if latency_ms is not None:
                distance_ms = self.round_trips.shortest_ms(info.region or info.bookie)
                latency_ms = max(0.0, latency_ms - distance_ms)
            connection = link.connection
            queued = connection.in_flight_bytes if connection is not None else 0
            found[info.bookie] = MeasuredLoad(latency_ms, queued, info.bookie in slow)
        return found

    def traffic(self) -> dict[BookieId, tuple[int, int]]:
        """Returns the bytes (sent, received) by bookie since the start."""
        found: dict[BookieId, tuple[int, int]] = {}
        for links in (self._fast, self._message):
            for bookie, link in links.items():
                sent, received = found.get(bookie, (0, 0))
                traffic = link.traffic
                found[bookie] = sent + traffic.sent_bytes, received + traffic.received_bytes
        return found

    def recent_add_ms(self, now: float) -> dict[BookieId, float]:
        """Returns the median time of recent adds by bookie, where adds are known."""
        recent = {
            bookie: link.traffic.latency.recent_ms(now) for bookie, link in self._fast.items()
        }
        return {bookie: took_ms for bookie, took_ms in recent.items() if took_ms is not None}

    async def aclose(self) -> None:
        """Ends all connections. Safe to repeat."""
        await self._tasks.aclose()
        for links in (self._fast, self._message):
            for link in links.values():
                link.close(ClosedError("the ledger client was closed"))


def _since(times: dict[BookieId, float], memory_ms: int) -> dict[BookieId, float]:
    """Forgets times that are older than ``memory_ms``, and returns a copy of the other ones."""
    oldest = asyncio.get_running_loop().time() - memory_ms / 1000
    for bookie in [bookie for bookie, at in times.items() if at < oldest]:
        del times[bookie]
    return dict(times)
