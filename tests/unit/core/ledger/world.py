"""A ledger client in virtual time, with fake bookies whose responses tests can script."""

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any, cast

from rhumbline.core.ledger.client import LedgerClient
from rhumbline.core.ledger.config import LedgerConfig
from rhumbline.core.ledger.read_policy import ReadPolicy
from rhumbline.core.ledger.slow_departure import SlowDeparture
from rhumbline.core.metadata.ledger_store import LedgerNumber
from rhumbline.core.protocol.bookie_id import BookieId, Region
from rhumbline.core.protocol.errors import (
    BadVersionError,
    BookieUnavailableError,
    MetadataError,
    NoSuchLedgerError,
)
from rhumbline.core.protocol.ledger_metadata import LedgerMetadata, LedgerState
from rhumbline.core.protocol.placement import BookieInfo
from rhumbline.core.protocol.recovery import Evidence
from rhumbline.core.runtime.metadata_store import Version
from rhumbline.core.runtime.runtime import Runtime
from rhumbline.core.wire import bookkeeper_pb2 as pb
from rhumbline.core.wire import handshake, v2, v3
from rhumbline.core.wire.entry import ENTRY_HEADER, peek_lac
from rhumbline.core.wire.frames import FrameSplitter
from rhumbline.core.wire.registration import Registration
from rhumbline.placement.region_aware import RegionAwarePlacement

DELAY_S = 0.001


class VirtualLoop(asyncio.BaseEventLoop):
    """A loop whose time jumps to the next timer. Connections lead to fake bookies by port."""

    def __init__(self) -> None:
        super().__init__()
        self._selector = self
        self.now = 0.0
        self.bookies: dict[int, FakeBookie] = {}
        self.failures: list[dict[str, Any]] = []
        self.set_exception_handler(lambda _, context: self.failures.append(context))

    def time(self) -> float:
        return self.now

    def select(self, timeout: float | None) -> list[Any]:
        assert timeout is not None, "deadlock: there is no timer and nothing is ready"
        self.now += timeout
        return []

    def _process_events(self, event_list: list[Any]) -> None:
        pass

    def _write_to_self(self) -> None:
        pass

    async def create_connection(  # type: ignore[override]
        self, factory: Callable[[], asyncio.Protocol], host: str, port: int
    ) -> tuple[asyncio.Transport, asyncio.Protocol]:
        await asyncio.sleep(DELAY_S)
        bookie = self.bookies[port]
        if bookie.is_down:
            raise ConnectionRefusedError(f"port {port}")
        protocol = factory()
        transport = _Pipe(self, protocol)
        bookie.accept(transport)
        protocol.connection_made(transport)
        return transport, protocol


class _Pipe(asyncio.Transport):
    """The client's end of a connection: bytes arrive at the other end after a delay."""

    def __init__(self, loop: VirtualLoop, protocol: asyncio.Protocol) -> None:
        super().__init__()
        self.loop = loop
        self.protocol = protocol
        self.splitter = FrameSplitter()
        self.bookie: FakeBookie | None = None
        self.is_open = True

    def write(self, data: bytes | bytearray | memoryview) -> None:
        assert self.bookie is not None
        self.loop.call_later(DELAY_S, self.bookie.receive, self, bytes(data))

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        self.protocol = cast(asyncio.Protocol, protocol)

    def respond(self, data: bytes, delay_s: float = DELAY_S) -> None:
        self.loop.call_later(delay_s, self._deliver, data)

    def _deliver(self, data: bytes) -> None:
        if self.is_open:
            self.protocol.data_received(data)

    def lose(self) -> None:
        if self.is_open:
            self.is_open = False
            self.loop.call_soon(self.protocol.connection_lost, None)

    def abort(self) -> None:
        self.lose()

    def close(self) -> None:
        self.lose()

    def is_closing(self) -> bool:
        return not self.is_open


Request = v2.AddRequest | v2.ReadRequest | v2.BatchReadRequest | pb.Request
HOLD = object()
"""Returned by a script to withhold the response until ``release``."""


@dataclass
class FakeBookie:
    """A bookie in memory. ``script`` sees each request first and returns a Code, HOLD, or None to
    serve it."""

    bookie: BookieId
    port: int
    region: Region | None
    is_down: bool = False
    is_hung: bool = False
    delay_s: float = 0.0
    """The additional time until an add is served."""
    path_delay_s: float = 0.0
    """The additional time until any request arrives."""
    script: Callable[[Request], object] | None = None
    entries: dict[tuple[int, int], bytes] = field(default_factory=dict)
    fenced: dict[int, None] = field(default_factory=dict)
    explicit_lacs: dict[int, bytes] = field(default_factory=dict)
    requests: list[Request] = field(default_factory=list)
    held: list[Callable[[], None]] = field(default_factory=list)
    pipes: list[_Pipe] = field(default_factory=list)
    parked: list[tuple[_Pipe, pb.Request]] = field(default_factory=list)

    def accept(self, pipe: _Pipe) -> None:
        pipe.bookie = self
        self.pipes.append(pipe)

    def go_down(self) -> None:
        self.is_down = True
        for pipe in self.pipes:
            pipe.lose()
        self.pipes.clear()
        self.parked.clear()
        self.held.clear()

    def come_up(self) -> None:
        self.is_down = False

    def release(self) -> None:
        held, self.held = self.held, []
        for go_on in held:
            go_on()

    def receive(self, pipe: _Pipe, data: bytes) -> None:
        if not pipe.is_open or self.is_down:
            return
        for frame in pipe.splitter.feed(data):
            if self.path_delay_s:
                pipe.loop.call_later(self.path_delay_s, self.on_frame, pipe, frame)
            else:
                self.on_frame(pipe, frame)

    def on_frame(self, pipe: _Pipe, frame: bytes) -> None:
        request: Any = (
            v2.decode_request(frame) if frame[0] == v2.VERSION else v3.decode_request(frame)
        )
        if isinstance(request, v2.AuthRequest):
            wanted = handshake.decode_hello(request.payload)
            payload = handshake.encode_response(wanted, self.bookie)
            pipe.respond(v2.encode_auth(handshake.PLUGIN, payload))
            return
        self.requests.append(request)
        if self.is_hung:
            return
        outcome = self.script(request) if self.script is not None else None
        if outcome is HOLD:
            self.held.append(lambda: self.serve(pipe, request, None))
        elif self.delay_s and isinstance(request, v2.AddRequest):
            pipe.loop.call_later(self.delay_s, self.serve, pipe, request, outcome)
        else:
            self.serve(pipe, request, outcome)

    def serve(self, pipe: _Pipe, request: Request, code: object) -> None:
        if isinstance(request, v2.AddRequest):
            refused = v2.Code.FENCED if request.ledger_id in self.fenced else v2.Code.OK
            code = code if isinstance(code, int) else refused
            if code == v2.Code.OK:
                self.store(request.ledger_id, request.entry_id, request.entry)
            pipe.respond(v2.encode_add_response(code, request.ledger_id, request.entry_id))
        elif isinstance(request, v2.ReadRequest):
            data = self.entries.get((request.ledger_id, request.entry_id))
            if not isinstance(code, int):
                code = v2.Code.NO_ENTRY if data is None else v2.Code.OK
            body = data if data is not None and code == v2.Code.OK else b""
            pipe.respond(v2.encode_read_response(code, request.ledger_id, request.entry_id, body))
        elif isinstance(request, v2.BatchReadRequest):
            self.serve_batch(pipe, request, code)
        else:
            self.serve_message(pipe, request, code)

    def serve_batch(self, pipe: _Pipe, request: v2.BatchReadRequest, code: object) -> None:
        found: list[bytes] = []
        while len(found) < request.count_max:
            data = self.entries.get((request.ledger_id, request.first_entry_id + len(found)))
            if data is None:
                break
            found.append(data)
        if not isinstance(code, int):
            code = v2.Code.OK if found else v2.Code.NO_ENTRY
        pipe.respond(
            v2.encode_batch_read_response(
                code,
                request.ledger_id,
                request.first_entry_id,
                request.request_id,
                found if code == v2.Code.OK else (),
            )
        )

    def serve_message(self, pipe: _Pipe, request: pb.Request, code: object) -> None:
        status = v3.Status(code) if isinstance(code, int) else None
        if request.HasField("add_request"):
            add = request.add_request
            assert add.flag == pb.AddRequest.RECOVERY_ADD
            if status is None:
                self.store(add.ledger_id, add.entry_id, bytes(add.body))
            response = v3.add_response(request, status or v3.Status.OK)
        elif request.HasField("write_lac_request"):
            write = request.write_lac_request
            if status is None:
                self.explicit_lacs[write.ledger_id] = bytes(write.body)
                self.wake(write.ledger_id)
            response = v3.write_lac_response(request, status or v3.Status.OK)
        elif request.HasField("read_lac_request"):
            ledger = request.read_lac_request.ledger_id
            lac_body, last = self.explicit_lacs.get(ledger), self.last_entry(ledger)
            if status is None:
                is_empty = lac_body is None and last is None
                status = v3.Status.NO_ENTRY if is_empty else v3.Status.OK
            if status != v3.Status.OK:
                lac_body = last = None
            response = v3.read_lac_response(request, status, lac_body=lac_body, last_entry=last)
        elif request.HasField("get_bookie_info_request"):
            response = v3.bookie_info_response(request, v3.Status.OK, free_bytes=1, total_bytes=1)
        else:
            self.serve_read(pipe, request, status)
            return
        pipe.respond(v3.frame(response))

    def serve_read(self, pipe: _Pipe, request: pb.Request, status: v3.Status | None) -> None:
        read = request.read_request
        if read.flag == pb.ReadRequest.ENTRY_PIGGYBACK and status is None:
            self.parked.append((pipe, request))
            pipe.loop.call_later(read.timeout_ms / 1000, self.wake_one, (pipe, request), True)
            self.wake(read.ledger_id)
            return
        if read.flag == pb.ReadRequest.FENCE_LEDGER:
            self.fenced[read.ledger_id] = None
        if read.entry_id == -1:
            data = self.last_entry(read.ledger_id)
        else:
            data = self.entries.get((read.ledger_id, read.entry_id))
        if status is None:
            status = v3.Status.NO_ENTRY if data is None else v3.Status.OK
        body = data if status == v3.Status.OK else None
        pipe.respond(v3.frame(v3.read_response(request, status, body)))

    # --- entries --------------------------------------------------------------------------------

    def store(self, ledger_id: int, entry_id: int, entry: bytes) -> None:
        self.entries[ledger_id, entry_id] = entry
        self.wake(ledger_id)

    def ids(self, ledger_id: int) -> list[int]:
        return sorted(entry for ledger, entry in self.entries if ledger == ledger_id)

    def last_entry(self, ledger_id: int) -> bytes | None:
        ids = self.ids(ledger_id)
        return self.entries[ledger_id, ids[-1]] if ids else None

    def lac(self, ledger_id: int) -> int:
        known = [
            ENTRY_HEADER.unpack_from(self.entries[ledger_id, i])[2] for i in self.ids(ledger_id)
        ]
        if ledger_id in self.explicit_lacs:
            known.append(peek_lac(self.explicit_lacs[ledger_id])[1])
        return max(known, default=-1)

    def wake(self, ledger_id: int) -> None:
        for parked in list(self.parked):
            read = parked[1].read_request
            if read.ledger_id == ledger_id and self.lac(ledger_id) > read.previous_lac:
                self.wake_one(parked)

    def wake_one(self, parked: tuple[_Pipe, pb.Request], is_late: bool = False) -> None:
        if parked not in self.parked:
            return
        self.parked.remove(parked)
        pipe, request = parked
        read = request.read_request
        lac = self.lac(read.ledger_id)
        body = self.entries.get((read.ledger_id, read.previous_lac + 1))
        if lac <= read.previous_lac:
            body = None
        response = v3.read_response(request, v3.Status.OK, body, max_lac=lac)
        pipe.respond(v3.frame(response))


class FakeWatch:
    def close(self) -> None:
        pass


class FakeLedgers:
    """A ledger store in memory. Each of ``faults`` is raised by one of the next calls."""

    def __init__(self) -> None:
        self.values: dict[int, tuple[LedgerMetadata, Version]] = {}
        self.history: list[LedgerMetadata] = []
        self.watches: dict[int, list[Callable[[], None]]] = {}
        self.faults: list[tuple[str, Exception, bool]] = []
        self.is_away = False
        self.gate: asyncio.Event | None = None
        self.writes = 0
        self.last_id = 100
        self.released: list[int] = []

    def fail_next(self, method: str, error: Exception, *, is_done: bool = False) -> None:
        """Makes the next call of ``method`` raise, after its work if ``is_done``."""
        self.faults.append((method, error, is_done))

    async def _reach(self, method: str) -> tuple[Exception, bool] | None:
        await asyncio.sleep(DELAY_S)
        if method == "write" and self.gate is not None:
            await self.gate.wait()
        if self.is_away:
            raise MetadataAwayError("the store is away")
        for fault in self.faults:
            if fault[0] == method:
                self.faults.remove(fault)
                return fault[1:]
        return None

    async def new_number(self) -> LedgerNumber:
        await self._reach("new_number")
        self.last_id += 1
        return LedgerNumber(self.last_id, "")

    async def release(self, number: LedgerNumber) -> None:
        self.released.append(number.ledger_id)

    async def create(self, metadata: LedgerMetadata, number: LedgerNumber) -> Version:
        await self._reach("create")
        return self.set(metadata)

    async def read(
        self, ledger_id: int, *, stale_ok: bool = False
    ) -> tuple[LedgerMetadata, Version]:
        fault = await self._reach("read")
        if fault is not None:
            raise fault[0]
        if ledger_id not in self.values:
            raise NoSuchLedgerError(f"ledger {ledger_id}")
        return self.values[ledger_id]

    async def write(self, metadata: LedgerMetadata, expect: Version) -> Version:
        fault = await self._reach("write")
        self.writes += 1
        if fault is not None and not fault[1]:
            raise fault[0]
        if self.values[metadata.ledger_id][1] != expect:
            raise BadVersionError(f"ledger {metadata.ledger_id}")
        version = self.set(metadata)
        if fault is not None:
            raise fault[0]
        return version

    async def delete(self, ledger_id: int, expect: Version | None = None) -> None:
        del self.values[ledger_id]

    def set(self, metadata: LedgerMetadata) -> Version:
        version = Version(str(len(self.history)))
        self.history.append(metadata)
        self.values[metadata.ledger_id] = metadata, version
        for callback in self.watches.get(metadata.ledger_id, []):
            asyncio.get_running_loop().call_later(DELAY_S, callback)
        return version

    def now(self, ledger_id: int) -> LedgerMetadata:
        return self.values[ledger_id][0]

    def watch(self, ledger_id: int, callback: Callable[[], None]) -> FakeWatch:
        self.watches.setdefault(ledger_id, []).append(callback)
        return FakeWatch()


class MetadataAwayError(MetadataError, BookieUnavailableError):
    """An error of a call that was certainly not carried out, like MetadataUnavailableError."""

    code = "test-metadata-away"


class FakeDirectory:
    def __init__(self, world: "World") -> None:
        self.world = world

    async def snapshot(self) -> list[BookieInfo]:
        await asyncio.sleep(DELAY_S)
        if self.world.ledgers.is_away:
            raise MetadataAwayError("the store is away")
        return [
            BookieInfo(b.bookie, b.region, "rack", 1)
            for b in self.world.bookies
            if not b.is_down and b not in self.world.not_writable
        ]

    async def registration(self, bookie: BookieId) -> Registration:
        return Registration(bookie, "host", self.world.by_id[bookie].port)

    async def locate(self, bookies: Sequence[BookieId]) -> None:
        """Everything is known already."""

    async def region_of(self, bookie: BookieId) -> Region | None:
        return self.world.by_id[bookie].region

    def known_region(self, bookie: BookieId) -> Region | None:
        return self.world.by_id[bookie].region

    def last_known(self, bookie: BookieId, region: Region | None) -> BookieInfo:
        return BookieInfo(bookie, region, "rack", 1)


class FixedClock:
    def wall_ms(self) -> int:
        return 1_000_000


class World:
    """Fake bookies and stores. ``layout`` holds the region of each bookie; their ids are b0@...,
    b1@... in this order."""

    def __init__(self, layout: str = "abc", config: LedgerConfig | None = None) -> None:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, VirtualLoop), "mark the test with run_by(runner=run_in_world)"
        self.loop = loop
        self.bookies = [
            FakeBookie(BookieId(f"b{i}@{i:08x}"), 9000 + i, Region(region))
            for i, region in enumerate(layout)
        ]
        self.by_id = {bookie.bookie: bookie for bookie in self.bookies}
        self.not_writable: list[FakeBookie] = []
        self.loop.bookies = {bookie.port: bookie for bookie in self.bookies}
        self.ledgers = FakeLedgers()
        self.directory = FakeDirectory(self)
        self.evidence: list[Evidence] = []
        self.holes: list[Any] = []
        self.slow_departures: list[SlowDeparture] = []
        self.runtime = Runtime(FixedClock(), Random(1))
        self.config = config or LedgerConfig()

    def client(
        self,
        region: str | None = "a",
        config: LedgerConfig | None = None,
        reads: ReadPolicy | None = None,
    ) -> LedgerClient:
        return LedgerClient(
            self.runtime,
            self.ledgers,  # type: ignore[arg-type]
            self.directory,  # type: ignore[arg-type]
            RegionAwarePlacement(),
            config or self.config,
            Region(region) if region else None,
            reads=reads,
            on_evidence=self.evidence.append,
            on_missing_range=self.holes.append,
            on_slow_departure=self.slow_departures.append,
        )

    def closed(self, ledger_id: int) -> LedgerMetadata:
        metadata = self.ledgers.now(ledger_id)
        assert metadata.state is LedgerState.CLOSED
        return metadata


def run_in_world(test: Coroutine[Any, Any, None]) -> None:
    """Run a test in virtual time and check that no exception was left unhandled."""
    loop = VirtualLoop()
    try:
        loop.run_until_complete(test)
        assert loop.failures == []
    finally:
        loop.close()


class Outcomes:
    """The outcomes that a writer's callbacks received, in order."""

    def __init__(self) -> None:
        self.all: list[tuple[int, Exception | None, tuple[str, ...]]] = []

    def __call__(self, entry_id: int, error: Exception | None, regions: tuple[str, ...]) -> None:
        self.all.append((entry_id, error, regions))

    @property
    def acked(self) -> list[int]:
        return [entry_id for entry_id, error, _ in self.all if error is None]

    @property
    def failed(self) -> list[int]:
        return [entry_id for entry_id, error, _ in self.all if error is not None]


async def until(condition: Callable[[], bool], limit_s: float = 60.0) -> None:
    """Waits until ``condition`` holds, in virtual time."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + limit_s
    while not condition():
        assert loop.time() < deadline, f"the condition does not hold after {limit_s} s"
        await asyncio.sleep(DELAY_S / 2)
