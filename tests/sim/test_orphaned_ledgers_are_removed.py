"""Repair removes ledgers of writers that died between creating and publishing them."""

import asyncio

from rhumbline.chaos.simulation.cluster import STREAM
from rhumbline.chaos.simulation.world.sim_world import SimHost
from rhumbline.core.ledger.write.ledger_writer import LedgerWriter
from rhumbline.core.protocol.ledger_metadata import LSSN_KEY, NAMESPACE_KEY, STREAM_KEY, LedgerState
from rhumbline.core.protocol.quorum import Quorum
from rhumbline.tests.support.simulation.region_run import REPAIR, RegionRun, plan, run_script

QUORUM = Quorum(3, 3, 2, 2)


def custom(namespace: str, stream: str, lssn: int) -> dict[str, bytes]:
    return {
        NAMESPACE_KEY: namespace.encode(),
        STREAM_KEY: stream.encode(),
        LSSN_KEY: str(lssn).encode(),
    }


async def add_one(writer: LedgerWriter) -> None:
    done: asyncio.Future[object] = asyncio.get_running_loop().create_future()
    writer.add(b"x", lambda _, error, *__: done.set_result(error))
    assert await done is None


def test_only_unreferenced_ledgers_are_removed() -> None:
    made: dict[str, int] = {}

    async def leave_ledgers(run: RegionRun, host: SimHost) -> None:
        """Leave ledgers as writers do that die before they publish them."""
        async with run.cluster.client(host) as client:
            namespace = client.namespace.name
            for name, keys in {
                "of a used number": custom(namespace, STREAM, 1),
                "of a future number": custom(namespace, STREAM, 1_000_000),
                "of a deleted stream": custom(namespace, "gone", 1),
                "with an entry": custom(namespace, "lost", 1),
                "of no stream": {},
                "of an invalid name": custom(namespace, "/", 1),
            }.items():
                writer = await client.ledgers.create(QUORUM, custom=keys)
                made[name] = writer.ledger_id
                if name == "with an entry":
                    await add_one(writer)
                writer.abandon()

    async def script(run: RegionRun) -> None:
        await run.acks(100, 60)
        await run.as_operator(lambda host: leave_ledgers(run, host))
        await asyncio.sleep(2 * REPAIR.audit_interval_ms / 1000 + 5)
        await run.acks(100, 60)

    run = run_script(script, plan("nobody's ledgers", quorum=QUORUM))
    left = {ledger.ledger_id: ledger for ledger in run.ledgers()}
    assert made["of a used number"] not in left
    assert made["of a deleted stream"] not in left
    for name in ("of a future number", "of no stream", "of an invalid name"):
        assert left[made[name]].state is LedgerState.OPEN, name
    kept = left[made["with an entry"]]
    assert (kept.state, kept.last_entry_id) == (LedgerState.CLOSED, 0)
    assert (
        sum(service.statistics()["unreferenced_removed"] for service in run.repairs.values()) == 2
    )
