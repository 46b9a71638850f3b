"""The plan ``recreation``: ``swarm`` over streams that are deleted and created again by name.

Every host creates, deletes, truncates, writes and reads streams of two names. Requests to the
metadata store arrive late, and a process that was cut off or paused continues after another one has
already created the next stream of the same name. Afterwards the streams of a name are told apart by
the ledgers that their records were sent to (invariant G18).

The strings "rebirths" and "administrator" seed generators, and the stream names are part of
metadata paths: all of them are part of a seed's identity.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Coroutine, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from itertools import count
from random import Random
from typing import Any

from ....core.protocol.dlsn import FIRST_DLSN, Dlsn
from ....core.protocol.errors import (
    EndOfStreamError,
    IndeterminateError,
    MetadataUnavailableError,
    NoSuchStreamError,
    RhumblineError,
    StreamExistsError,
)
from ....core.protocol.start import EARLIEST, Start
from ....core.runtime.tasks import Tasks
from ...checker.history import AdminCall, History, RecordedRead, ReportedEnd
from ...checker.judge import judge
from ...checker.run_record import EXAMPLES_MAX, RunRecord, StreamVersions, Violation
from ..cluster import Fault, SimClient, SimCluster
from ..seed_run import RunPlan, SeedRun
from ..workload.stream_actions import StreamActions, append_one, read_to_the_end, take
from ..workload.stream_incarnations import HistorySplitter, incarnations_of, ledgers_of
from ..workload.workload import Applications
from ..world.metadata import LATE_S_MAX
from ..world.sim_world import SimHost, SimWorld
from .swarm import LASTS_MS, swarm

NAMES = ("phoenix", "lazarus")
SUBSCRIPTION = "mine"
_CALL_S_MAX = 30.0
_SHORT_READ_S = 1.0
_STORED_MAX = 8


def recreation(seed: int) -> RunPlan:
    """Return a plan in which several hosts delete and recreate streams of the same names."""
    random = Random(f"{seed} rebirths")
    plan = swarm(seed)
    late = [
        Fault(
            "metadata-late-requests",
            "metadata",
            random.randrange(LASTS_MS),
            random.randint(500, 6_000),
            random.choice((0.05, 0.2, 0.5)),
        )
        for _ in range(random.choice((1, 3, 6)))
    ]
    policy = replace(
        plan.settings.policy,
        roll_bytes=random.choice((200, 2_000, 50_000)),
        purge_grace_ms=random.choice((0, 500)),
    )
    return replace(
        plan,
        seed=f"{seed} rebirths",
        settings=replace(plan.settings, policy=policy),
        habits=replace(plan.habits, pause_ms=400),
        faults=tuple(sorted([*plan.faults, *late], key=lambda fault: fault.at_ms)),
        appends_max=100,
        run=RecreationRun,
    )


class Administrators(StreamActions):
    """The administrative actions that every host performs on the named streams."""

    kinds: Mapping[str, int] = {
        "create": 4,
        "delete": 3,
        "write": 6,
        "read": 4,
        "resume": 2,
        "truncate": 2,
        "maintain": 2,
        "subscribe": 1,
    }
    """Names of actions, and their relative frequency."""

    def __init__(
        self, cluster: SimCluster, now_ms: Callable[[], float], numbers: Iterator[int]
    ) -> None:
        super().__init__(cluster, _CALL_S_MAX)
        self.histories = {name: History(now_ms, numbers) for name in NAMES}
        """For each name, the history of all streams that had it."""
        self.reported_ends: list[ReportedEnd] = []
        self._now_ms = now_ms
        self._stored: dict[str, deque[str]] = {name: deque(maxlen=_STORED_MAX) for name in NAMES}
        """For each name, positions that applications stored, of whichever stream had the name."""

    async def run(self, host: SimHost, client: SimClient) -> None:
        """Perform one random action after the other until the faults are over."""
        world = self._cluster.world
        random = world.random_of(f"administrator {host.name} {host.starts}")
        kinds = [kind for kind, share in self.kinds.items() for _ in range(share)]
        self._busy[host.name] = False
        while not world.is_healed:
            await asyncio.sleep(0.3 * random.random())
            kind, name = random.choice(kinds), random.choice(NAMES)
            action = getattr(self, f"_{kind}")(client, name, random)
            await self._do(host, kind, f"{kind} {name}", action)

    # --- by name --------------------------------------------------------------------------------

    async def _create(self, client: SimClient, name: str, random: Random) -> None:
        call = AdminCall("create", self._now_ms())
        await self._record_call(name, call, client.namespace.create_stream(name))

    async def _delete(self, client: SimClient, name: str, random: Random) -> None:
        """Delete the stream that this client sees, or whichever has the name; sometimes retry."""
        call = AdminCall("delete", self._now_ms())
        if random.random() < 0.7:
            call.identity = (await client.namespace.describe(name)).identity
        for _ in range(random.randint(1, 2)):
            work = client.namespace.delete_stream(name, identity=call.identity)
            try:
                await self._record_call(name, replace(call), work)
            except (MetadataUnavailableError, IndeterminateError):
                continue
            return

    async def _truncate(self, client: SimClient, name: str, random: Random) -> None:
        position = Dlsn(random.choice((1, 2, 2, 3)), random.randrange(3), 0)
        call = AdminCall("truncate", self._now_ms(), position=position)
        await self._record_call(name, call, client.namespace.truncate(name, position))

    async def _record_call(
        self, name: str, call: AdminCall, work: Coroutine[Any, Any, object]
    ) -> None:
        self.histories[name].admin_calls.append(call)
        call.called_ms = self._now_ms()
        try:
            await work
        except (NoSuchStreamError, StreamExistsError):
            call.is_unknown = False
            raise
        else:
            call.is_unknown = False
        finally:
            call.ended_ms = self._now_ms()

    async def _maintain(self, client: SimClient, name: str, random: Random) -> None:
        done = await client.namespace.maintain(name)
        self.counts["purged"] = self.counts.get("purged", 0) + len(done.purged)

    async def _subscribe(self, client: SimClient, name: str, random: Random) -> None:
        await client.namespace.subscriptions.create(name, SUBSCRIPTION, FIRST_DLSN)

    async def _write(self, client: SimClient, name: str, random: Random) -> None:
        writer = await client.namespace.open_writer(name)
        history = self.histories[name]
        session = history.new_session()
        try:
            for number in range(random.randint(1, 12)):
                append = history.begin_append(session, number, b"." * random.randrange(100))
                await append_one(self._cluster, writer, history, append)
                if random.random() < 0.2:
                    self._stored[name].append(str(append.dlsn))
            if random.random() < 0.7:
                await writer.close()
        finally:
            await writer.abort()

    async def _read(self, client: SimClient, name: str, random: Random) -> None:
        """Read from the start, sometimes for long enough to see the stream deleted."""
        history = self.histories[name]
        read = history.begin_read(f"reader {len(history.reads)} of {name}", None)
        await self._read_from(client, name, EARLIEST, read, random.choice((_SHORT_READ_S, 8.0)))

    async def _resume(self, client: SimClient, name: str, random: Random) -> None:
        """Read from a stored position, perhaps of a stream that was deleted since."""
        if not self._stored[name]:
            return
        history, start = self.histories[name], Dlsn.parse(random.choice(self._stored[name]))
        read = history.begin_read(f"reader {len(history.reads)} of {name}", start)
        read.stream_id = start.stream_id
        await self._read_from(client, name, start, read, _SHORT_READ_S)

    async def _read_from(
        self, client: SimClient, name: str, start: Start, read: RecordedRead, seconds: float
    ) -> None:
        reader = None
        try:
            reader = await client.namespace.open_reader(name, start)
            read.ready_ms = self._now_ms()
            async with asyncio.timeout(seconds):
                while await take(reader, self.histories[name], read):
                    pass
        except TimeoutError:
            return
        except RhumblineError as error:
            self.histories[name].fail_read(read, error)
            raise
        finally:
            if reader is not None:
                self._stored[name].append(str(reader.position))
                await reader.aclose()

    # --- the end --------------------------------------------------------------------------------

    async def finish_streams(self, client: SimClient) -> None:
        """Wait until no late request is left, then read each stream to its end.

        A missing stream is created before, a partly deleted one is deleted and created.
        """
        await self.idle()
        await asyncio.sleep(LATE_S_MAX)
        for name in NAMES:
            while True:
                try:
                    await self._finish_stream(client, name)
                except RhumblineError as error:
                    message = f"{name}: {type(error).__name__}: {error}"
                    self._cluster.world.trace.note("finishing", message)
                    await asyncio.sleep(0.5)
                else:
                    break

    async def _finish_stream(self, client: SimClient, name: str) -> None:
        with suppress(StreamExistsError):
            creation = client.namespace.create_stream(name)
            await self._record_call(name, AdminCall("create", self._now_ms()), creation)
        try:
            writer = await client.namespace.open_writer(name)
        except (NoSuchStreamError, EndOfStreamError):
            work = client.namespace.delete_stream(name)
            await self._record_call(name, AdminCall("delete", self._now_ms()), work)
            raise
        history = self.histories[name]
        append = history.begin_append(history.new_session(), 0, b"the end")
        await append_one(self._cluster, writer, history, append)
        await writer.close()
        end = await client.namespace.end(name)
        await read_to_the_end(client, name, history, end)


class RecreationApplications(Applications):
    """Applications that write the main stream and administer the named streams."""

    administrators: Administrators

    async def run(self, host: SimHost) -> None:
        """Write while this host is the active writer, and administer the named streams."""
        async with self.cluster.client(host) as client:
            tasks = Tasks()
            tasks.spawn(self.administrators.run(host, client), "administer")
            await self._write(host, client)

    async def run_and_tail(self, host: SimHost) -> None:
        """Do the same as ``run``; other plans cover tailing of the main stream."""
        await self.run(host)


class RecreationRun(SeedRun):
    """A run of ``recreation``: each incarnation of a named stream is checked separately."""

    administrators_type: type[Administrators] = Administrators

    def __init__(self, world: SimWorld, plan: RunPlan) -> None:
        super().__init__(world, plan)
        numbers = count(1)
        self.history = History(self.history.now_ms, numbers)
        apps = self.apps = RecreationApplications(self.cluster, self.history, plan.habits)
        self.administrators = self.administrators_type(self.cluster, self.history.now_ms, numbers)
        apps.administrators = self.administrators

    async def _finish_workload(self, successor: SimHost) -> None:
        await self._run_within_bound(
            "V7", successor, "finishing the recreated streams", self._finish_streams
        )

    async def _finish_streams(self, host: SimHost) -> None:
        async with self.cluster.client(host) as client:
            await self.administrators.finish_streams(client)

    def check(self) -> list[Violation]:
        """Return the violations of the main stream and of each incarnation of each name."""
        found = judge(self.record())
        for name in NAMES:
            incarnations = self._incarnations(name)
            whole = self.administrators.histories[name]
            splitter = HistorySplitter(whole, incarnations, self.answer_recorder.observed.tokens)
            found += [
                Violation("G18", f"{name}: {error}") for error in splitter.errors[:EXAMPLES_MAX]
            ]
            found += [
                Violation(
                    "G18", f"{name}: half a stream was created at {incarnation.created_ms:.1f} ms"
                )
                for incarnation in incarnations
                if not incarnation.identity
            ]
            for number, (incarnation, history) in enumerate(
                zip(incarnations, splitter.histories, strict=True), 1
            ):
                for violation in judge(self._record_of(incarnation, history)):
                    found.append(Violation(violation.id, f"{name} {number}: {violation.text}"))
        return found

    def record(self) -> RunRecord:
        """Return the record of the main stream, with the ledgers of all streams."""
        record = super().record()
        record.history.reported_ends = self.administrators.reported_ends
        for name in NAMES:
            for number, incarnation in enumerate(self._incarnations(name), 1):
                record.streams[f"{name} {number}"] = incarnation
        return record

    def _incarnations(self, name: str) -> list[StreamVersions]:
        return incarnations_of(name, self.world.metadata.tree.history)

    def _record_of(self, incarnation: StreamVersions, history: History) -> RunRecord:
        whole = super().record()
        own = ledgers_of(incarnation)
        return RunRecord(
            history=history,
            ledgers={key: versions for key, versions in whole.ledgers.items() if key in own},
            segments=incarnation.segments,
            stored=incarnation,
            regions=whole.regions,
            lost=whole.lost,
            lying_bookies=whole.lying_bookies,
            purge_grace_ms=whole.purge_grace_ms,
            stale_reads_ms=whole.stale_reads_ms,
        )

    def _states(self) -> dict[str, int]:
        seen = super()._states()
        counts = {
            **self.administrators.counts,
            "incarnations": sum(len(self._incarnations(n)) for n in NAMES),
        }
        for name, number in sorted(counts.items()):
            seen[name] = seen.get(name, 0) + number
        return seen
