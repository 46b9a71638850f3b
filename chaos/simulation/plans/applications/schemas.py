"""The plan ``schemas``: ``swarm`` in which programs on all hosts add schemas to the same stream.

A program reads the schemas that the stream has, checks them, and adds one of its own, as typed
streams do. Several programs do this at once, while the metadata store loses requests and answers
and hosts fail. Each schema is unique, so invariant G38 can tell what its program had checked.
"""

import asyncio
from dataclasses import replace
from random import Random

from .....core.log.metadata.paths import StreamPaths
from .....core.log.metadata.schema_store import SchemaStore, decode_schema_history
from .....core.log.metadata.stream_schema import (
    Compatibility,
    SchemaHistory,
    SchemaKind,
    StreamSchema,
)
from .....core.protocol.errors import RhumblineError
from .....core.runtime.tasks import Tasks
from ....checker.applications.schema_use import SchemaUse
from ....checker.run_record import RunRecord
from ...cluster import NAMESPACE, STREAM, Fault, SimClient
from ...seed_run import RunPlan, SeedRun
from ...workload.workload import Applications, describe_error
from ...world.sim_world import SimHost, SimWorld
from ..swarm import LASTS_MS, swarm

_SCHEMAS_MAX = 50


def schemas(seed: int) -> RunPlan:
    """Return a plan of ``swarm`` with fewer appends, and faults of the metadata store."""
    random = Random(f"{seed} schemas")
    plan = swarm(seed)
    faults = [
        Fault(
            random.choice(("metadata-loses-answers", "metadata-loses-requests", "metadata-slow")),
            "metadata",
            random.randint(1_000, LASTS_MS),
            random.choice((500, 2_000)),
            random.choice((0.2, 0.5)),
        )
        for _ in range(3)
    ]
    return replace(
        plan,
        seed=f"{seed} schemas",
        faults=tuple(sorted((*plan.faults, *faults), key=lambda fault: fault.at_ms)),
        appends_max=60,
        run=SchemasRun,
    )


class SchemaApplications(Applications):
    """Applications that write the main stream and add schemas to it."""

    use: SchemaUse
    counts: dict[str, int]

    async def run(self, host: SimHost) -> None:
        """Write while this host is the active writer, and add schemas."""
        async with self.cluster.client(host) as client:
            tasks = Tasks()
            for number in range(2):
                tasks.spawn(self._add_schemas(host, client, number), "add schemas")
            await self._write(host, client)

    async def run_and_tail(self, host: SimHost) -> None:
        """Do the same as ``run``; other plans cover tailing of the main stream."""
        await self.run(host)

    async def _add_schemas(self, host: SimHost, client: SimClient, number: int) -> None:
        random = self.cluster.world.random_of(f"schemas {host.name} {host.starts} {number}")
        store = SchemaStore(client.store, NAMESPACE)
        while len(self.use.checked) < _SCHEMAS_MAX:
            await asyncio.sleep(random.choice((0.01, 0.5, 2.0)) * random.random())
            name = f"{host.name}/{host.starts}/{number} {len(self.use.checked)}"
            try:
                before = await store.read(STREAM)
                if random.random() < 0.5:  # checking takes a while
                    await asyncio.sleep(random.random() * 0.05)
                self.use.checked[name] = _names(before)
                added = await store.add(STREAM, StreamSchema(SchemaKind.JSON, name), before)
            except RhumblineError as error:
                self._count(f"schemas {type(error).__name__}")
                self.cluster.world.trace.detail(host.name, f"schema: {describe_error(error)}")
                continue
            self.use.outcomes[name] = added is not None
            self._count("schemas refused" if added is None else "schemas added")
            if random.random() < 0.1:
                await self._set_compatibility(store, random)

    async def _set_compatibility(self, store: SchemaStore, random: Random) -> None:
        try:
            await store.set_compatibility(STREAM, random.choice(list(Compatibility)))
        except RhumblineError:
            self._count("unset compatibilities")

    def _count(self, name: str) -> None:
        self.counts[name] = self.counts.get(name, 0) + 1


class SchemasRun(SeedRun):
    """A run of ``schemas``."""

    apps: SchemaApplications

    def __init__(self, world: SimWorld, plan: RunPlan) -> None:
        super().__init__(world, plan)
        self.apps = SchemaApplications(self.cluster, self.history, plan.habits)
        self.apps.use = self.use = SchemaUse()
        self.apps.counts = {}

    def record(self) -> RunRecord:
        """Return the record of the run, with the versions of the schemas."""
        node = StreamPaths(NAMESPACE, STREAM).schemas
        self.use.versions = [
            (commit.at_ms, _names(decode_schema_history(STREAM, commit.data)))
            for commit in self.world.metadata.tree.history
            if commit.path == node and commit.data is not None
        ]
        record = super().record()
        record.schemas = self.use
        return record

    def _states(self) -> dict[str, int]:
        return super()._states() | self.apps.counts


def _names(history: SchemaHistory) -> tuple[str, ...]:
    return tuple(schema.definition for schema in history.schemas)
