"""The write proxy, apart from gRPC: owns streams, takes sets for them, gives streams up.

A stream is taken when somebody appends to it and it should be served here; see ``_Taking``. Safety
never depends on any of this: two proxies that both believe to own a stream have two writers of the
log, of which the older one is fenced.

Invariants:

1. Every item is answered exactly once.
2. A stream is in at most one of: being taken, served, being given up.
"""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from enum import Enum

from ...core.log.namespace import Namespace
from ...core.protocol.errors import (
    EndOfStreamError,
    NotOwnerError,
    OverRateError,
    RhumblineError,
    SessionLostError,
    StreamLostError,
    TooManyRequestsError,
    UnavailableError,
)
from ...core.runtime.metadata_store import MetadataStore
from ...core.runtime.tasks import Tasks, run_all
from ..config import ProxyConfig
from ..membership import WRITE, ProxyMember, ProxyMembership
from ..routing import Routing, stream_key
from .append_item import AppendItem, Done
from .claims import Claims, OwnershipClaim
from .rate_limits import RecordLimits
from .sequence_index import SequenceIndex
from .served_stream import ServedStream

_LOOK_MS = 100
"""How often a claim that should go away is looked at, beside the watch on it."""
_RETRY_MS = 20
_HOMES_A_ROUND = 100
_MOVES_A_ROUND = 16


class _State(Enum):
    TAKING = 1
    SERVED = 2
    LEAVING = 3


class _Stream:
    """A stream at this proxy, and what waits while it is being taken."""

    __slots__ = ("changed", "claim", "failure", "home", "is_astray", "name", "namespace", "rival",
                 "served", "state", "tried", "waiting", "waiting_bytes")  # fmt: skip

    def __init__(self, namespace: str, name: str) -> None:
        self.namespace = namespace
        self.name = name
        self.state = _State.TAKING
        self.changed = asyncio.Event()
        """Set when it is not being taken any more."""
        self.failure: RhumblineError | None = None
        """Why it was not taken."""
        self.home = ""
        self.is_astray = False
        """Whether another proxy should serve it, when that was last looked at."""
        self.claim: OwnershipClaim | None = None
        self.rival = ""
        """Whose claim it waits for, though clients could not reach that proxy."""
        self.served: ServedStream | None = None
        self.waiting: list[tuple[AppendItem, Done]] = []
        self.waiting_bytes = 0
        self.tried: dict[str, None] = {}


class WriteProxy:
    """Owns the streams that fall to it. For one event loop."""

    def __init__(
        self,
        store: MetadataStore,
        namespaces: Callable[[str], Namespace],
        presence: ProxyMembership,
        config: ProxyConfig,
    ) -> None:
        self.claims = Claims(store)
        self.is_leaving = False
        self._namespaces = namespaces
        self._presence = presence
        self._config = config
        self._loop = asyncio.get_running_loop()
        self._tasks = Tasks()
        self._streams: dict[str, _Stream] = {}
        self._limits = RecordLimits(config.records_per_s, config.bytes_per_s)
        self._taking = asyncio.Semaphore(config.acquires_max)
        self._routing = Routing(presence.members(WRITE))
        self._counts = {
            "taken": 0,
            "lost": 0,
            "released": 0,
            "moved": 0,
            "redirected": 0,
            "refused": 0,
        }
        presence.on_members.append(self._members_changed)
        presence.on_lost.append(self._session_lost)
        if config.balance_ms:
            self._tasks.spawn(self._balance(), "balance")

    # --- appending ------------------------------------------------------------------------------

    def append(self, item: AppendItem, done: Done) -> None:
        """Appends a set to its stream, which is taken over first if it falls to this proxy.

        ``done`` gets a Placed or an error: NotOwnerError (turn to ``owner``), OverRateError,
        TooManyRequestsError, and what the stream's writer raises.
        """
        if self._limits.is_on:
            wait_ms = self._limits.wait_ms(item.count, len(item.record_set), self._loop.time())
            if wait_ms:
                self._counts["refused"] += 1
                done(OverRateError("this proxy is above its rate", wait_ms))
                return
        stream = self._streams.get(stream_key(item.namespace, item.stream))
        if stream is None:
            stream = self._begin(item, done)
        if stream is None:
            return
        if stream.served is not None and stream.state is _State.SERVED:
            stream.served.submit(item, done)
        else:
            self._wait(stream, item, done)

    def _wait(self, stream: _Stream, item: AppendItem, done: Done) -> None:
        size = len(item.record_set)
        if stream.state is _State.LEAVING:
            done(self._elsewhere(stream))
        elif stream.waiting_bytes + size > self._config.waiting_bytes_max:
            done(TooManyRequestsError(f"stream {item.stream} is being taken over"))
        else:
            stream.waiting.append((item, done))
            stream.waiting_bytes += size
            stream.tried.update(dict.fromkeys(item.tried))

    def _begin(self, item: AppendItem, done: Done) -> _Stream | None:
        stream = _Stream(item.namespace, item.stream)
        if self.is_leaving:
            done(self._elsewhere(stream))
            return None
        try:
            self._check_room()
        except TooManyRequestsError as error:
            done(error)
            return None
        self._streams[stream_key(item.namespace, item.stream)] = stream
        self._tasks.spawn(self._take(stream), f"take {item.stream}")
        return stream

    def _check_room(self) -> None:
        if self.stream_count >= self._config.streams_max:
            self._counts["refused"] += 1
            raise TooManyRequestsError(f"this proxy has {self.stream_count} streams, its limit")

    @property
    def stream_count(self) -> int:
        """Streams that it owns, takes or gives up now."""
        return len(self._streams)

    def serves(self, namespace: str, stream: str) -> bool:
        """Whether it takes sets for the stream now, and believes to own it."""
        found = self._streams.get(stream_key(namespace, stream))
        return found is not None and found.state is _State.SERVED

    # --- taking ---------------------------------------------------------------------------------

    async def _take(self, stream: _Stream) -> None:
        failure: RhumblineError | None = None
        try:
            async with self._taking, asyncio.timeout(self._config.acquire_ms_max / 1000):
                await self._try_take(stream)
        except TimeoutError:
            failure = UnavailableError(f"stream {stream.name} could not be taken over in time")
            if stream.rival:  # it lives: the way to it may be back
                failure = NotOwnerError(f"{failure}: {stream.rival} has it", stream.rival)
        except SessionLostError as error:  # ours, and a new one is on its way
            failure = UnavailableError(f"stream {stream.name} could not be claimed: {error}")
        except RhumblineError as error:
            failure = error
        if failure is None:
            self._counts["taken"] += 1
            stream.state = _State.SERVED
        else:
            self._counts["redirected"] += isinstance(failure, NotOwnerError)
            await self._release_claim(stream)
        # No pause from here on: nothing may overtake what waits.
        waiting, stream.waiting = stream.waiting, []
        stream.waiting_bytes = 0
        if failure is not None:
            stream.failure = failure
            stream.state = _State.LEAVING
            self._streams.pop(stream_key(stream.namespace, stream.name), None)
        stream.changed.set()
        for item, done in waiting:
            if failure is not None:
                done(failure)
            else:
                self._resubmit(stream, item, done)

    def _resubmit(self, stream: _Stream, item: AppendItem, done: Done) -> None:
        if stream.served is None or stream.served.is_over:
            done(self._elsewhere(stream))
        else:
            stream.served.submit(item, done)

    async def _try_take(self, stream: _Stream) -> None:
        """Raises NotOwnerError when it is or should be somebody else's."""
        stream.home = await self.claims.home(stream.namespace, stream.name)
        stream.claim = await self._claimed(stream, stream.home)
        namespace = self._namespaces(stream.namespace)
        while True:
            try:
                writer = await namespace.open_writer(stream.name)
                break
            except StreamLostError as error:
                raise NotOwnerError(f"somebody else took stream {stream.name}: {error}") from error
            except RhumblineError as error:
                if not error.retryable:
                    raise
            await asyncio.sleep(_RETRY_MS / 1000)
        if self._presence.session is None or self._presence.me.id != stream.claim.member_id:
            await writer.abort()
            raise NotOwnerError(f"the claim of stream {stream.name} was lost")
        limits = RecordLimits(self._config.stream_records_per_s, self._config.stream_bytes_per_s)
        stream.served = ServedStream(
            writer, SequenceIndex(namespace, stream.name), limits, lambda: self._on_over(stream)
        )

    async def _claimed(self, stream: _Stream, home: str) -> OwnershipClaim:
        """Our claim. Waits for the end of a claim whose owner does not serve our clients."""
        key = stream_key(stream.namespace, stream.name)
        changed = asyncio.Event()
        watch = self.claims.watch(stream.namespace, stream.name, changed.set)
        try:
            while True:
                changed.clear()
                me, session = self._presence.me, self._presence.session
                if session is None:
                    raise UnavailableError("this proxy has no session in the metadata store")
                found = await self.claims.owner(stream.namespace, stream.name)
                if found is None:
                    self._check_preferred(stream, key, home)
                    found = await self.claims.take(stream.namespace, stream.name, me, session)
                if found.member_id == me.id:
                    stream.rival = ""
                    return found
                if found.address not in stream.tried and found.address != me.address:
                    raise NotOwnerError(
                        f"stream {stream.name} is owned by {found.address}", found.address
                    )
                stream.rival = found.address if found.address != me.address else ""
                await _wait(changed, _LOOK_MS)
        finally:
            watch.close()

    def _check_preferred(self, stream: _Stream, key: str, home: str) -> None:
        me = self._presence.me
        without = [address for address in stream.tried if address != me.address]
        best = self._routing.preferred(key, home, without=without)
        if best is not None and best.address != me.address:
            raise NotOwnerError(
                f"stream {stream.name} should be served by {best.address}", best.address
            )

    # --- giving up ------------------------------------------------------------------------------

    async def release(self, namespace: str, stream: str) -> bool:
        """Gives a stream up: what was taken is acknowledged first. Returns whether it was ours."""
        found = self._streams.get(stream_key(namespace, stream))
        if found is None or found.state is not _State.SERVED:
            return False
        assert found.served is not None
        with suppress(RhumblineError):  # the next owner finds the end by recovery
            await self._leave(found, found.served.close)
        return True

    async def end_stream(self, namespace: str, stream: str, *, tried: tuple[str, ...]) -> None:
        """Ends a stream for good; takes it first, if it falls to this proxy. A repeat is safe.

        Raises NotOwnerError, NoSuchStreamError, and what appending raises.
        """
        key = stream_key(namespace, stream)
        found = self._streams.get(key)
        try:
            if found is None:
                if self.is_leaving:
                    raise self._elsewhere(_Stream(namespace, stream))
                self._check_room()
                found = self._streams[key] = _Stream(namespace, stream)
                found.tried.update(dict.fromkeys(tried))
                self._tasks.spawn(self._take(found), f"take {stream}")
            while found.state is _State.TAKING:
                await found.changed.wait()
            if found.failure is not None:
                raise found.failure
            if found.state is not _State.SERVED:
                raise self._elsewhere(found)
            served = found.served
            assert served is not None
            await self._leave(found, served.end_stream)
        except EndOfStreamError:
            return

    async def _leave(self, stream: _Stream, close: Callable[[], Awaitable[None]]) -> None:
        """Raises what ``close`` raises; the stream is given up in any case."""
        served = stream.served
        assert served is not None
        stream.state = _State.LEAVING
        self._counts["released"] += 1
        try:
            async with asyncio.timeout(self._config.handover_ms_max / 1000):
                await close()
        except TimeoutError as error:  # the next owner finds the end by recovery
            raise UnavailableError(f"stream {stream.name} did not close in time") from error
        finally:
            await served.abort()
            self._streams.pop(stream_key(stream.namespace, stream.name), None)
            await self._release_claim(stream)

    def _on_over(self, stream: _Stream) -> None:
        """The writer failed, or was fenced: whoever appends next takes the stream again."""
        if stream.state is _State.SERVED:
            stream.state = _State.LEAVING
            self._counts["lost"] += 1
            if not self._tasks.is_closed:
                self._tasks.spawn(self._clear(stream), f"clear {stream.name}")

    async def _clear(self, stream: _Stream) -> None:
        assert stream.served is not None
        await stream.served.abort()
        self._streams.pop(stream_key(stream.namespace, stream.name), None)
        await self._release_claim(stream)

    async def _release_claim(self, stream: _Stream) -> None:
        claim, stream.claim = stream.claim, None
        if claim is None:
            return
        try:
            await self.claims.release(stream.namespace, stream.name, claim)
        except RhumblineError:
            return  # it goes with the session at the latest

    def _elsewhere(self, stream: _Stream) -> NotOwnerError:
        """Turn to whoever would take it, or come back when that is this proxy."""
        self._counts["redirected"] += 1
        me = self._presence.me
        best = self._routing.preferred(
            stream_key(stream.namespace, stream.name), me.region, without=(me.address,)
        )
        return NotOwnerError(
            f"stream {stream.name} is being given up by {me.address}",
            best.address if best is not None else "",
        )

    # --- balance --------------------------------------------------------------------------------

    async def _balance(self) -> None:
        """Gives up, a few at a time, streams that another proxy has been the one for, twice in a
        row: their home came back or changed, a proxy was added, this one takes no more streams."""
        look_at = 0
        while True:
            await asyncio.sleep(self._config.balance_ms / 1000)
            served = [one for one in self._streams.values() if one.state is _State.SERVED]
            for stream in served[look_at : look_at + _HOMES_A_ROUND]:
                with suppress(RhumblineError):  # it is looked at again
                    stream.home = await self.claims.home(stream.namespace, stream.name)
            look_at = look_at + _HOMES_A_ROUND if look_at + _HOMES_A_ROUND < len(served) else 0
            moves = 0
            for stream in served:
                was_astray, stream.is_astray = stream.is_astray, self._is_astray(stream)
                if was_astray and stream.is_astray and moves < _MOVES_A_ROUND:
                    moves += 1
                    self._counts["moved"] += await self.release(stream.namespace, stream.name)

    def _is_astray(self, stream: _Stream) -> bool:
        if self._presence.session is None:
            return False  # what is known of others is old
        key = stream_key(stream.namespace, stream.name)
        best = self._routing.preferred(key, stream.home)
        return best is not None and best.address != self._presence.me.address

    # --- coming and going -----------------------------------------------------------------------

    def _members_changed(self) -> None:
        self._routing = Routing(self._presence.members(WRITE))

    def _session_lost(self) -> None:
        """Our claims are gone or will be: others may have taken the streams."""
        for stream in list(self._streams.values()):
            stream.claim = None
            if stream.served is not None and stream.state is _State.SERVED:
                self._on_over(stream)

    async def preferred(self, namespace: str, stream: str) -> ProxyMember | None:
        """Who takes the stream first. Raises MetadataUnavailableError."""
        home = await self.claims.home(namespace, stream)
        return self._routing.preferred(stream_key(namespace, stream), home)

    async def aclose(self) -> None:
        """Hands all streams over: others may take each as soon as it is closed. Safe to repeat."""
        if self.is_leaving:
            return
        self.is_leaving = True
        with suppress(RhumblineError):  # or others find out when the session ends
            await self._presence.set_accepting(False)
        await self._tasks.aclose()
        for stream in list(self._streams.values()):
            waiting, stream.waiting = stream.waiting, []
            for _, done in waiting:
                done(self._elsewhere(stream))
            if stream.state is _State.TAKING:
                stream.state, stream.failure = _State.LEAVING, self._elsewhere(stream)
                stream.changed.set()
        leaving = [one for one in self._streams.values() if one.state is _State.SERVED]
        await run_all([self.release(one.namespace, one.name) for one in leaving], "hand over")
        for stream in list(self._streams.values()):  # those that were being taken
            self._streams.pop(stream_key(stream.namespace, stream.name), None)
            await self._release_claim(stream)

    def statistics(self) -> dict[str, int]:
        """Counters and sizes."""
        served = [s.served for s in self._streams.values() if s.served is not None]
        return {
            "streams": len(self._streams),
            "records": sum(one.record_count for one in served),
            "sets": sum(one.set_count for one in served),
            **self._counts,
        }


async def _wait(event: asyncio.Event, timeout_ms: int) -> None:
    try:
        async with asyncio.timeout(timeout_ms / 1000):
            await event.wait()
    except TimeoutError:
        return
