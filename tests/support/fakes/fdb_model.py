"""A model of FoundationDB's transactions, written from its documentation and only for tests.

Modelled: ordered keys; reads at one read version, with the transaction's own writes visible; read
conflicts at commit (1020); versionstamped values; the five-second limit (1007); the limits of key,
value and transaction size (2102, 2103, 2101); timeouts (1031); watches that fire when the value
differs from the one that the transaction saw; and, injected, commits with an unknown outcome (1021,
carried out or not). With ``round_trip_s``, a read version, a read and a commit take one round trip
each on the running loop, and concurrent ones take it together. Not modelled: storage, distribution,
real timing, the directory layer.
"""

import asyncio
import struct
import threading
import time
from bisect import bisect_left, insort
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple

KEY_BYTES_MAX = 10_000
VALUE_BYTES_MAX = 100_000
TRANSACTION_BYTES_MAX = 10_000_000
AGE_S_MAX = 5.0


class ModelError(Exception):
    """The counterpart of the bindings' FDBError; it has only a code."""

    def __init__(self, code: int) -> None:
        super().__init__(f"error {code}")
        self.code = code


class Result(NamedTuple):
    """The counterpart of the bindings' Value and Key, which hold the bytes in an attribute."""

    value: bytes | None


class Pair(NamedTuple):
    key: bytes
    value: bytes


class Future:
    """A future that is settled at once or, with a delay or for a watch, later.

    It is ready for those who ask only when something was waited for after it was made, since on a
    real cluster a result needs time too.
    """

    waits = 0

    def __init__(self) -> None:
        self._callbacks: list[Callable[[Any], None]] = []
        self._outcome: tuple[object, ModelError | None] | None = None
        self._made_after = Future.waits

    @classmethod
    def of(cls, work: Callable[[], object], delay_s: float = 0.0) -> "Future":
        """Return the future of ``work``, which is done after ``delay_s``."""
        future = cls()
        if delay_s:
            asyncio.get_running_loop().call_later(delay_s, future._do, work)
        else:
            future._do(work)
        return future

    def _do(self, work: Callable[[], object]) -> None:
        try:
            self.settle(work())
        except ModelError as error:
            self.settle(None, error)

    def is_ready(self) -> bool:
        return self._outcome is not None and Future.waits > self._made_after

    def settle(self, value: object, error: ModelError | None = None) -> None:
        if self._outcome is not None:
            return
        self._outcome = value, error
        callbacks, self._callbacks = self._callbacks, []
        for callback in callbacks:
            callback(self)

    def on_ready(self, callback: Callable[[Any], None]) -> None:
        Future.waits += 1
        if self._outcome is None:
            self._callbacks.append(callback)
        else:
            callback(self)

    def wait(self) -> Any:  # noqa: ANN401 - as the bindings' own
        assert self._outcome is not None, "the adapter would block"
        value, error = self._outcome
        if error is not None:
            raise error
        return value

    def cancel(self) -> None:
        self.settle(None, ModelError(1101))


class ModelCluster:
    """The data of the cluster, and ``faults``, which the next commits consume in order.

    A fault is a pair (kind, error code). With kind "done", the commit is carried out nevertheless.
    ``clock`` returns seconds.
    """

    error: type[Exception] = ModelError
    hint = ""

    def __init__(
        self, *, clock: Callable[[], float] = time.monotonic, round_trip_s: float = 0.0
    ) -> None:
        self.clock = clock
        self.round_trip_s = round_trip_s
        self.version = 1000
        self.generation = 0
        self.keys: list[bytes] = []
        self.history: dict[bytes, list[tuple[int, bytes | None]]] = {}
        self.writes: deque[tuple[int, float, list[bytes]]] = deque()
        self.watches: dict[bytes, list[tuple[bytes | None, Future]]] = {}
        self.faults: deque[tuple[str, int]] = deque()
        self.is_stopped = False
        self.page_pairs = 3
        """Number of pairs in the first page of a range; later pages have more."""
        self.lock = threading.RLock()  # directories are opened in other threads
        self.begun = 0
        """Number of transactions that were begun."""
        self.commits = 0
        self.conflicts = 0

    def transaction(self) -> "ModelTransaction":
        self.begun += 1
        return ModelTransaction(self)

    def first_at_or_after(self, key: bytes) -> object:
        return key

    def at(self, key: bytes, version: int) -> bytes | None:
        """Return the value of a key at a version."""
        for written, value in reversed(self.history.get(key, [])):
            if written <= version:
                return value
        return None

    def range(self, begin: bytes, end: bytes, version: int) -> list[Pair]:
        """Return the pairs of a range at a version."""
        low, high = bisect_left(self.keys, begin), bisect_left(self.keys, end)
        found = [(key, self.at(key, version)) for key in self.keys[low:high]]
        return [Pair(key, value) for key, value in found if value is not None]

    def apply(self, writes: dict[bytes, bytes | None]) -> bytes:
        """Carry out a commit and return its versionstamp."""
        self.version += 1
        self.commits += 1
        stamp = struct.pack(">QH", self.version, 0)
        for key, value in writes.items():
            if key not in self.history:
                insort(self.keys, key)
                self.history[key] = []
            self.history[key].append((self.version, value))
            del self.history[key][:-50]
        self.writes.append((self.version, self.clock(), list(writes)))
        while self.writes and self.clock() - self.writes[0][1] > 2 * AGE_S_MAX:
            self.writes.popleft()
        for key in writes:
            for seen, future in self.watches.pop(key, ()):
                self.watch(key, seen, future)
        return stamp

    def lose_data(self) -> None:
        """Become a new, empty database, whose versions are lower; the prefixes of stores move."""
        self.version = 10
        self.generation += 1
        self.history.clear()
        self.keys.clear()
        self.writes.clear()
        waiting, self.watches = self.watches, {}
        for key, watches in waiting.items():
            for seen, future in watches:
                self.watch(key, seen, future)

    def find_prefix(self, name: bytes) -> Callable[[], Awaitable[bytes]]:
        """Return what finds the prefix of a store."""

        async def find() -> bytes:
            return b"%s%d" % (name, self.generation)

        return find

    def watch(self, key: bytes, seen: bytes | None, future: Future) -> None:
        """Settle the future of a watch when the value of the key differs from ``seen``."""
        if self.at(key, self.version) != seen:
            future.settle(None)
        else:
            self.watches.setdefault(key, []).append((seen, future))


class _Read(NamedTuple):
    """A range that was read, except keys that the transaction itself had written before."""

    begin: bytes
    end: bytes
    own: frozenset[bytes] = frozenset()

    def covers(self, key: bytes) -> bool:
        return self.begin <= key < self.end and key not in self.own


class Options:
    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self.timeout_at: float | None = None

    def set_timeout(self, timeout_ms: int) -> None:
        self.timeout_at = self._clock() + timeout_ms / 1000


class ModelTransaction:
    """A transaction with the calls that the store uses, under the names of the bindings."""

    options: Any

    def __init__(self, cluster: ModelCluster) -> None:
        self._cluster = cluster
        self.options = Options(cluster.clock)
        self._reset()

    def _reset(self) -> None:
        self._version: int | None = None
        self._version_at: float | None = None
        self._began = 0.0
        self._reads: list[_Read] = []
        self._writes: dict[bytes, bytes | None] = {}
        self._stamped: dict[bytes, int] = {}
        self._watches: list[tuple[bytes, Future]] = []
        self._stamp = Future()

    def get(self, key: bytes) -> Future:
        with self._cluster.lock:
            future = Future.of(lambda: Result(self._get(key)))
            return self._delayed(future)

    def _get(self, key: bytes) -> bytes | None:
        _check_key(key)
        if key in self._stamped:
            raise ModelError(1036)  # accessed_unreadable
        if key in self._writes:
            return self._writes[key]
        version = self._read_version()
        self._reads.append(_Read(key, key + b"\x00"))
        return self._cluster.at(key, version)

    def _get_range(
        self, begin: object, end: object, limit: int, mode: int, iteration: int, reverse: bool
    ) -> Future:
        del mode, reverse
        assert isinstance(begin, bytes) and isinstance(end, bytes)
        with self._cluster.lock:
            pages = self._cluster.page_pairs * iteration
            future = Future.of(lambda: self._range(begin, end, limit or 1_000_000, pages))
            return self._delayed(future)

    def _delayed(self, read: Future) -> Future:
        """Return the future of a read that was done, after its round trips."""
        if not self._cluster.round_trip_s:
            return read
        return Future.of(read.wait, self._has_version_in_s() + self._cluster.round_trip_s)

    def _has_version_in_s(self) -> float:
        """Return the time until the transaction has its read version."""
        now = self._cluster.clock()
        if self._version_at is None:
            self._version_at = now + self._cluster.round_trip_s
        return max(0.0, self._version_at - now)

    def _range(
        self, begin: bytes, end: bytes, limit: int, page: int
    ) -> tuple[list[Pair], int, bool]:
        """Return a range in pages, as a real cluster may."""
        assert not any(begin <= key < end for key in self._stamped), "unreadable"
        version = self._read_version()
        merged = {pair.key: pair.value for pair in self._cluster.range(begin, end, version)}
        for key, value in self._writes.items():
            if begin <= key < end:
                merged.pop(key, None)
                if value is not None:
                    merged[key] = value
        pairs = [Pair(key, merged[key]) for key in sorted(merged)]
        found = pairs[: min(limit, page)]
        is_whole = len(found) == len(pairs)
        until = end if is_whole else found[-1].key + b"\x00"
        self._reads.append(_Read(begin, until, frozenset(self._writes)))
        return found, len(found), not is_whole

    def set(self, key: bytes, value: bytes) -> None:
        _check_key(key)
        if len(value) > VALUE_BYTES_MAX:
            raise ModelError(2103)
        self._stamped.pop(key, None)
        self._writes[key] = value

    def clear(self, key: bytes) -> None:
        _check_key(key)
        self._stamped.pop(key, None)
        self._writes[key] = None

    def set_versionstamped_value(self, key: bytes, param: bytes) -> None:
        (offset,) = struct.unpack("<I", param[-4:])
        value = param[:-4]
        assert offset + 10 <= len(value), "the stamp does not fit"
        self.set(key, value)
        self._stamped[key] = offset

    def set_read_version(self, version: int) -> None:
        """Read at a version, which is as old as its commit."""
        cluster = self._cluster
        self._version = version
        self._version_at = cluster.clock()
        self._began = cluster.clock()
        for written, at, _ in reversed(cluster.writes):
            if written < version:
                break
            self._began = at

    def watch(self, key: bytes) -> Future:
        future = Future()
        self._read_version()
        self._watches.append((key, future))
        return future

    def get_versionstamp(self) -> Future:
        return self._stamp

    def commit(self) -> Future:
        with self._cluster.lock:
            if not self._cluster.round_trip_s:
                return Future.of(self._commit)
            wait_s = self._has_version_in_s() if self._reads or self._watches else 0.0
            return Future.of(self._commit, wait_s + self._cluster.round_trip_s)

    def _commit(self) -> None:
        cluster = self._cluster
        version = self._read_version() if self._writes or self._watches else None
        kind, code = cluster.faults.popleft() if cluster.faults and self._writes else ("", 0)
        if code and kind != "done":
            raise ModelError(code)
        size = sum(len(key) + len(value or b"") for key, value in self._writes.items())
        if size > TRANSACTION_BYTES_MAX:
            raise ModelError(2101)
        if self._writes:
            assert version is not None
            if self._reads and self._is_stale(version):
                cluster.conflicts += 1
                raise ModelError(1020)
            stamp = struct.pack(">QH", cluster.version + 1, 0)
            for key, offset in self._stamped.items():
                value = self._writes[key]
                assert value is not None
                self._writes[key] = value[:offset] + stamp + value[offset + 10 :]
            assert cluster.apply(dict(self._writes)) == stamp
            self._stamp.settle(Result(stamp))
        for key, future in self._watches:
            assert version is not None
            cluster.watch(key, cluster.at(key, version), future)
        if code:
            raise ModelError(code)

    def on_error(self, error: Exception) -> Future:
        future = Future()
        code = getattr(error, "code", 0)
        if code in (1007, 1020, 1021, 1009, 1037, 1039):
            self._reset()
            future.settle(None)
        else:
            future.settle(None, ModelError(code))
        return future

    def _is_stale(self, version: int) -> bool:
        for written, _, keys in reversed(self._cluster.writes):
            if written <= version:
                return False
            for key in keys:
                if any(read.covers(key) for read in self._reads):
                    return True
        return False

    def _read_version(self) -> int:
        now = self._cluster.clock()
        timeout_at = self.options.timeout_at
        if self._cluster.is_stopped or (timeout_at is not None and now > timeout_at):
            raise ModelError(1031)
        if self._version is None:
            self._version, self._began = self._cluster.version, now
        if now - self._began > AGE_S_MAX:
            raise ModelError(1007)
        return self._version


def _check_key(key: bytes) -> None:
    if len(key) > KEY_BYTES_MAX:
        raise ModelError(2102)
