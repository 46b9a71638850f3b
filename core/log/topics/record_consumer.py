"""Consumers that acknowledge single records of a stream, on top of a subscription (rule STR-36).

Every record is delivered until it is acknowledged, or until it was delivered ``deliveries_max``
times; then it goes to the dead-letter stream. The decisions are those of ``RecordWindow``. This
module fetches batches, stores states, appends dead letters and wakes the application.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from math import inf
from typing import NamedTuple

from ...protocol.dlsn import Dlsn, check_position
from ...protocol.errors import (
    ClosedError,
    ConfigurationError,
    DeadlineExceededError,
    InvalidArgumentError,
    OwnershipLostError,
    RhumblineError,
    UnknownOutcomeError,
)
from ...protocol.start import EARLIEST, Start, check_start
from ...runtime.primitives.backoff import Backoff
from ...runtime.primitives.wakeup import Wakeup
from ...runtime.runtime import Runtime
from ...runtime.settings import check_settings, setting
from ...runtime.tasks import Tasks
from ..api.log_namespace import LogNamespace
from ..close_at_exit import ClosesAtExit
from ..metadata.acknowledgements import UNACKNOWLEDGED_LIMIT
from ..metadata.subscriptions import Subscription
from ..read.record_batch import Record
from ..read.stream_reader import StreamReader
from .dead_letters import DeadLetter, DeadLetterSink
from .record_window import RecordWindow

DELAY_MS_MAX = 24 * 3600 * 1000
"""The longest delay of a rejected record, in ms."""


@dataclass(frozen=True, slots=True)
class RecordConfig:
    """Settings of a consumer that acknowledges single records. Raises ConfigurationError."""

    unacknowledged_max: int = setting(
        500,
        "Maximum number of delivered records without an acknowledgement, per stream. At the limit "
        "no further record is delivered for the first time.",
        low=1,
        high=UNACKNOWLEDGED_LIMIT,
    )
    timeout_ms: int | None = setting(
        30_000,
        "Time after which a record that is not acknowledged is delivered again. None: never.",
        low=1,
    )
    deliveries_max: int | None = setting(
        None,
        "Number of deliveries after which a record goes to the dead-letter stream. None: it is "
        "delivered until it is acknowledged.",
        low=1,
    )
    store_ms: int = setting(
        500, "Longest time until an acknowledgement is stored, if nothing else is stored.", low=1
    )
    retry_ms: int = setting(200, "First pause before a failed step is retried.", low=1)
    finish_ms_max: int = setting(
        10_000, "Longest time that closing waits until the last state is stored.", low=1
    )

    def __post_init__(self) -> None:
        check_settings(self, "record consumer")


class ReceivedRecord(NamedTuple):
    """A record that was delivered and waits for its acknowledgement."""

    record: Record
    deliveries: int
    """The number of deliveries of the record, this one included. After a crash it may count a
    delivery that did not happen."""
    partition: int = 0
    """The partition of the topic; 0 for a stream."""

    @property
    def payload(self) -> bytes:
        """The payload of the record."""
        return self.record.payload

    @property
    def position(self) -> Dlsn:
        """The position of the record."""
        return self.record.dlsn


class RecordConsumer(ClosesAtExit):
    """One consumer of a stream. ``async with`` opens and closes it; iterate it for records.

    One consumer at a time: a second one of the same subscription takes it over, and the first
    raises SubscriptionLostError. For one event loop.
    """

    def __init__(
        self,
        runtime: Runtime,
        namespace: LogNamespace,
        stream: str,
        subscription: str,
        *,
        start: Start = EARLIEST,
        config: RecordConfig | None = None,
        dead_letters: DeadLetterSink | None = None,
        partition: int = 0,
        on_ready: Callable[[], None] | None = None,
    ) -> None:
        """``start`` is where a new subscription begins. ``on_ready`` is called when ``try_next``
        may return something again."""
        self.stream = stream
        self.subscription = subscription
        self.partition = partition
        self._config = config or RecordConfig()
        if (self._config.deliveries_max is None) != (dead_letters is None):
            raise ConfigurationError(
                "deliveries_max and a dead-letter stream are only allowed together"
            )
        self._runtime = runtime
        self._namespace = namespace
        self._start = check_start(start)
        self._dead_letters = dead_letters
        self._on_ready = on_ready or self._wake_application
        self._id = runtime.random_bytes(8).hex()
        self._application = Wakeup()
        self._fetcher = Wakeup()
        self._keeper = Wakeup()
        self._keeper_wakes_ms = 0.0  # when the keeper looks again by itself
        self._undertaker = Wakeup()
        self._store_lock = asyncio.Lock()
        self._tasks = Tasks(self._on_bug)
        self._loop = asyncio.get_running_loop()
        self._reader: StreamReader | None = None
        self._stored: Subscription | None = None
        self._window: RecordWindow | None = None
        self._is_ended = False
        self._is_closed = False
        self.failure: RhumblineError | None = None
        """The error that ended the consumer; None while it goes on."""

    # --- application interface ------------------------------------------------------------------

    async def __aenter__(self) -> "RecordConsumer":
        """Open the consumer. Raises as ``open``."""
        await self.open()
        return self

    async def open(self) -> None:
        """Create the subscription unless it exists, take it over, and begin to fetch records.

        Raises NoSuchStreamError, TruncatedError and the errors of the metadata store.
        """
        subscriptions = self._namespace.subscriptions
        reader = await self._namespace.open_reader(self.stream, self._start)
        try:
            await subscriptions.create(self.stream, self.subscription, reader.confirmed_position())
            found = await subscriptions.take_over(self.stream, self.subscription, self._id)
            if found.position != reader.position:
                await reader.aclose()
                reader = await self._namespace.open_reader(self.stream, found.position)
        except BaseException:
            await reader.aclose()
            raise
        assert found.acknowledgements is not None
        config = self._config
        self._reader = reader
        self._stored = found
        self._window = RecordWindow(
            found.position,
            found.acknowledgements,
            unacknowledged_max=config.unacknowledged_max,
            timeout_ms=config.timeout_ms,
            deliveries_max=config.deliveries_max,
        )
        self._tasks.spawn(self._fetch(reader, self._window), f"fetch {self.stream}")
        self._tasks.spawn(self._keep(self._window), f"keep {self.subscription} of {self.stream}")
        if self._dead_letters is not None:
            burying = self._bury(self._window, self._dead_letters)
            self._tasks.spawn(burying, f"dead letters of {self.stream}")

    def __aiter__(self) -> "RecordConsumer":
        """Return the consumer itself."""
        return self

    async def __anext__(self) -> ReceivedRecord:
        """Wait for and return the next record. Stops once an ended stream is acknowledged.

        Raises the errors of readers and of the metadata store; those that are not transient end the
        consumer.
        """
        while (found := self.try_next()) is None:
            if self.is_finished:
                raise StopAsyncIteration
            await self._application.wait()
        return found

    def try_next(self) -> ReceivedRecord | None:
        """Return the next record if there is one now. Raises as iteration does."""
        if self._is_closed:
            raise ClosedError(f"the consumer of {self.stream} is closed")
        if self.failure is not None:
            raise self.failure.with_traceback(None)
        window = self._opened()
        found = window.take(self._now_ms())
        if window.must_store:
            self._keeper.wake()
        else:
            self._wake_keeper_within(self._config.timeout_ms)
        if found is not None:
            return ReceivedRecord(found.record, found.deliveries, self.partition)
        if window.next_dead() is not None:
            self._undertaker.wake()
        if window.wants_batch:
            self._fetcher.wake()
        return None

    def acknowledge(self, position: Dlsn) -> bool:
        """Mark the record at ``position`` as processed, so that it is not delivered again.

        It is stored within ``store_ms``, or by ``flush``. Returns False if the record does not wait
        for an acknowledgement here.
        """
        check_position(position).check_stream(self.stream, self._stream_id())
        window = self._opened()
        was_full = not window.wants_batch
        if not window.acknowledge(position.in_stream("")):
            return False
        self._wake_keeper_within(self._config.store_ms)
        if was_full:
            self._fetcher.wake()
            self._on_ready()
        if window.is_empty:
            self._on_ready()
        return True

    def reject(self, position: Dlsn, *, delay_ms: float = 0, reason: str = "rejected") -> bool:
        """Give the record at ``position`` back: it is delivered again after ``delay_ms``.

        If that was its last delivery, it goes to the dead-letter stream with ``reason``. A delay is
        forgotten if the consumer stops. Returns False if the application does not have the record.
        Raises InvalidArgumentError unless the delay is between 0 and ``DELAY_MS_MAX``.
        """
        if not 0 <= delay_ms <= DELAY_MS_MAX:
            raise InvalidArgumentError(f"delay_ms={delay_ms} is not between 0 and {DELAY_MS_MAX}")
        check_position(position).check_stream(self.stream, self._stream_id())
        window = self._opened()
        done = window.reject(position.in_stream(""), self._now_ms() + delay_ms, reason)
        if done:
            self._keeper.wake()
            self._undertaker.wake()
        return done

    async def flush(self) -> None:
        """Store all acknowledgements so far. Raises what storing raises."""
        window = self._opened()
        if window.is_changed:
            await self._store(window)

    @property
    def stored_position(self) -> Dlsn:
        """The stored position of the subscription, as this consumer read or stored it last.

        Raises ClosedError before ``open``.
        """
        self._opened()
        assert self._stored is not None
        return self._stored.position

    @property
    def is_finished(self) -> bool:
        """True if the stream has ended and every record is acknowledged."""
        return self._is_ended and self._opened().is_empty

    @property
    def outstanding(self) -> int:
        """The number of records that the application has."""
        return self._opened().out_count

    async def aclose(self) -> None:
        """Store the acknowledgements and stop. Safe to repeat."""
        self._is_closed = True
        await self._tasks.aclose()
        reader, self._reader = self._reader, None
        if reader is None:
            return
        await reader.aclose()
        if self._dead_letters is not None:
            await self._dead_letters.aclose()
        self._on_ready()
        if self.failure is None:
            window = self._opened()
            try:
                async with asyncio.timeout(self._config.finish_ms_max / 1000):
                    await self._store(window, is_final=True)
            except TimeoutError as error:
                raise DeadlineExceededError(
                    f"subscription {self.subscription} of {self.stream}: the last acknowledgements "
                    f"were not stored within {self._config.finish_ms_max} ms"
                ) from error

    async def abandon(self) -> None:
        """Stop without storing anything, as a crash would. Safe to repeat."""
        self._is_closed = True
        await self._tasks.aclose()
        reader, self._reader = self._reader, None
        if reader is not None:
            await reader.aclose()

    async def _close_at_exit(self) -> None:
        await self.aclose()

    async def _abort_at_exit(self) -> None:
        await self.abandon()

    # --- work in the background -----------------------------------------------------------------

    async def _fetch(self, reader: StreamReader, window: RecordWindow) -> None:
        backoff = self._backoff()
        while True:
            if not window.wants_batch:
                await self._fetcher.wait()
                continue
            try:
                batch = await reader.next_batch()
                if batch is None:
                    self._is_ended = True
                    self._on_ready()
                    return
                window.add_batch(batch.records())
            except RhumblineError as error:
                if not error.retryable:
                    self._fail(error)
                    return
                await backoff.pause()
                continue
            backoff.reset()
            self._on_ready()

    async def _keep(self, window: RecordWindow) -> None:
        """Store states, and let the records go on whose time has come."""
        backoff = self._backoff()
        store_at_ms: float | None = None
        while True:
            await self._sleep(window, store_at_ms)
            now_ms = self._now_ms()
            if window.advance(now_ms):
                self._on_ready()
            if window.next_dead() is not None:
                self._undertaker.wake()
            if not (window.is_changed or window.must_store):
                store_at_ms = None
                continue
            if store_at_ms is None:
                store_at_ms = now_ms + self._config.store_ms
            if not window.must_store and now_ms < store_at_ms:
                continue
            try:
                await self._store(window)
            except RhumblineError as error:
                if not (error.retryable or isinstance(error, UnknownOutcomeError)):
                    self._fail(error)
                    return
                await backoff.pause()
                continue
            backoff.reset()
            store_at_ms = None
            self._on_ready()

    async def _sleep(self, window: RecordWindow, store_at_ms: float | None) -> None:
        """Wait until there may be something to store or to deliver again."""
        if window.must_store:
            return
        times = [due for due in (window.next_due_ms, store_at_ms) if due is not None]
        self._keeper_wakes_ms = min(times, default=inf)
        pause_s = max(0.0, self._keeper_wakes_ms - self._now_ms()) / 1000
        await self._keeper.wait(pause_s if times else None)
        self._keeper_wakes_ms = 0.0

    async def _bury(self, window: RecordWindow, dead_letters: DeadLetterSink) -> None:
        """Append dead letters; only then their records count as acknowledged (rule STR-37)."""
        backoff = self._backoff()
        while True:
            dead = window.next_dead()
            if dead is None:
                await self._undertaker.wait()
                continue
            letter = DeadLetter.of(
                self.stream, self.subscription, dead.record, dead.deliveries, dead.reason
            )
            try:
                await dead_letters.append(letter)
            except RhumblineError as error:
                is_transient = error.retryable or isinstance(
                    error, UnknownOutcomeError | OwnershipLostError
                )
                if not is_transient:
                    self._fail(error)
                    return
                await backoff.pause()
                continue
            backoff.reset()
            self.acknowledge(dead.position)
            self._on_ready()

    async def _store(self, window: RecordWindow, *, is_final: bool = False) -> None:
        """Store the present state. One state is stored after the other."""
        assert self._stored is not None
        async with self._store_lock:
            state = window.state(is_final=is_final)
            await self._namespace.subscriptions.store(
                self._stored, self.stream, state.position, state.acknowledgements
            )
            window.on_stored(state)

    # --- details --------------------------------------------------------------------------------

    def _opened(self) -> RecordWindow:
        if self._window is None:
            raise ClosedError(f"the consumer of {self.stream} is not open")
        return self._window

    def _stream_id(self) -> str:
        assert self._stored is not None
        return self._stored.position.stream_id

    def _wake_keeper_within(self, pause_ms: int | None) -> None:
        """Let the keeper look again within this time at the latest."""
        if pause_ms is not None and self._now_ms() + pause_ms < self._keeper_wakes_ms:
            self._keeper.wake()

    def _backoff(self) -> Backoff:
        return Backoff(self._runtime.random, self._config.retry_ms, 20 * self._config.retry_ms)

    def _now_ms(self) -> float:
        return self._loop.time() * 1000

    def _wake_application(self) -> None:
        self._application.wake()

    def _fail(self, error: RhumblineError) -> None:
        self.failure = error
        self._on_ready()

    def _on_bug(self, error: BaseException) -> None:
        if isinstance(error, RhumblineError):
            self._fail(error)
            return
        message = f"the consumer of {self.stream} failed"
        self._loop.call_exception_handler({"message": message, "exception": error})
        self._fail(ClosedError(f"the consumer of {self.stream} failed: {error!r}"))
