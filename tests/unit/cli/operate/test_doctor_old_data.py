"""``doctor`` judges the overdue data of each stream, and says what it has not examined."""

from collections.abc import AsyncIterator
from types import SimpleNamespace
from typing import Any

import pytest

from rhumbline.cli.operate import doctor
from rhumbline.cli.operate.server_checks import OK, WARNING
from rhumbline.core.log.policy import StreamPolicy
from rhumbline.core.protocol.errors import UnavailableError
from rhumbline.regions.repair.task_store import TaskStore
from rhumbline.tests.support.fakes.log_world import LogWorld
from rhumbline.tests.unit.regions.repair.test_retention_runner import HOUR_MS, fill

NONE = "0 streams want old data deleted; none is overdue"


def client_of(world: LogWorld, *unreachable: str) -> Any:  # noqa: ANN401 - what the check uses
    async def names() -> AsyncIterator[tuple[str, str | None]]:
        for name in ("test", *unreachable):
            yield name, name if name in unreachable else None

    store = SimpleNamespace(store=world.store)

    async def store_of(region: str | None) -> SimpleNamespace:
        if region is not None:
            raise UnavailableError(f"{region} is away")
        return store

    return SimpleNamespace(
        global_store=store,
        namespaces=SimpleNamespace(all=names, store_of=store_of),
        namespace_of=lambda _store, _name: world.namespace,
    )


async def test_a_stream_that_is_late_is_not_hidden_by_one_with_more_grace(
    world: LogWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def audited(_: object) -> str:
        return "r"

    monkeypatch.setattr(TaskStore, "auditor", audited)
    patient = StreamPolicy(retention_ms=1, purge_grace_ms=100 * HOUR_MS)
    await fill(world.namespace, "patient", patient)
    world.clock.now_ms += 107 * HOUR_MS
    await fill(world.namespace, "quick", StreamPolicy(retention_ms=1, purge_grace_ms=HOUR_MS))
    world.clock.now_ms += 2 * HOUR_MS
    found = await doctor.check_retention(client_of(world), False)
    assert (found.verdict, "patient, segment 1, by retention" in found.detail) == (OK, True)
    world.clock.now_ms += 2 * HOUR_MS
    found = await doctor.check_retention(client_of(world), False)
    assert (found.verdict, "quick, segment 1, by retention" in found.detail) == (WARNING, True)


async def test_what_was_not_examined_is_said(
    world: LogWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("a", "b"):
        await world.namespace.create_stream(name, StreamPolicy())
    found = await doctor.check_retention(client_of(world), False)
    assert found.detail == NONE
    found = await doctor.check_retention(client_of(world, "east"), False)
    assert found.detail == f"{NONE} among those examined; others were not"
    monkeypatch.setattr(doctor, "_STREAMS_MAX", 2)
    assert (await doctor.check_retention(client_of(world), False)).detail == NONE
    monkeypatch.setattr(doctor, "_STREAMS_MAX", 1)
    found = await doctor.check_retention(client_of(world), False)
    assert found.detail == f"{NONE} among those examined; others were not"
