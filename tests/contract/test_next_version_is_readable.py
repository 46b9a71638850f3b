"""Values of the metadata store that a program with one more field writes are readable (UPG-5)."""

import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace

import pytest

from rhumbline.backends.memory import MemoryStore
from rhumbline.core.log.metadata.namespace_record import NamespaceRecord
from rhumbline.core.log.metadata.stream_metadata import StreamRecord
from rhumbline.core.log.policy import FlushPolicy, StreamPolicy
from rhumbline.core.protocol.compression import Codec
from rhumbline.core.protocol.errors import CorruptionError
from rhumbline.core.protocol.quorum import Quorum
from rhumbline.core.protocol.recovery import PROVABLE_END_KEY, ProvableEnd, provable_end_of
from rhumbline.core.protocol.segments import Segment, decode_segment, encode_segment
from rhumbline.core.runtime.settings import setting
from rhumbline.regions.ownerless import roll_requests
from rhumbline.regions.ownerless.roll_requests import RollRequest, RollRequests
from rhumbline.regions.rebalance.order_store import (
    OrderStore,
    RebalanceOrder,
    RebalanceProgress,
    RebalanceStatus,
)
from rhumbline.regions.repair import task_store
from rhumbline.regions.repair.drain_records import DrainRecord, DrainRecords
from rhumbline.regions.repair.task_store import RepairTask, TaskStore
from rhumbline.server.server_directory import ROOT, ServerRecord, list_servers


@dataclass(frozen=True, slots=True)
class NextFlush(FlushPolicy):
    later: int = setting(7, "A field of the next version.")


@dataclass(frozen=True, slots=True)
class NextPolicy(StreamPolicy):
    later_ms: int | None = setting(None, "A field of the next version.")


@dataclass(frozen=True, slots=True)
class NextTask(RepairTask):
    later: int = 7


@dataclass(frozen=True, slots=True)
class NextRoll(RollRequest):
    later: int = 7


@dataclass(frozen=True, slots=True)
class NextDrain(DrainRecord):
    later: int = 7


@dataclass(frozen=True, slots=True)
class NextOrder(RebalanceOrder):
    later: int = 7


@dataclass(frozen=True, slots=True)
class NextProgress(RebalanceProgress):
    later: int = 7


@dataclass(frozen=True, slots=True)
class NextEnd(ProvableEnd):
    later: int = 7


@dataclass(frozen=True, slots=True)
class NextSegment(Segment):
    later: int = 7


NEXT = NextPolicy(Quorum(6, 4, 2, 2), NextFlush(period_ms=5), retention_ms=60_000)
PRESENT = StreamPolicy(Quorum(6, 4, 2, 2), FlushPolicy(period_ms=5), retention_ms=60_000)


async def test_policies_of_streams_and_namespaces_are_readable() -> None:
    stream = StreamRecord("9f86d081884c7d65", 1, NEXT)
    assert StreamRecord.decode("s", stream.encode()).policy == PRESENT
    namespace = NamespaceRecord("t", 1, NEXT)
    assert NamespaceRecord.decode("n", namespace.encode()).policy == PRESENT


async def test_a_policy_that_uses_the_next_field_is_refused_and_never_half_understood() -> None:
    used = StreamRecord("9f86d081884c7d65", 1, replace(NEXT, later_ms=5)).encode()
    with pytest.raises(CorruptionError, match="later_ms"):
        StreamRecord.decode("s", used)


async def test_what_a_stored_policy_leaves_out_never_changes_its_meaning() -> None:
    """A default that changed would change the policies that are stored without the field."""
    stored = {"quorum": [3, 3, 2], "flush": [], "codec": "none"}
    assert StreamPolicy().to_fields() == stored
    assert StreamPolicy.from_fields(stored) == StreamPolicy(
        quorum=Quorum(3, 3, 2, 1),
        flush=FlushPolicy(period_ms=0, bytes_max=131_072, visibility_ms=0),
        codec=Codec.NONE,
        record_bytes_max=1_048_576,
        roll_bytes=536_870_912,
        roll_ms=7_200_000,
        keepalive_ms=None,
        retention_ms=None,
        hot_retention_ms=None,
        archive_retention_ms=None,
        truncates_by_subscriptions=False,
        purge_grace_ms=3_600_000,
        regions=(),
        spread=(),
    )


async def test_repair_tasks_are_readable(monkeypatch: pytest.MonkeyPatch) -> None:
    tasks = TaskStore(MemoryStore())
    with monkeypatch.context() as next_version:
        next_version.setattr(task_store, "RepairTask", NextTask)
        await tasks.add(12, "a@00000001 is lost", 1000)
    assert await tasks.get(12) == RepairTask(12, "a@00000001 is lost", 1000)


async def test_roll_requests_are_readable(monkeypatch: pytest.MonkeyPatch) -> None:
    requests = RollRequests(MemoryStore())
    with monkeypatch.context() as next_version:
        next_version.setattr(roll_requests, "RollRequest", NextRoll)
        await requests.add(12, "it drains", 1000)
        await requests.answer(12, "a stream is busy")
    assert await requests.get(12) == RollRequest(12, "it drains", 1000, 1, "a stream is busy")


async def drain() -> tuple[object, object]:
    drains = DrainRecords(MemoryStore())
    await drains.begin("b", NextDrain(5, 6))
    return await drains.read("b"), DrainRecord(5, 6)


async def order() -> tuple[object, object]:
    orders = OrderStore(MemoryStore())
    await orders.order(NextOrder(RebalanceStatus.RUNNING, 1, 2, 3))
    return await orders.read(), RebalanceOrder(RebalanceStatus.RUNNING, 1, 2, 3)


async def progress() -> tuple[object, object]:
    orders = OrderStore(MemoryStore())
    await orders.write_progress(NextProgress(3))
    return await orders.read_progress(), RebalanceProgress(3)


async def end() -> tuple[object, object]:
    written = NextEnd(1, 1, 1, 2, ("b (eu)",), True)
    found = provable_end_of({PROVABLE_END_KEY: written.encode()})
    return found, ProvableEnd(1, 1, 1, 2, ("b (eu)",), True)


async def segment() -> tuple[object, object]:
    written = NextSegment(lssn=1, stream_id="9f86d081884c", ledger_id=3, epoch=1, created_ms=5)
    found = decode_segment(1, encode_segment(written))
    return found, Segment(lssn=1, stream_id="9f86d081884c", ledger_id=3, epoch=1, created_ms=5)


async def server() -> tuple[object, object]:
    store, record = MemoryStore(), ServerRecord("repair", "h:1", "h:2", "eu")
    fields = json.loads(record.encode())
    await store.create(f"{ROOT}/x", json.dumps({**fields, "later": 7}).encode())
    return await list_servers(store), [record]


@pytest.mark.parametrize("case", [drain, order, progress, end, segment, server])
async def test_other_values_are_readable(
    case: Callable[[], Awaitable[tuple[object, object]]],
) -> None:
    found, expected = await case()
    assert found == expected
