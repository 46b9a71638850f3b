"""``swarm`` over streams that are deleted and made again under their names, by anybody at any time.

Every host is an administrator, and writes, reads and truncates besides. Requests come late, and
whoever was cut off or stopped goes on where another has long begun anew. Which stream of a name it
was is found out afterwards: from the ledger that a record was sent to.
"""

import asyncio
from collections.abc import Callable, Coroutine, Iterator
from contextlib import suppress
from dataclasses import replace
from itertools import count
from random import Random
from typing import Any

from ....core.log.read.positioning import EARLIEST
from ....core.protocol.dlsn import FIRST_DLSN, Dlsn
from ....core.protocol.errors import (
    IndeterminateError,
    MetadataUnavailableError,
    NoSuchStreamError,
    RhumblineError,
    StreamExistsError,
)
from ....core.runtime.tasks import Tasks
from ...checker.history import History, Wish
from ...checker.judge import judge
from ...checker.run_record import EXAMPLES_MAX, RunRecord, StreamVersions, Violation
from ..cluster import Fault, SimClient, SimCluster
from ..seed_run import RunPlan, SeedRun
from ..workload.stream_actions import StreamActions, append_one, read_to_the_end, take
from ..workload.stream_incarnations import Parting, ledgers_of, lives_of
from ..workload.workload import Applications
from ..world.metadata import LATE_S_MAX
from ..world.sim_world import SimHost, SimWorld
from .swarm import LASTS_MS, swarm

NAMES = ("phoenix", "lazarus")
SUBSCRIPTION = "mine"
_CALL_S_MAX = 30.0
_LOOK_S = 1.0


def rebirths(seed: int) -> RunPlan:
    """A run of its own kind."""
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
        run=RebirthsRun,
    )


class Administrators(StreamActions):
    """What every host does with the streams of the names."""

    def __init__(
        self, cluster: SimCluster, now_ms: Callable[[], float], numbers: Iterator[int]
    ) -> None:
        super().__init__(cluster, _CALL_S_MAX)
        self.histories = {name: History(now_ms, numbers) for name in NAMES}
        """By name, whichever stream had it."""
        self._now_ms = now_ms

    async def run(self, host: SimHost, client: SimClient) -> None:
        """One deed after the other, until the faults are over."""
        world = self._cluster.world
        random = world.random_of(f"administrator {host.name} {host.starts}")
        kinds = [kind for kind, share in _KINDS.items() for _ in range(share)]
        self._busy[host.name] = False
        while not world.is_healed:
            await asyncio.sleep(0.3 * random.random())
            kind, name = random.choice(kinds), random.choice(NAMES)
            deed = getattr(self, f"_{kind}")(client, name, random)
            await self._do(host, kind, f"{kind} {name}", deed)

    # --- by name --------------------------------------------------------------------------------

    async def _create(self, client: SimClient, name: str, random: Random) -> None:
        wish = Wish("create", self._now_ms())
        await self._wish(name, wish, client.namespace.create_stream(name))

    async def _delete(self, client: SimClient, name: str, random: Random) -> None:
        """The one that it sees, or whichever is there; perhaps again when it failed."""
        wish = Wish("delete", self._now_ms())
        if random.random() < 0.7:
            wish.identity = (await client.namespace.describe(name)).identity
        for _ in range(random.randint(1, 2)):
            work = client.namespace.delete_stream(name, identity=wish.identity)
            try:
                await self._wish(name, replace(wish), work)
            except (MetadataUnavailableError, IndeterminateError):
                continue
            return

    async def _truncate(self, client: SimClient, name: str, random: Random) -> None:
        position = Dlsn(random.randint(1, 4), random.randrange(3), 0)
        wish = Wish("truncate", self._now_ms(), position=position)
        await self._wish(name, wish, client.namespace.truncate(name, position))

    async def _wish(self, name: str, wish: Wish, work: Coroutine[Any, Any, object]) -> None:
        self.histories[name].wishes.append(wish)
        wish.called_ms = self._now_ms()
        try:
            await work
        except (NoSuchStreamError, StreamExistsError):
            wish.is_unknown = False
            raise
        else:
            wish.is_unknown = False
        finally:
            wish.ended_ms = self._now_ms()

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
                append = history.call(session, number, b"." * random.randrange(100))
                await append_one(self._cluster, writer, history, append)
            if random.random() < 0.7:
                await writer.close()
        finally:
            await writer.abort()

    async def _read(self, client: SimClient, name: str, random: Random) -> None:
        """From the start on, and perhaps for long enough to see the stream deleted."""
        history = self.histories[name]
        read = history.begin_read(f"reader {len(history.reads)} of {name}", None)
        reader = None
        try:
            reader = await client.namespace.open_reader(name, EARLIEST)
            read.ready_ms = self._now_ms()
            async with asyncio.timeout(random.choice((_LOOK_S, 8.0))):
                while await take(reader, history, read):
                    pass
        except TimeoutError:
            return
        except RhumblineError as error:
            history.fail(read, error)
            raise
        finally:
            if reader is not None:
                await reader.aclose()

    # --- the end --------------------------------------------------------------------------------

    async def settle(self, client: SimClient) -> None:
        """When no request is on its way any more: each is there, or is made, and read to its end.
        What is half deleted is deleted before."""
        await self.idle()
        await asyncio.sleep(LATE_S_MAX)
        for name in NAMES:
            while True:
                try:
                    await self._settle(client, name)
                except RhumblineError as error:
                    words = f"{name}: {type(error).__name__}: {error}"
                    self._cluster.world.trace.note("settling", words)
                    await asyncio.sleep(0.5)
                else:
                    break

    async def _settle(self, client: SimClient, name: str) -> None:
        with suppress(StreamExistsError):
            creation = client.namespace.create_stream(name)
            await self._wish(name, Wish("create", self._now_ms()), creation)
        try:
            writer = await client.namespace.open_writer(name)
        except NoSuchStreamError:
            work = client.namespace.delete_stream(name)
            await self._wish(name, Wish("delete", self._now_ms()), work)
            raise
        history = self.histories[name]
        append = history.call(history.new_session(), 0, b"the end")
        await append_one(self._cluster, writer, history, append)
        await writer.close()
        end = await client.namespace.end(name)
        await read_to_the_end(client, name, history, end)


_KINDS = {
    "create": 4,
    "delete": 3,
    "write": 6,
    "read": 4,
    "truncate": 1,
    "maintain": 2,
    "subscribe": 1,
}
"""Names of methods, and how often each of them is chosen."""


class RebirthPrograms(Applications):
    """Applications that write the one stream, and administer others besides."""

    administrators: Administrators

    async def run(self, host: SimHost) -> None:
        """Writes whenever ``active`` says so, and administers."""
        async with self.cluster.client(host) as client:
            tasks = Tasks()
            tasks.spawn(self.administrators.run(host, client), "administer")
            await self._write(host, client)

    async def run_and_tail(self, host: SimHost) -> None:
        """As ``run``: of the one stream the other plans know enough."""
        await self.run(host)


class RebirthsRun(SeedRun):
    """A run of ``rebirths``: each stream of a name is judged by itself."""

    def __init__(self, world: SimWorld, plan: RunPlan) -> None:
        super().__init__(world, plan)
        numbers = count(1)
        self.history = History(self.history.now_ms, numbers)
        apps = self.apps = RebirthPrograms(self.cluster, self.history, plan.habits)
        self.administrators = Administrators(self.cluster, self.history.now_ms, numbers)
        apps.administrators = self.administrators

    async def _settle(self, heir: SimHost) -> None:
        await self._finish("V7", heir, "settling the streams made again", self._settle_names)

    async def _settle_names(self, host: SimHost) -> None:
        async with self.cluster.client(host) as client:
            await self.administrators.settle(client)

    def judged(self) -> list[Violation]:
        """Also of each stream of each name."""
        found = judge(self.record())
        for name in NAMES:
            lives = self._lives(name)
            whole = self.administrators.histories[name]
            parting = Parting(whole, lives, self.witness.testimony.tokens)
            found += [Violation("G18", f"{name}: {one}") for one in parting.wrong[:EXAMPLES_MAX]]
            found += [
                Violation("G18", f"{name}: half a stream was made at {life.made_ms:.1f} ms")
                for life in lives
                if not life.identity
            ]
            for place, (life, history) in enumerate(zip(lives, parting.histories, strict=True), 1):
                for violation in judge(self._record_of(life, history)):
                    found.append(Violation(violation.id, f"{name} {place}: {violation.text}"))
        return found

    def record(self) -> RunRecord:
        """Of the one stream, with all ledgers."""
        record = super().record()
        for name in NAMES:
            for place, life in enumerate(self._lives(name), 1):
                record.streams[f"{name} {place}"] = life
        return record

    def _lives(self, name: str) -> list[StreamVersions]:
        return lives_of(name, self.world.metadata.tree.history)

    def _record_of(self, life: StreamVersions, history: History) -> RunRecord:
        whole = super().record()
        own = ledgers_of(life)
        return RunRecord(
            history=history,
            ledgers={one: versions for one, versions in whole.ledgers.items() if one in own},
            segments=life.segments,
            stored=life,
            regions=whole.regions,
            lost=whole.lost,
            liars=whole.liars,
        )

    def _states(self) -> dict[str, int]:
        seen = super()._states()
        counts = {**self.administrators.counts, "lives": sum(len(self._lives(n)) for n in NAMES)}
        for name, number in sorted(counts.items()):
            seen[name] = seen.get(name, 0) + number
        return seen
