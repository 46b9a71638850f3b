"""Proxies and thin clients in the simulated world: their production code except for gRPC."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from random import Random
from typing import cast

from ....access.access_control import AccessControl
from ....core.log.write.stream_writer import StreamWriter
from ....core.protocol.dlsn import Dlsn
from ....core.protocol.errors import RhumblineError, TooManyRequestsError
from ....core.protocol.record_set import decode_entry
from ....core.protocol.start import EARLIEST, LATEST, Start
from ....core.runtime.tasks import Tasks
from ....proxies.client.proxy_client import ProxyClient
from ....proxies.config import ProxyConfig
from ....proxies.membership import READ, WRITE
from ....proxies.permissions.guarded_calls import GuardedCalls
from ....proxies.proxy_uri import SCHEME
from ....proxies.read.block_cache import BLOCK_OVERHEAD_BYTES
from ....proxies.read.entry_block import EntryBlock
from ....proxies.read.read_proxy import ReadProxy
from ....proxies.routing import stream_key
from ....proxies.rpc import rhumbline_pb2 as pb
from ....proxies.rpc.proxy_service import ProxyService
from ...checker.history import AppendOutcome, History, RecordedRead
from ..cluster import NAMESPACE, STREAM, SimClient, SimCluster, until
from ..seed_run import RESUME_S_MAX, LivenessError, RunPlan, SeedRun
from ..workload.workload import (
    NO_WRITER,
    Applications,
    WriterHabits,
    describe_error,
    process_of,
)
from ..world.sim_world import SimHost, SimWorld
from .proxy_calls import NO_WATCH, CallWatch, SimCalls, serve_calls
from .proxy_controls import PROXY_PORT

PRODUCERS = 3
ALL_HOSTS = "all hosts"
_GRACE_S = 0.5


@dataclass(slots=True)
class ThinReader:
    """A reader whose position and records survive all faults, as if stored together on a safe disk.

    Everything that its processes read in turn is therefore one read in the history.
    """

    host: SimHost
    name: str
    start: Start
    pause_s: float
    """Maximum pause after each batch."""
    read: RecordedRead | None = None
    position: Dlsn | None = None
    sittings: int = 0
    """Number of times it was opened."""

    def has_read(self, position: Dlsn) -> bool:
        """Return whether it has read up to a position, or began behind it."""
        if self.read is None:
            return False
        began_behind = self.read.start is not None and self.read.start > position
        return began_behind or (bool(self.read.records) and self.read.records[-1].dlsn >= position)


class ThinApplications(Applications):
    """Applications that use proxies: in each region a process of producers and perhaps readers.

    Producers write while the active writer is ``ALL_HOSTS``. One application may also tail the
    stream without a proxy.
    """

    timeout_ms = 60_000
    """Time for which a producer sends a record set again, longer than any fault."""

    def __init__(self, cluster: SimCluster, history: History, habits: WriterHabits) -> None:
        super().__init__(cluster, history, habits)
        self.addresses: tuple[str, ...] = ()
        self.readers: tuple[ThinReader, ...] = ()
        self.calls: dict[str, SimCalls] = {}
        """The calls of the current or last process of each host."""

    async def run(self, host: SimHost) -> None:
        """Produce, and read if the host has readers."""
        async with self._client(host) as client:
            await self._work(host, client)

    async def run_and_tail(self, host: SimHost) -> None:
        """Produce and read, and tail the stream without a proxy."""
        async with self.cluster.client(host) as core, self._client(host) as client:
            tasks = Tasks()
            tasks.spawn(self._tail(host, core), "tail")
            await self._work(host, client)

    @asynccontextmanager
    async def _client(self, host: SimHost) -> AsyncIterator[ProxyClient]:
        near = sorted(self.addresses, key=lambda one: f"-{host.region}-" not in one)
        calls = self.calls[host.name] = SimCalls()
        async with ProxyClient(
            SCHEME + ",".join(near),
            host.runtime(),
            calls,
            namespace=NAMESPACE,
            timeout_ms=self.timeout_ms,
            reader=self.cluster.settings.reader,
        ) as client:
            yield client

    async def _work(self, host: SimHost, client: ProxyClient) -> None:
        tasks = Tasks()
        for number in range(PRODUCERS):
            tasks.spawn(self._produce(host, client, number), f"producer {number}")
        for reader in self.readers:
            if reader.host is host:
                tasks.spawn(self._read_on(reader, client), reader.name)
        await asyncio.Event().wait()

    # --- writing --------------------------------------------------------------------------------

    async def _produce(self, host: SimHost, client: ProxyClient, number: int) -> None:
        random = self.cluster.world.random_of(f"producer {host.name} {host.starts} {number}")
        while True:
            if self.active_writer != ALL_HOSTS or self.called >= self.appends_max:
                await asyncio.sleep(0.1)
                continue
            try:
                writer = await client.namespace().open_writer(STREAM)
            except RhumblineError as error:
                self._note(host, f"cannot open a writer: {describe_error(error)}")
                await asyncio.sleep(0.2)
                continue
            session = self.history.new_session()
            self._writers[session] = process_of(host)
            tasks = Tasks()
            number = 0
            try:
                while self.active_writer == ALL_HOSTS and self.called < self.appends_max:
                    number += self._burst(
                        cast(StreamWriter, writer), session, number, random, tasks
                    )
                    await asyncio.sleep(random.random() * self.habits.pause_ms / 1000)
            except TooManyRequestsError:
                await asyncio.sleep(0.2)
            except RhumblineError as error:
                self._note(host, f"session {session} failed: {describe_error(error)}")
            try:
                await writer.close()
            except RhumblineError as error:
                self._note(host, f"session {session} failed: {describe_error(error)}")

    # --- reading --------------------------------------------------------------------------------

    async def _read_on(self, me: ThinReader, client: ProxyClient) -> None:
        """Read from the last position for ever, reopening the reader after retryable errors."""
        random = self.cluster.world.random_of(f"{me.name} {me.sittings}")
        while True:
            me.sittings += 1
            try:
                start = me.start if me.position is None else me.position
                async with await client.namespace().open_reader(STREAM, start) as reader:
                    if me.read is None:
                        me.position = reader.position
                        from_ = None if me.start is EARLIEST else me.position
                        me.read = self.history.begin_read(me.name, from_)
                    while await self._take_batch(reader, me.read):
                        me.position = reader.position
                        if not self.cluster.world.is_healed:  # no pauses in the final phase
                            await asyncio.sleep(random.random() * me.pause_s)
            except RhumblineError as error:
                if not error.retryable:
                    raise
                self._note(me.host, f"{me.name} waits at {me.position}: {describe_error(error)}")
                await asyncio.sleep(1.0)


class ProxyRun(SeedRun):
    """A run whose producers write through proxies.

    Each region has two write proxies and perhaps read proxies.
    """

    config = ProxyConfig(session_ttl_ms=1_000, balance_ms=0)
    thin_applications = ThinApplications

    def __init__(
        self,
        world: SimWorld,
        plan: RunPlan,
        *,
        read_proxies: int = 0,
        thin_readers: int = 0,
        config: ProxyConfig | None = None,
    ) -> None:
        """``read_proxies`` and ``thin_readers`` are numbers per region."""
        super().__init__(world, plan)
        self.config = config or self.config
        self.quiet_s = 0.0
        """Time before the producers start, in seconds."""
        self.watch: CallWatch = NO_WATCH
        self.services: dict[str, ProxyService] = {}
        """The service of each proxy host, for inspection only."""
        self.proxy_hosts = [
            world.host(f"proxy-{region}-{n}", region)
            for region in plan.topology.regions
            for n in range(2)
        ]
        self.read_hosts = [
            world.host(f"reads-{region}-{n}", region)
            for region in plan.topology.regions
            for n in range(read_proxies)
        ]
        apps = self.thin = self.thin_applications(self.cluster, self.history, plan.habits)
        self.apps = apps
        hosts = [*self.read_hosts, *self.proxy_hosts]
        apps.addresses = tuple(f"{host.name}:{PROXY_PORT}" for host in hosts)
        random = world.random_of("thin readers")
        apps.readers = tuple(
            _thin_reader(host, number, random)
            for host in self.cluster.app_hosts
            for number in range(thin_readers)
        )

    async def play_script(self, script: Callable[["ProxyRun"], Awaitable[None]]) -> None:
        """Start the cluster, play the script, and verify the end state."""
        await self.cluster.bootstrap()
        for host in self.proxy_hosts:
            host.start(self._write_proxy)
        for host in self.read_hosts:
            host.start(self._read_proxy)
        for host in self.cluster.app_hosts:
            self.apps.start(host, reads=host.name in self.plan.readers)
        self.apps.appends_max = self.plan.appends_max
        await asyncio.sleep(self.quiet_s)
        self.apps.active_writer = ALL_HOSTS
        await script(self)
        self.heal()
        self.apps.active_writer = NO_WRITER
        await self._verify_end_state()
        await self._thin_readers_end()

    def heal(self) -> None:
        """End all faults for good. Safe to repeat."""
        if not self.world.is_healed:
            self.world.heal_everything()
            self.world.is_healed = True

    async def acks(self, count: int, within_s: float) -> None:
        """Wait until ``count`` more appends are acknowledged."""
        goal = self.apps.acked + count
        async with asyncio.timeout(within_s):
            await until(lambda: self.apps.acked >= goal)

    async def _thin_readers_end(self) -> None:
        """Wait until each thin reader has read everything, and mark its read as complete."""
        acked = self.history.appends_with_outcome(AppendOutcome.OK)
        last = max(append.dlsn for append in acked if append.dlsn is not None)

        def late() -> list[ThinReader]:
            return [one for one in self.thin.readers if not one.has_read(last)]

        try:
            async with asyncio.timeout(RESUME_S_MAX):
                await until(lambda: not late())
        except TimeoutError as error:
            message = f"{late()[0].name} is at {late()[0].position} after the faults, not at {last}"
            raise LivenessError("V5", message) from error
        for reader in self.thin.readers:
            assert reader.read is not None
            reader.read.is_complete = True
        if any(reader.start is EARLIEST for reader in self.thin.readers):
            self.check_cached_entries()

    # --- proxies --------------------------------------------------------------------------------

    async def _write_proxy(self, host: SimHost) -> None:
        async with self.cluster.client(host) as client:
            await self._serve(host, client, WRITE)

    async def _read_proxy(self, host: SimHost) -> None:
        async with self.cluster.client(host) as client:
            await self._serve(host, client, READ)

    async def access_control(self, client: SimClient) -> AccessControl | None:
        """Return what decides about callers of a proxy that begins; None: everyone may do all."""
        return None

    async def _serve(self, host: SimHost, client: SimClient, role: str) -> None:
        self.services.pop(host.name, None)
        service = ProxyService(
            host.runtime(),
            client.store,
            lambda _: client.namespace,
            self.config,
            roles=(role,),
            address=f"{host.name}:{PROXY_PORT}",
            region=host.region,
            calls=SimCalls(),
        )
        calls = GuardedCalls(service, await self.access_control(client))
        await serve_calls(calls, host.name, PROXY_PORT, self.watch)
        try:
            await service.join()
            self.services[host.name] = service
            await asyncio.Event().wait()
        except RhumblineError:
            await service.hand_over()
            raise

    def stop(self, host: SimHost, lasts_ms: int) -> None:
        """Stop a proxy gracefully (SIGTERM); it is restarted ``lasts_ms`` after its end."""
        service = self.services.get(host.name)
        if service is None or not host.is_running:
            return
        self.world.trace.note(host.name, "is asked to stop")
        process = host.process

        async def work() -> None:
            await service.hand_over()
            await asyncio.sleep(_GRACE_S)
            await service.leave()
            if host.process is process:
                host.kill("has stopped")
                self.world.later(lasts_ms / 1000, host.start_again)

        host.spawn(work(), "stop")

    def add_proxy(self, old: SimHost) -> SimHost:
        """Start a proxy of the role and region of an old one, at an address of its own."""
        new = self.world.host(f"new-{old.name}", old.region)
        hosts, work = (
            (self.read_hosts, self._read_proxy)
            if old in self.read_hosts
            else (self.proxy_hosts, self._write_proxy)
        )
        hosts.append(new)
        new.start(work)
        return new

    def owners(self) -> list[SimHost]:
        """Return the running or paused proxies that believe that they own the stream."""
        return [host for host in self.proxy_hosts if host.is_running and self._has_stream(host)]

    def _has_stream(self, host: SimHost) -> bool:
        service = self.services.get(host.name)
        return (
            service is not None
            and service.writes is not None
            and service.writes.serves(NAMESPACE, STREAM)
        )

    def reading(self) -> list[SimHost]:
        """Return the running or paused read proxies that have readers."""
        return [
            host
            for host in self.read_hosts
            if host.is_running and (reads := self._reads(host)) is not None and reads.reader_count
        ]

    def holding(self) -> list[SimHost]:
        """Return the running or paused proxies that hold the sessions of group members."""
        return [
            host
            for host in (*self.proxy_hosts, *self.read_hosts)
            if host.is_running
            and (service := self.services.get(host.name)) is not None
            and service.statistics()["group_members"]
        ]

    def _reads(self, host: SimHost) -> ReadProxy | None:
        service = self.services.get(host.name)
        return None if service is None else service.reads

    def check_caches(self) -> None:
        """Assert that each read proxy's cache is within its limit and counts its size correctly."""
        for host in self.read_hosts:
            reads = self._reads(host)
            if reads is not None:
                cache = reads._cache
                kept = sum(
                    block.size + BLOCK_OVERHEAD_BYTES
                    for stream in cache._streams.values()
                    for block in stream._by_start.values()
                )
                assert kept == cache.bytes <= self.config.cache_bytes_max, (host, kept, cache.bytes)

    def check_cached_entries(self) -> None:
        """Assert that what the read proxies' caches hold of the stream is in it, at its position.

        The thin readers must have read everything.
        """
        complete = {
            (record.dlsn.lssn, record.dlsn.entry_id, record.dlsn.slot): record.payload
            for reader in self.thin.readers
            if reader.read is not None
            for record in reader.read.records
        }
        for host in self.read_hosts:
            reads = self._reads(host)
            cached = {} if reads is None else reads._cache._streams
            for (key, _), stream in cached.items():
                if key != stream_key(NAMESPACE, STREAM):
                    continue
                for block in stream._by_start.values():
                    for position, payload in _records(block):
                        assert complete.get(position) == payload, (host.name, position)

    def calls_by_second(self) -> Counter[tuple[str, int]]:
        """Return the number of calls that were begun, by (client host, second)."""
        return Counter(
            (name, int(at)) for name, calls in self.thin.calls.items() for at in calls.begun_at
        )


def _thin_reader(host: SimHost, number: int, random: Random) -> ThinReader:
    return ThinReader(
        host,
        f"thin {host.name}/{number}",
        EARLIEST if number == 0 or random.random() < 0.5 else LATEST,
        random.choice((0.0, 0.05, 0.5)),
    )


def _records(block: EntryBlock) -> Iterator[tuple[tuple[int, int, int], bytes]]:
    """Yield the position and the payload of each record of a block."""
    message = pb.ReadResponse.FromString(block.encoded())
    for number, entry in enumerate(message.entries):
        for record_set in decode_entry(entry):
            if not record_set.is_control:
                for slot, payload in enumerate(record_set.payloads(), record_set.slot):
                    yield (block.start[0], block.start[1] + number, slot), bytes(payload)
