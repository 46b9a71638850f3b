"""The base of the processes that use a ledger: production connections over explored messages."""

import asyncio
from collections.abc import Callable, Mapping
from random import Random

from ....core.ledger.config import LedgerConfig
from ....core.ledger.connection.bookie_pool import BookiePool
from ....core.ledger.context import LedgerContext
from ....core.ledger.read.read_order import NearestFirst
from ....core.metadata.ledger_store import LedgerStore
from ....core.protocol.bookie_id import BookieId, Region
from ....core.protocol.recovery import AnswerKind, Evidence, Verdict
from ....core.runtime.histogram import Histogram
from ....core.runtime.runtime import Runtime
from ....core.runtime.tasks import Tasks
from ....core.wire import v2
from ....core.wire.frames import LENGTH, FrameSplitter
from ....core.wire.handshake import PLUGIN, decode_hello, encode_response
from ....placement.region_aware import RegionAwarePlacement
from ...checker.ledger_invariants import satisfies_p
from .canonical import Opaque
from .process import (
    FRAME,
    LOSE_CONNECTION,
    LOST,
    STORE,
    UNKNOWN_OUTCOME,
    ExploredProcess,
    Facts,
    Message,
    Sent,
)
from .store_port import FixedDirectory, SteppedStore

CONFIG = LedgerConfig(
    change_mode="eager",
    probe_timeout_ms=0,
    slow_after_ms=0,
    recovery_window=2,
    request_timeout_ms=60_000,
    speculative_read_ms=0,
)
"""Settings of every explored client: failures are acted upon at once, and requests do not time out
by themselves, because the explorer loses connections instead."""


class FixedClock(Opaque):
    """A clock that stands still."""

    def wall_ms(self) -> int:
        """Return the time of day in milliseconds."""
        return 1_000_000


class SteppedTransport(asyncio.Transport, Opaque):
    """A client's end of a connection: each frame becomes a message of its own."""

    def __init__(
        self, process: "SteppedClient", bookie: str, number: int, protocol: asyncio.Protocol
    ) -> None:
        super().__init__()
        self._process = process
        self._protocol = protocol
        self._splitter = FrameSplitter()
        self._is_open = True
        self.bookie = bookie
        self.number = number

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Send frames; the handshake is answered at once."""
        for frame in self._splitter.feed(bytes(data)):
            request = v2.decode_request(frame) if frame[0] == v2.VERSION else None
            if isinstance(request, v2.AuthRequest):
                wanted = decode_hello(request.payload)
                accepted = v2.encode_auth(PLUGIN, encode_response(wanted, wanted))
                self._process.loop.call_soon(self._protocol.data_received, accepted)
            else:
                message = Message(FRAME, (frame,))
                self._process.sent.append(Sent(self.bookie, self.number, message))

    def receive(self, frame: bytes) -> None:
        """Pass a frame of the bookie on."""
        if self._is_open:
            self._protocol.data_received(LENGTH.pack(len(frame)) + frame)

    def lose(self) -> None:
        """End the connection."""
        if self._is_open:
            self._is_open = False
            self._process.transports.pop(self.bookie, None)
            self._protocol.connection_lost(ConnectionResetError("connection reset"))

    def abort(self) -> None:
        """See asyncio.Transport."""
        self._is_open = False
        if self._process.transports.get(self.bookie) is self:
            del self._process.transports[self.bookie]

    close = abort

    def is_closing(self) -> bool:
        """See asyncio.Transport."""
        return not self._is_open


class SteppedClient(ExploredProcess):
    """A process with a ledger client's context. Subclasses add what it does."""

    def __init__(
        self,
        name: str,
        regions: Mapping[BookieId, Region],
        *,
        faults: tuple[str, ...] = (),
        time_steps: int = 0,
    ) -> None:
        super().__init__(name, faults=faults, time_steps=time_steps, connector=self._connect)
        self.regions = regions
        self.transports: dict[str, SteppedTransport] = {}
        self.store = SteppedStore(self.sent, self.violations)
        self.directory = FixedDirectory(regions)
        self._numbers: dict[str, int] = {}
        self._destroyed: dict[str, None] = {}
        self.loop.step(self._begin)

    def _begin(self) -> None:
        self.context = self._make_context()
        self.begin()

    def begin(self) -> None:
        """Start what the process does."""
        raise NotImplementedError

    def _make_context(self) -> LedgerContext:
        runtime = Runtime(FixedClock(), Random(0))
        region = next(iter(self.regions.values()))
        pool = BookiePool(runtime, self.directory, config=CONFIG, region=region)
        return LedgerContext(
            runtime=runtime,
            config=CONFIG,
            ledgers=LedgerStore(self.store),  # type: ignore[arg-type]
            directory=self.directory,  # type: ignore[arg-type]
            placement=RegionAwarePlacement(),
            region=region,
            pool=pool,
            tasks=Tasks(),
            reads=NearestFirst(region, runtime.random, CONFIG, pool.on_failure),
            on_evidence=self.on_evidence,
            on_missing_range=lambda _: None,
            on_slow_departure=lambda _: None,
            adds=Histogram(),
            handles={},
        )

    def _connect(
        self, factory: Callable[[], asyncio.Protocol], host: str
    ) -> tuple[asyncio.Transport, asyncio.BaseProtocol]:
        if host in self._destroyed:
            raise ConnectionRefusedError(host)
        protocol = factory()
        number = self._numbers[host] = self._numbers.get(host, 0) + 1
        transport = self.transports[host] = SteppedTransport(self, host, number, protocol)
        protocol.connection_made(transport)
        return transport, protocol

    # --- events ---------------------------------------------------------------------------------

    def on_message(self, source: str, connection: int, message: Message) -> None:
        """See ExploredProcess."""
        if source == STORE:
            self.store.on_reply(message)
            return
        if message.kind == LOST and message.data[0]:
            self._destroyed[source] = None
        transport = self.transports.get(source)
        if transport is None or transport.number != connection:
            return
        if message.kind == LOST:
            transport.lose()
        else:
            (frame,) = message.data
            assert isinstance(frame, bytes)
            transport.receive(frame)

    def on_action(self, action: str) -> None:
        """See ExploredProcess."""
        if action.startswith(LOSE_CONNECTION):
            self.transports[action.removeprefix(LOSE_CONNECTION)].lose()
        elif action == UNKNOWN_OUTCOME:
            self.store.lose_reply()
        else:
            raise AssertionError(f"{self.name} cannot {action}")

    def on_evidence(self, evidence: Evidence) -> None:
        """Recompute a decision of a recovery from its evidence (invariant L14)."""
        error = error_in(evidence, {str(b): str(region) for b, region in self.regions.items()})
        if error:
            self.violations.append(f"L14: {self.name}: {evidence.verdict.value}, but {error}")

    # --- the state ------------------------------------------------------------------------------

    def possible_faults(self) -> tuple[str, ...]:
        """See ExploredProcess."""
        if self.is_done:
            return ()
        return tuple(fault for fault in self.faults if self._is_possible(fault))

    def _is_possible(self, fault: str) -> bool:
        if fault == UNKNOWN_OUTCOME:
            return self.store.is_waiting
        return fault.removeprefix(LOSE_CONNECTION) in self.transports

    @property
    def awaited(self) -> frozenset[str]:
        """See ExploredProcess."""
        links = self.context.pool._fast.items()
        found = [b for b, link in links if link.connection and not link.connection.is_idle]
        return frozenset([*found, STORE] if self.store.is_waiting else found)

    @property
    def connections(self) -> dict[str, int]:
        """See ExploredProcess."""
        return {bookie: transport.number for bookie, transport in self.transports.items()}

    def client_roots(self) -> tuple[object, ...]:
        """Return the roots that all clients have."""
        return (
            self.context.pool,
            self._numbers,
            self._destroyed,
            sorted(self.connections.items()),
            sorted(self.store._pending),
            self.store._last_number,
        )

    def facts(self) -> Facts:
        """See ExploredProcess."""
        return Facts(self.found_violations())


def error_in(evidence: Evidence, regions: dict[str, str]) -> str | None:
    """Return why the answers do not allow the verdict; None if they do."""
    if evidence.verdict in (Verdict.INCOMPLETE, Verdict.RECOVER):
        return None
    if evidence.entry_id is None:
        fenced = [a for a in evidence.answers if a.kind is not AnswerKind.UNKNOWN]
        confirmed = max([evidence.fragment.first_entry_id - 1, *(a.lac for a in fenced)])
        if evidence.lac != confirmed:
            return f"it starts behind {evidence.lac}, although {confirmed} is confirmed"
        known = {a.index for a in fenced}
        starts = range(evidence.quorums[0].ensemble_size)
    else:
        known = {a.index for a in evidence.answers if a.kind is AnswerKind.NEVER}
        starts = range(evidence.entry_id, evidence.entry_id + 1)
    for quorum in evidence.quorums:
        for start in starts:
            rest = {evidence.fragment.bookies[i] for i in quorum.write_set(start)}
            rest -= {evidence.fragment.bookies[i] for i in known}
            if satisfies_p(quorum, set(map(str, rest)), regions):
                return f"{sorted(rest)} could acknowledge"
    return None
