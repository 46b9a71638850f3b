"""The write proxy, without gRPC: takes streams over, accepts record sets, releases streams.

A stream is taken over when a client appends to it and this proxy should serve it (rules PRX-4,
PRX-6, PRX-7). Safety never depends on that: two proxies that both believe to own a stream have two
writers of the log, and the older writer is fenced (rule PRX-1).

Invariants:

1. Every item gets exactly one result.
2. A stream follows the table of ``ownership.py``: sets wait only while it is being taken over, and
   it is served only with an open writer.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from functools import partial
from random import Random

from ...core.log.namespace import Namespace
from ...core.protocol.errors import (
    EndOfStreamError,
    NotOwnerError,
    OverRateError,
    RhumblineError,
    SessionLostError,
    StreamSealedError,
    TooManyRequestsError,
    UnavailableError,
)
from ...core.runtime.event_log import EventLog, LogLimit
from ...core.runtime.tasks import Tasks, run_all, wait_until_done
from ..config import ProxyConfig
from ..proxy_stores import ProxyStore, ProxyStores
from ..registration import ProxyMember
from ..routing import stream_key
from .append_item import AppendItem, OnAppended
from .misplaced_streams import MisplacedStreams
from .owned_stream import OwnedStream, StreamInService
from .ownership import OwnershipEvent, OwnershipState
from .rate_limits import RecordLimits
from .stream_takeover import StreamTakeover

_LOG = EventLog(__name__)


class WriteProxy:
    """The write proxy of one process and event loop."""

    def __init__(
        self,
        namespaces: Callable[[str], Namespace],
        stores: ProxyStores,
        config: ProxyConfig,
        random: Random,
    ) -> None:
        """``random`` is for the jitter of pauses."""
        self.is_stopping = False
        self._takeover = StreamTakeover(namespaces, stores, config, random)
        self._stores = stores
        self._address = stores.first.membership.own_member.address
        self._config = config
        self._loop = asyncio.get_running_loop()
        self._tasks = Tasks()
        self._log_limit = LogLimit()
        self._streams: dict[str, OwnedStream] = {}
        self._limits = RecordLimits(config.records_per_s, config.bytes_per_s)
        self._taking = asyncio.Semaphore(config.acquires_max)
        self._counts = {  # records and sets: of the streams that were given up
            "records": 0,
            "sets": 0,
            "acquired": 0,
            "lost": 0,
            "released": 0,
            "moved": 0,
            "redirected": 0,
            "refused": 0,
        }
        for store in stores.all:
            store.membership.on_lost.append(partial(self._session_lost, store))
        if config.balance_ms:
            self._tasks.spawn(self._release_misplaced(), "release misplaced streams")

    # --- appending ------------------------------------------------------------------------------

    def append(self, item: AppendItem, on_result: OnAppended) -> None:
        """Append a record set to its stream, and take the stream over first if this proxy should
        serve it.

        ``on_result`` gets an Appended or an error: NotOwnerError (send to ``owner``),
        OverRateError, TooManyRequestsError, or what the stream's writer raises.
        """
        if self._limits.is_on:
            wait_ms = self._limits.wait_ms(item.count, len(item.record_set), self._loop.time())
            if wait_ms:
                self._counts["refused"] += 1
                on_result(OverRateError("this proxy exceeds its rate limit", wait_ms))
                return
        stream = self._streams.get(stream_key(item.namespace, item.stream))
        if stream is None:
            stream = self._begin_takeover(item, on_result)
        if stream is None:
            return
        if stream.served is not None and stream.state is OwnershipState.SERVED:
            stream.served.submit(item, on_result)
        else:
            self._enqueue(stream, item, on_result)

    def _enqueue(self, stream: OwnedStream, item: AppendItem, on_result: OnAppended) -> None:
        size = len(item.record_set)
        if stream.state is OwnershipState.RELEASING:
            on_result(self._redirect_error(stream))
        elif stream.waiting_bytes + size > self._config.waiting_bytes_max:
            on_result(TooManyRequestsError(f"stream {item.stream} is being taken over"))
        else:
            stream.waiting.append((item, on_result))
            stream.waiting_bytes += size
            stream.tried.update(dict.fromkeys(item.tried))
            stream.is_prepared = stream.is_prepared and not item.tried

    def _begin_takeover(self, item: AppendItem, on_result: OnAppended) -> OwnedStream | None:
        stream = OwnedStream(item.namespace, item.stream)
        if self.is_stopping:
            on_result(self._redirect_error(stream))
            return None
        try:
            self._check_room()
        except TooManyRequestsError as error:
            on_result(error)
            return None
        self._streams[stream_key(item.namespace, item.stream)] = stream
        self._tasks.spawn(self._take_over(stream), f"take {item.stream}")
        return stream

    def _check_room(self) -> None:
        if self.stream_count >= self._config.streams_max:
            self._counts["refused"] += 1
            raise TooManyRequestsError(
                f"this proxy has reached its limit of {self.stream_count} streams"
            )

    @property
    def stream_count(self) -> int:
        """Number of streams that are being taken over, served or released."""
        return len(self._streams)

    def serves(self, namespace: str, stream: str) -> bool:
        """Return whether the proxy accepts sets for the stream and believes that it owns it."""
        found = self._streams.get(stream_key(namespace, stream))
        return found is not None and found.state is OwnershipState.SERVED

    def served_streams(self) -> list[StreamInService]:
        """Return the streams that are served now."""
        return [found for one in self._streams.values() if (found := one.in_service) is not None]

    def find_served(self, namespace: str, stream: str) -> StreamInService | None:
        """Return a stream if it is served now; else None."""
        found = self._streams.get(stream_key(namespace, stream))
        return None if found is None else found.in_service

    def append_latencies(self, names: Sequence[str]) -> dict[str, dict[str, float]]:
        """Return how long recent appends took, by ``namespace/stream``; if served here."""
        found = {}
        for name in names:
            one = self.find_served(*name.partition("/")[::2])
            if one is not None and one.served.acks.count:
                p50, p99 = one.served.acks.quantiles_ms((0.5, 0.99))
                found[name] = {"p50_ms": round(p50, 3), "p99_ms": round(p99, 3)}
        return found

    # --- taking ---------------------------------------------------------------------------------

    async def _take_over(self, stream: OwnedStream) -> None:
        failure: RhumblineError | None = None
        began_s = self._loop.time()
        try:
            async with self._taking, asyncio.timeout(self._config.acquire_ms_max / 1000):
                await self._takeover.take(stream, lambda: self._on_over(stream))
        except TimeoutError:
            failure = UnavailableError(f"stream {stream.name} could not be taken over in time")
            if stream.rival_address:  # its session is alive, so it may be reachable again
                failure = NotOwnerError(
                    f"{failure}: {stream.rival_address} owns it", stream.rival_address
                )
        except SessionLostError as error:  # this proxy's own, and a new one is being created
            failure = UnavailableError(f"stream {stream.name} could not be claimed: {error}")
        except RhumblineError as error:
            failure = error
        if failure is not None:
            self._counts["redirected"] += isinstance(failure, NotOwnerError)
            await self._release_claim(stream)
        # No await from here on: no new item may overtake those that wait (rule PRX-5).
        waiting, stream.waiting = stream.waiting, []
        stream.waiting_bytes = 0
        if failure is None:
            self._counts["acquired"] += 1
            stream.ownership.take(OwnershipEvent.TAKE)
            stream.taken_at = self._loop.time()
            took_ms = round((self._loop.time() - began_s) * 1000)
            _LOG.info("ownership taken", **self._ids(stream), took_ms=took_ms)
        else:
            stream.failure = failure
            self._forget(stream, OwnershipEvent.FAIL, str(failure))
            self._log_failed_takeover(stream, failure)
        stream.changed.set()
        for item, on_result in waiting:
            if failure is not None:
                on_result(failure)
            else:
                self._resubmit(stream, item, on_result)

    def _ids(self, stream: OwnedStream) -> dict[str, str]:
        """Return the fields of log lines about a stream."""
        return {"namespace": stream.namespace, "stream": stream.name, "proxy": self._address}

    def _log_failed_takeover(self, stream: OwnedStream, failure: RhumblineError) -> None:
        if isinstance(failure, NotOwnerError | EndOfStreamError | StreamSealedError):
            return  # the client is redirected, or told that the stream ended or is sealed
        dropped = self._log_limit.admit(self._loop.time(), stream.name)
        if dropped is not None:
            _LOG.warning(
                "ownership not taken",
                machine=stream.ownership,
                **self._ids(stream),
                error=failure,
                dropped=dropped or None,
            )

    def _resubmit(self, stream: OwnedStream, item: AppendItem, on_result: OnAppended) -> None:
        if stream.served is None or stream.served.is_over:
            on_result(self._redirect_error(stream))
        else:
            stream.served.submit(item, on_result)

    async def prepare(self, namespace: str, stream: str, owner_address: str) -> bool:
        """Take a stream over as soon as its present owner has released it (rule PRX-42).

        Returns whether it is served here afterwards. Nothing happens if another proxy should serve
        the stream, or if the proxy has reached its limit.
        """
        key = stream_key(namespace, stream)
        if key not in self._streams and not self.is_stopping:
            if self.stream_count >= self._config.streams_max:
                return False
            found = self._streams[key] = OwnedStream(namespace, stream)
            found.tried[owner_address] = None
            found.is_prepared = True
            await wait_until_done(self._tasks.spawn(self._take_over(found), f"prepare {stream}"))
        return self.serves(namespace, stream)

    # --- releasing ------------------------------------------------------------------------------

    async def release_misplaced(self, namespace: str, stream: str) -> bool:
        """Release a stream if another proxy should serve it now. Returns whether it was released.

        It is for streams that were assigned to another proxy, which is prepared.
        """
        found = self._streams.get(stream_key(namespace, stream))
        if found is None or found.state is not OwnershipState.SERVED:
            return False
        if not found.is_elsewhere:
            return False
        was_served = await self.release(namespace, stream)
        self._counts["moved"] += was_served
        return was_served

    async def release(self, namespace: str, stream: str) -> bool:
        """Release a stream after its accepted sets are acknowledged. Returns whether it was served
        here."""
        found = self._streams.get(stream_key(namespace, stream))
        if found is None or found.state is not OwnershipState.SERVED:
            return False
        assert found.served is not None
        with suppress(RhumblineError):  # the next owner finds the end by recovery
            await self._give_up(found, found.served.close)
        return True

    async def end_stream(self, namespace: str, stream: str, *, tried: tuple[str, ...]) -> None:
        """End a stream permanently; take it over first if this proxy should serve it. Safe to
        repeat.

        Raises NotOwnerError, NoSuchStreamError, and what appending raises.
        """
        key = stream_key(namespace, stream)
        found = self._streams.get(key)
        try:
            if found is None:
                if self.is_stopping:
                    raise self._redirect_error(OwnedStream(namespace, stream))
                self._check_room()
                found = self._streams[key] = OwnedStream(namespace, stream)
                found.tried.update(dict.fromkeys(tried))
                self._tasks.spawn(self._take_over(found), f"take {stream}")
            while found.state is OwnershipState.TAKING:
                await found.changed.wait()
            if found.failure is not None:
                raise found.failure
            if found.state is not OwnershipState.SERVED:
                raise self._redirect_error(found)
            served = found.served
            assert served is not None
            await self._give_up(found, served.end_stream)
        except EndOfStreamError:
            return

    async def _give_up(self, stream: OwnedStream, close: Callable[[], Awaitable[None]]) -> None:
        """Close and release a stream. Releases it even if ``close`` raises, and then raises that
        error."""
        served = stream.served
        assert served is not None
        stream.ownership.take(OwnershipEvent.RELEASE)
        self._counts["released"] += 1
        try:
            async with asyncio.timeout(self._config.handover_ms_max / 1000):
                await close()
        except TimeoutError as error:  # the next owner finds the end by recovery
            raise UnavailableError(f"stream {stream.name} did not close in time") from error
        finally:
            try:
                await served.abort()
            finally:  # the client that ends a stream may cancel its call now
                self._forget(stream, OwnershipEvent.END)
                _LOG.info("ownership released", **self._ids(stream))
                await self._release_claim(stream)

    def _on_over(self, stream: OwnedStream) -> None:
        """Release a stream whose writer failed or was fenced; the next append takes it over."""
        if stream.state is OwnershipState.SERVED:
            stream.ownership.take(OwnershipEvent.LOSE)
            _LOG.warning("ownership lost", machine=stream.ownership, **self._ids(stream))
            self._counts["lost"] += 1
            if not self._tasks.is_closed:
                self._tasks.spawn(self._remove_lost_stream(stream), f"clear {stream.name}")

    async def _remove_lost_stream(self, stream: OwnedStream) -> None:
        assert stream.served is not None
        await stream.served.abort()
        self._forget(stream, OwnershipEvent.END)
        await self._release_claim(stream)

    def _forget(self, stream: OwnedStream, event: OwnershipEvent, detail: str = "") -> None:
        """Remove a stream, unless ``aclose`` has removed it meanwhile."""
        if self._streams.pop(stream_key(stream.namespace, stream.name), None) is not None:
            stream.ownership.take(event, detail)
            if stream.served is not None:  # counters never decrease
                self._counts["records"] += stream.served.record_count
                self._counts["sets"] += stream.served.set_count

    async def _release_claim(self, stream: OwnedStream) -> None:
        claim, stream.claim = stream.claim, None
        if claim is None or stream.store is None:
            return
        try:
            await stream.store.claims.release(stream.namespace, stream.name, claim)
        except RhumblineError:
            return  # it is deleted with the session at the latest

    def _redirect_error(self, stream: OwnedStream) -> NotOwnerError:
        """Return the error that sends a client to the next preferred proxy, or to any if none is
        known."""
        self._counts["redirected"] += 1
        store = stream.store or self._stores.first
        best = store.routing.preferred(
            stream_key(stream.namespace, stream.name),
            store.membership.own_member.region if stream.home is None else stream.home,
            without=(self._address,),
        )
        return NotOwnerError(
            f"stream {stream.name} is being released by {self._address}",
            best.address if best is not None else "",
        )

    async def _release_misplaced(self) -> None:
        async def release(stream: OwnedStream) -> None:
            self._counts["moved"] += await self.release(stream.namespace, stream.name)

        misplaced = MisplacedStreams(release)
        while True:
            await asyncio.sleep(self._config.balance_ms / 1000)
            served = [s for s in self._streams.values() if s.state is OwnershipState.SERVED]
            await misplaced.take_round(served)

    # --- membership and closing ------------------------------------------------------------------

    def _session_lost(self, store: ProxyStore) -> None:
        """Stop the writers of a store's streams: the claims are lost, so others may take them."""
        for stream in list(self._streams.values()):
            if stream.store is not store:
                continue
            stream.claim = None
            if stream.served is not None and stream.state is OwnershipState.SERVED:
                self._on_over(stream)

    async def preferred(self, namespace: str, stream: str) -> ProxyMember | None:
        """Return the proxy that should serve a stream. Raises MetadataUnavailableError."""
        store = await self._stores.of(namespace)
        home = await store.claims.home(namespace, stream)
        return store.routing.preferred(stream_key(namespace, stream), home)

    async def aclose(self) -> None:
        """Release all streams; others may take each as soon as it is closed. Safe to repeat."""
        if self.is_stopping:
            return
        self.is_stopping = True
        for store in self._stores.all:
            with suppress(RhumblineError):  # other proxies notice when the session ends
                await store.membership.set_accepting(False)
        await self._tasks.aclose()
        for stream in list(self._streams.values()):
            waiting, stream.waiting = stream.waiting, []
            for _, on_result in waiting:
                on_result(self._redirect_error(stream))
            if stream.state is OwnershipState.TAKING:
                stream.failure = self._redirect_error(stream)
                stream.ownership.take(OwnershipEvent.STOP)
                stream.changed.set()
        served = [s for s in self._streams.values() if s.state is OwnershipState.SERVED]
        await run_all([self.release(s.namespace, s.name) for s in served], "hand over")
        for stream in list(self._streams.values()):  # those that were being taken over
            self._forget(stream, OwnershipEvent.END)
            await self._release_claim(stream)

    def statistics(self) -> dict[str, int]:
        """Return counters and sizes for metrics."""
        served = [s.served for s in self._streams.values() if s.served is not None]
        counts = self._counts
        return {
            "streams": len(self._streams),
            **counts,
            "records": counts["records"] + sum(stream.record_count for stream in served),
            "sets": counts["sets"] + sum(stream.set_count for stream in served),
        }
