"""A handle for reading metadata that continues with old metadata while the store is out of reach.

It has no method that writes. Reads are linearizable as long as the store responds in time. If it
does not, reads with ``stale_ok`` are served from what this region has: what one server of the store
returns without its majority, and what this process has read before. The rules are STR-28 and
STR-30:

- For one path the handle never goes back to an older version than one that it returned before.
- Nothing is concluded from absence: if no old value is known, MetadataUnavailableError is raised
  and never NoNodeError.
- A value that may be old is marked with its age.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Sequence
from enum import Enum, unique
from typing import TypeVar

from ..protocol.errors import MetadataUnavailableError, NoNodeError, RhumblineError
from ..runtime.event_log import EventLog
from ..runtime.metadata_store import MetadataReads, Value, Version, Watch
from ..runtime.state_machine import StateMachine, TransitionTable
from ..runtime.tasks import Tasks, run_all

T = TypeVar("T")
_LOG = EventLog(__name__)

WAIT_MS = 2_000
"""Default time after which a read without a response is served from old metadata."""

PROBE_MS = 1_000
"""Interval at which a store that is out of reach is tried again."""

REMEMBERED_MAX = 10_000
"""Number of paths whose last value is remembered; the least recently read one is dropped."""


@unique
class Reach(Enum):
    """The states of a store as its readers see it."""

    IN_REACH = "The store confirms what is read."
    OUT_OF_REACH = "Reads that permit it are served from old metadata, and the store is probed."


@unique
class ReachEvent(Enum):
    """The events that change the state of a store."""

    MISS = "a linearizable read was not answered in time"
    ANSWER = "a linearizable read of the probe was answered"


METADATA_REACH = TransitionTable(
    "metadata store of a reader",
    "The metadata store as the readers of one process see it: in reach, or out of reach.",
    Reach.IN_REACH,
    {
        (Reach.IN_REACH, ReachEvent.MISS): Reach.OUT_OF_REACH,
        (Reach.OUT_OF_REACH, ReachEvent.ANSWER): Reach.IN_REACH,
    },
)


class StaleValue(Value):
    """A value that may be old, because the store has not confirmed it."""

    age_ms: int
    """Milliseconds since the store last confirmed anything that this process read."""

    @classmethod
    def of(cls, value: Value, age_ms: int) -> "StaleValue":
        """Return ``value`` with its age."""
        marked = cls(*value)
        marked.age_ms = age_ms
        return marked


class ReadOnlyWatch:
    """A watch that also fires when the store is in reach again."""

    def __init__(
        self, watches: dict["ReadOnlyWatch", None], inner: Watch, callback: Callable[[], None]
    ) -> None:
        self.fire = callback
        self._inner = inner
        self._watches = watches
        watches[self] = None

    def close(self) -> None:
        """Stop the watch: the callback is no longer called. Safe to repeat."""
        self._watches.pop(self, None)
        self._inner.close()


class ReadOnlyStore:
    """The metadata of one process for its readers. ``aclose`` ends the probe, not the store."""

    def __init__(
        self,
        store: MetadataReads,
        *,
        wait_ms: int = WAIT_MS,
        remembered_max: int = REMEMBERED_MAX,
        on_stale_read: Callable[[], None] = lambda: None,
    ) -> None:
        """``on_stale_read`` is called for each value that is returned without confirmation."""
        self.stale_reads = 0
        """Number of values that were returned although the store had not confirmed them."""
        self._store = store
        self._on_stale_read = on_stale_read
        self._wait_s = wait_ms / 1000
        self._remembered_max = remembered_max
        # The newest value of each path that the handle returned; None: the store confirmed that
        # there was no node, so an older value must not come back.
        self._remembered: OrderedDict[str, Value | None] = OrderedDict()
        self._loop = asyncio.get_running_loop()
        self._confirmed_at = self._loop.time()
        self._mute_until = self._loop.time()  # until then the store is not asked for old values
        self._machine = StateMachine(METADATA_REACH, store.uri, now=self._loop.time)
        self._tasks = Tasks()
        self._watches: dict[ReadOnlyWatch, None] = {}

    @property
    def uri(self) -> str:
        """The URI of the store, without secrets."""
        return self._store.uri

    @property
    def is_out_of_reach(self) -> bool:
        """True while reads are served from old metadata."""
        return self._machine.state is Reach.OUT_OF_REACH

    @property
    def age_ms(self) -> int:
        """The age of what is returned now: 0 in reach, else the time since the last confirmation.

        A handle that was never in reach counts from when it was opened; its metadata is older.
        """
        if not self.is_out_of_reach:
            return 0
        return round((self._loop.time() - self._confirmed_at) * 1000)

    def statistics(self) -> dict[str, int]:
        """Return counters and sizes for metrics."""
        return {
            "unavailable": int(self.is_out_of_reach),
            "stale_age_ms": self.age_ms,
            "stale_reads": self.stale_reads,
            "cached": len(self._remembered),
        }

    # --- reads ----------------------------------------------------------------------------------

    async def get(self, path: str, *, stale_ok: bool = False) -> Value:
        """Return the node's value, with its age if it may be old.

        Raises NoNodeError only if the store confirmed it, else MetadataUnavailableError; without
        ``stale_ok`` also immediately while the store is out of reach.
        """
        try:
            value = await self._current(lambda: self._store.get(path))
        except NoNodeError:
            self._remember(path, None)
            raise
        except MetadataUnavailableError:
            if not stale_ok:
                raise
            return await self._stale(path)
        self._remember(path, value)
        return value

    async def get_all(self, paths: Sequence[str], *, stale_ok: bool = False) -> list[Value | None]:
        """Return the values of several nodes, None for each that does not exist.

        Raises MetadataUnavailableError as ``get``, also if a single value is not known.
        """
        try:
            values = await self._current(lambda: self._store.get_all(paths))
        except MetadataUnavailableError:
            if not stale_ok:
                raise
            works = [self._stale(path) for path in paths]
            return list(await run_all(works, "read old metadata"))
        for path, value in zip(paths, values, strict=True):
            self._remember(path, value)
        return values

    async def children(
        self,
        path: str,
        *,
        after: str | None = None,
        limit: int | None = None,
        stale_ok: bool = False,
    ) -> list[str]:
        """Return at most ``limit`` names of direct children after ``after``, in byte order.

        With ``stale_ok`` names may be missing, and names of deleted nodes may be among them.
        """
        try:
            return await self._current(lambda: self._store.children(path, after=after, limit=limit))
        except MetadataUnavailableError:
            if not stale_ok:
                raise
        try:
            async with asyncio.timeout(self._wait_s):
                names = await self._store.children(path, after=after, limit=limit, stale_ok=True)
        except (NoNodeError, TimeoutError) as error:
            raise self._unknown_error(path) from error
        self._count_stale_read()
        return names

    def is_newer(self, version: Version, than: Version) -> bool:
        """Return True if a node had the version ``than`` first and ``version`` later."""
        return self._store.is_newer(version, than)

    def watch(self, path: str, callback: Callable[[], None], *, prefix: bool = False) -> Watch:
        """Call ``callback`` after a change, and when the store is in reach again."""
        inner = self._store.watch(path, callback, prefix=prefix)
        return ReadOnlyWatch(self._watches, inner, callback)

    async def _current(self, read: Callable[[], Awaitable[T]]) -> T:
        """Read from the store. Raises MetadataUnavailableError after the time to wait."""
        if self.is_out_of_reach:
            raise MetadataUnavailableError(f"{self.uri} cannot be reached")
        began = self._loop.time()
        try:
            async with asyncio.timeout(self._wait_s):
                found = await read()
        except TimeoutError as error:
            unavailable = MetadataUnavailableError(
                f"{self.uri} did not respond within {self._wait_s * 1000:.0f} ms"
            )
            self._miss(unavailable)
            raise unavailable from error
        except MetadataUnavailableError as error:
            self._miss(error)
            raise
        except NoNodeError:
            self._confirmed_at = max(self._confirmed_at, began)
            raise
        self._confirmed_at = max(self._confirmed_at, began)
        return found

    async def _stale(self, path: str) -> Value:
        """Return the newest value that this region has. Raises MetadataUnavailableError."""
        value = self._newest(path, await self._read_stale(path))
        if value is None:
            raise self._unknown_error(path)
        self._count_stale_read()
        return StaleValue.of(value, self.age_ms)

    def _count_stale_read(self) -> None:
        self.stale_reads += 1
        self._on_stale_read()

    async def _read_stale(self, path: str) -> Value | None:
        """Return what the store has without its majority, if it responds and has the node."""
        if self._loop.time() < self._mute_until:
            return None
        try:
            async with asyncio.timeout(self._wait_s):
                return await self._store.get(path, stale_ok=True)
        except NoNodeError:
            return None
        except (MetadataUnavailableError, TimeoutError):
            self._mute_until = self._loop.time() + PROBE_MS / 1000
            return None

    def _newest(self, path: str, found: Value | None) -> Value | None:
        """Return the newer of an old value and the remembered one, and remember it."""
        known = self._remembered.get(path)
        is_first = path not in self._remembered
        if found is not None and (is_first or (known is not None and self._is_newer(found, known))):
            known = found
            self._remember(path, Value(*found))
        return known

    def _is_newer(self, value: Value, than: Value) -> bool:
        return self._store.is_newer(value.version, than.version)

    def _remember(self, path: str, value: Value | None) -> None:
        """Make ``value`` the remembered one, unless a newer one was returned meanwhile."""
        known = self._remembered.get(path)
        if value is None or known is None or not self._is_newer(known, value):
            self._remembered[path] = value
        self._remembered.move_to_end(path)
        if len(self._remembered) > self._remembered_max:
            self._remembered.popitem(last=False)

    def _unknown_error(self, path: str) -> MetadataUnavailableError:
        return MetadataUnavailableError(
            f"{self.uri} is out of reach, and {path} is not in what this region has"
        )

    # --- reach ----------------------------------------------------------------------------------

    def _miss(self, error: MetadataUnavailableError) -> None:
        if self.is_out_of_reach or self._tasks.is_closed:
            return
        self._machine.take(ReachEvent.MISS, str(error))
        _LOG.warning("old metadata used", uri=self.uri, error=error)
        self._tasks.spawn(self._probe(), f"probe {self.uri}")

    async def _probe(self) -> None:
        """Try the store until it responds, and let the watches fire."""
        while True:
            await asyncio.sleep(PROBE_MS / 1000)
            began = self._loop.time()
            try:
                async with asyncio.timeout(self._wait_s):
                    await self._store.get("/")
            except (RhumblineError, TimeoutError):
                continue
            break
        outage_ms = self.age_ms
        self._confirmed_at = max(self._confirmed_at, began)
        self._machine.take(ReachEvent.ANSWER)
        _LOG.info(
            "current metadata used", uri=self.uri, outage_ms=outage_ms, reads=self.stale_reads
        )
        for watch in list(self._watches):
            watch.fire()

    async def aclose(self) -> None:
        """Stop the probe. Reads are still possible as long as the store is open. Safe to repeat."""
        await self._tasks.aclose()
