"""The client's view of the proxies, and its append call to each of them, without gRPC.

All record sets of a process for one proxy go through one call (rules PRX-14, PRX-17). Sets that are
ready at the same time go into one message, because a call carries only some thousand messages per
second, whatever their size.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable

from google.protobuf.message import Message

from ...core.protocol.errors import (
    AppendOutcomeUnknownError,
    ClosedError,
    NotOwnerError,
    ProtocolError,
    RefusedError,
    RhumblineError,
    UnavailableError,
    WrongPortError,
)
from ...core.runtime.tasks import Tasks
from ..rpc import methods
from ..rpc import rhumbline_pb2 as pb
from ..rpc.message_coalescing import COALESCING_MS, COALESCING_MS_MAX, MessageCoalescer
from ..rpc.messages import add_item, decode_results
from ..rpc.rpc_transport import RpcCall, RpcTransport
from ..write.append_item import Appended
from .append_silence import PING_S, TICK_S, AppendSilence
from .discovery.list_refresher import ListRefresher
from .discovery.proxy_directory import ProxyDirectory
from .producer_sender import OutgoingSet
from .silent_reads import SilentReads

_MESSAGE_BYTES = 1 << 20
_OTHERS_MAX = 3
_ANSWER_SECONDS_MAX = 1.25
_OWNERS_MAX = 100_000

OnResult = Callable[[Appended | RhumblineError], None]
FindHealth = Callable[[str], Awaitable[pb.ProxyHealth]]
"""Returns what another proxy knows about the one at an address."""
Report = Callable[[str, RhumblineError | None], None]


def _ignore(_: str, __: RhumblineError | None) -> None:
    """Do nothing with the outcome of a call."""


class AppendCall:
    """An append call. The first error ends it; the next set begins another call."""

    def __init__(
        self,
        call: RpcCall,
        tasks: Tasks,
        address: str,
        find_health: FindHealth,
        *,
        region: str = "",
        report: Report = _ignore,
    ) -> None:
        """``region`` is that of the client.

        ``report`` is called with the outcome of the call, and with None when it works.
        """
        self._region = region
        self.is_over = False
        self._find_health = find_health
        self._report = report
        self._call = call
        self._address = address
        self._outbox: list[tuple[int, tuple[str, str], OutgoingSet, bool, tuple[str, ...]]] = []
        self._ready: list[Callable[[], None]] = []
        self._delay_ms_max = COALESCING_MS_MAX  # of the next message
        self._wake = asyncio.Event()
        self._waiting: dict[int, tuple[OnResult, int]] = {}  # with the number of records
        self._record_count = 0  # in the sets that wait
        self._next_id = 1
        self._sent_id = 0  # all ids up to this one may have arrived
        self._is_pinging = False
        self._has_worked = False
        self._silence = AppendSilence()
        self._silence_error: RhumblineError | None = None
        tasks.spawn(self._run(), f"append call to {address}")

    def send(
        self, key: tuple[str, str], outgoing: OutgoingSet, on_result: OnResult, restarts: bool,
        tried: tuple[str, ...],
    ) -> None:  # fmt: skip
        """Send a set with the next message."""
        assert not self.is_over
        if not self._waiting:
            self._silence.heard_at_s = asyncio.get_running_loop().time()
        id_, self._next_id = self._next_id, self._next_id + 1
        count = outgoing.batch.count
        self._waiting[id_] = on_result, count
        self._record_count += count
        self._outbox.append((id_, key, outgoing, restarts, tried))
        self._delay_ms_max = COALESCING_MS
        self._wake.set()

    def before_sending(self, callback: Callable[[], None], delay_ms_max: int) -> None:
        """Call back when the next message is about to be sent, which is soon."""
        self._ready.append(callback)
        self._delay_ms_max = min(self._delay_ms_max, delay_ms_max)
        self._wake.set()

    async def _run(self) -> None:
        reading = Tasks(on_failure=lambda _: self._wake.set())
        reader = reading.spawn(self._read(), f"results of {self._address}")
        reading.spawn(self._watch_silence(), f"silence of {self._address}")
        reason: RhumblineError = ClosedError("the client is closed")
        coalescer = MessageCoalescer()
        try:
            while not reader.done():
                await self._wake.wait()
                while not await coalescer.wait(
                    len(self._waiting), self._record_count, self._delay_ms_max
                ):
                    pass  # a producer that cannot wait so long may have come meanwhile
                self._wake.clear()
                self._call_ready()
                self._delay_ms_max = COALESCING_MS_MAX
                while (self._outbox or self._is_pinging) and not (
                    reader.done() or self._silence_error
                ):
                    self._is_pinging = False
                    await self._call.write(self._message())
            reason = self._silence_error or reader.result()
        finally:
            self._end(reason)
            self._call.cancel()
            await reading.aclose()

    def _call_ready(self) -> None:
        ready, self._ready = self._ready, []
        for callback in ready:
            callback()

    def _message(self) -> pb.AppendRequest:
        request = pb.AppendRequest(client_region=self._region)
        self._region = ""  # the first message says it for the whole call
        size = taken = 0
        for id_, key, outgoing, restarts, tried in self._outbox:
            add_item(request, id_, key, outgoing, restarts=restarts, tried=tried)
            taken += 1
            size += len(outgoing.encoded)
            self._sent_id = id_
            if size >= _MESSAGE_BYTES:
                break
        del self._outbox[:taken]
        return request

    async def _watch_silence(self) -> None:
        """Ping a silent proxy while results are due, ask others about it, and end the call."""
        loop, silence = asyncio.get_running_loop(), self._silence
        checking = Tasks()
        try:
            while True:
                interval_s = TICK_S if self._waiting else PING_S
                due_s = loop.time() + interval_s
                await asyncio.sleep(interval_s)
                now_s = loop.time()
                silence.on_tick(now_s, now_s - due_s)
                if not self._waiting:
                    continue
                if silence.is_over(now_s):
                    silent_s = now_s - silence.heard_at_s
                    self._end_silent_call(f"no message for {silent_s:.1f} s")
                    return
                if silence.needs_ping(now_s):
                    self._is_pinging = True
                    self._wake.set()
                if silence.take_question(now_s):
                    checking.spawn(self._check_health(), f"check of {self._address}")
        finally:
            await checking.aclose()

    async def _check_health(self) -> None:
        """Ask another proxy about this one; end the call if it is lost."""
        silence = self._silence
        heard_at_s = silence.heard_at_s
        health = await self._find_health(self._address)
        if silence.heard_at_s != heard_at_s:
            return
        if health == pb.PROXY_HEALTH_LOST:
            self._end_silent_call("other proxies have declared it lost")
        else:
            is_alive = health == pb.PROXY_HEALTH_ALIVE
            silence.on_answer(asyncio.get_running_loop().time(), is_alive=is_alive)

    def _end_silent_call(self, reason: str) -> None:
        self._silence_error = UnavailableError(reason)
        self._call.cancel()

    async def _read(self) -> RhumblineError:
        """Deliver results until the call is over; return the error that ended it."""
        try:
            while (response := await self._call.read()) is not None:
                assert isinstance(response, pb.AppendResponse)
                if not self._has_worked:
                    self._has_worked = True
                    self._report(self._address, None)
                self._silence.heard_at_s = asyncio.get_running_loop().time()
                for id_, answer in decode_results(response):
                    on_result, count = self._waiting.pop(id_)
                    self._record_count -= count
                    on_result(answer)
            return UnavailableError(f"{self._address} ended the call")
        except RhumblineError as failure:
            return failure
        except KeyError as failure:
            return ProtocolError(f"{self._address} sent a result for unknown id {failure}")
        finally:
            self._wake.set()

    def _end(self, reason: RhumblineError) -> None:
        """Give every set without a result an error (rule PRX-14).

        A call that the proxy refused as a whole has appended nothing: the error names another proxy
        or says what is wrong with the call. Closing the client says nothing about sets that were
        sent.
        """
        self.is_over = True
        self._report(self._address, reason)
        waiting, self._waiting = self._waiting, {}
        is_refused = isinstance(reason, RefusedError) and not isinstance(reason, ClosedError)
        is_definite = is_refused or isinstance(reason, NotOwnerError)
        for id_, (on_result, _) in waiting.items():
            if id_ > self._sent_id or is_definite:
                on_result(reason)
            else:
                unknown = AppendOutcomeUnknownError(f"{self._address}: {reason}")
                unknown.__cause__ = reason
                on_result(unknown)
        self._call_ready()


class Channels:
    """The connections of one client process to proxies; the ``Transport`` of its senders."""

    def __init__(
        self,
        directory: ProxyDirectory,
        calls: RpcTransport,
        refresher: ListRefresher | None = None,
    ) -> None:
        """Without ``refresher`` the proxies are the seeds and those that other proxies name."""
        self.directory = directory
        self.tasks = Tasks()
        self._calls = calls
        self._refresher = refresher
        self._appending: dict[str, AppendCall] = {}
        self._owners: dict[tuple[str, str], str] = {}
        self._check_count = 0
        self._is_closed = False
        self.silent_reads = SilentReads(self.find_if_lost, self.tasks)
        """The read calls of the client, which end when their proxy is lost."""
        if refresher is not None:
            self.tasks.spawn(refresher.run(), "list of proxies")

    async def ready(self) -> None:
        """Wait for the first list of proxies, for a bounded time."""
        if self._refresher is not None:
            await self._refresher.first()

    def begin(self, address: str, method: methods.Method) -> RpcCall:
        """Begin a streaming call. Raises ClosedError."""
        self._register_address(address)
        return self._calls.begin(self.directory.address_for(address, method), method)

    async def call_unary(
        self, address: str, method: methods.Method, request: Message, timeout_s: float
    ) -> Message:
        """Send one request, return its response. Raises as ``RpcTransport`` does, and ClosedError.

        If the proxy names another of its addresses for the call, that one is called.
        """
        self._register_address(address)
        loop = asyncio.get_running_loop()
        give_up_at = loop.time() + timeout_s
        try:
            return await self._call_once(address, method, request, timeout_s)
        except WrongPortError as error:
            left_s = give_up_at - loop.time()
            if left_s <= 0 or not self.directory.set_served_at(address, method, error.address):
                raise
        return await self._call_once(address, method, request, left_s)

    async def _call_once(
        self, address: str, method: methods.Method, request: Message, timeout_s: float
    ) -> Message:
        directory = self.directory
        connect_to = directory.address_for(address, method)
        try:
            response = await self._calls.call_unary(connect_to, method, request, timeout_s)
        except RhumblineError as error:
            if connect_to == directory.connect_address(address):
                directory.report(address, error)
            elif isinstance(error, UnavailableError):  # clients may not reach that of operators
                directory.on_doubt()
            raise
        if connect_to == directory.connect_address(address):
            directory.report(address, None)
        return response

    def _register_address(self, address: str) -> None:
        if self._is_closed:
            raise ClosedError("the client is closed")
        self.directory.learn(address)

    def any_proxies(self) -> tuple[str, ...]:
        """Return the proxies for a call that each of them serves. Raises UnavailableError."""
        return _at_least_one(self.directory.any_proxies())

    def readers_of(self, namespace: str, stream: str) -> tuple[str, ...]:
        """Return all proxies, the likeliest to serve a reader first. Raises UnavailableError."""
        return _at_least_one(self.directory.readers_of(namespace, stream))

    def candidates(self, key: tuple[str, str]) -> tuple[str, ...]:
        """Return all proxies, the likeliest owner of the stream first. Raises UnavailableError."""
        return _at_least_one(self.directory.writers_of(*key))

    def owner(self, key: tuple[str, str]) -> str | None:
        """Return the address that last served the stream."""
        return self._owners.get(key)

    def set_owner(self, key: tuple[str, str], address: str | None) -> None:
        """Note the address that serves the stream; None: unknown."""
        self._owners.pop(key, None)
        if address is not None:
            self._owners[key] = address
            if len(self._owners) > _OWNERS_MAX:
                del self._owners[next(iter(self._owners))]

    def send(
        self,
        address: str,
        key: tuple[str, str],
        outgoing: OutgoingSet,
        on_result: OnResult,
        *,
        restarts: bool,
        tried: tuple[str, ...],
    ) -> None:
        """Send a set to a proxy. ``on_result`` is called once, later."""
        call = self._call_to(address)
        if call is None:
            if self._is_closed:
                error = ClosedError("the client is closed")
                asyncio.get_running_loop().call_soon(on_result, error)
                return
            begun = self.begin(address, methods.APPEND)
            call = AppendCall(
                begun,
                self.tasks,
                address,
                self.find_health,
                region=self.directory.region,
                report=self.directory.report,
            )
            self._appending[address] = call
        call.send(key, outgoing, on_result, restarts, self.names_of(tried))

    def names_of(self, tried: Iterable[str]) -> tuple[str, ...]:
        """Return the names by which other proxies know those at these addresses."""
        return tuple(dict.fromkeys(map(self.directory.name_of, tried)))

    async def find_if_lost(self, address: str) -> bool:
        """Ask another proxy whether a silent one is lost."""
        return await self.find_health(address) == pb.PROXY_HEALTH_LOST

    async def find_health(self, address: str) -> pb.ProxyHealth:
        """Ask another proxy, each time the next of the nearest, about a silent one."""
        name = self.directory.name_of(address)
        others = [known for known in self.directory.any_proxies() if known != name][:_OTHERS_MAX]
        if not others:
            return pb.PROXY_HEALTH_UNKNOWN
        self._check_count += 1
        other = others[self._check_count % len(others)]
        request = pb.ProbeProxyRequest(address=name)
        try:
            found = await self.call_unary(other, methods.PROBE_PROXY, request, _ANSWER_SECONDS_MAX)
        except RhumblineError:
            return pb.PROXY_HEALTH_UNKNOWN  # it may be silent too, or of a version without probes
        assert isinstance(found, pb.ProbeProxyResponse)
        return found.health

    def before_sending(self, address: str, callback: Callable[[], None], delay_ms_max: int) -> None:
        """Call back when the next message to a proxy is about to be sent, which is soon.

        ``delay_ms_max`` limits the time for which many producers share that message.
        """
        call = self._call_to(address)
        if call is None:
            asyncio.get_running_loop().call_soon(callback)
        else:
            call.before_sending(callback, delay_ms_max)

    def _call_to(self, address: str) -> AppendCall | None:
        call = self._appending.get(address)
        return None if call is None or call.is_over else call

    def statistics(self) -> dict[str, int]:
        """Return counters and sizes for metrics."""
        refreshes = {} if self._refresher is None else self._refresher.statistics()
        return {**self.directory.statistics(), **refreshes}

    async def aclose(self) -> None:
        """End all calls and close the connections. Safe to repeat."""
        self._is_closed = True
        await self.tasks.aclose()
        await self._calls.aclose()


def _at_least_one(addresses: tuple[str, ...]) -> tuple[str, ...]:
    if not addresses:
        raise UnavailableError("no proxy is known: none of the given names could be resolved")
    return addresses
