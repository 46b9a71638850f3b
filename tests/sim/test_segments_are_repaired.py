"""``repair fix`` repairs segments that disagree with their ledgers, and records stay readable."""

from collections.abc import Awaitable, Callable
from dataclasses import replace

from rhumbline.chaos.simulation.cluster import NAMESPACE, STREAM, SimClient
from rhumbline.chaos.simulation.workload.workload import NO_WRITER
from rhumbline.chaos.simulation.world.sim_world import SimHost
from rhumbline.core.log.metadata.stream_store import StreamStore
from rhumbline.core.protocol.errors import StreamLostError
from rhumbline.core.protocol.segments import Segment
from rhumbline.regions.segment_repair.segment_faults import Remedy, SegmentFault
from rhumbline.regions.segment_repair.segment_repairer import SegmentRepairer
from rhumbline.tests.support.simulation.region_run import RegionRun, plan, run_script

HOUR_MS = 3_600_000
OTHER = "other"


async def as_operator(
    run: RegionRun, work: Callable[[SimClient, SegmentRepairer], Awaitable[None]]
) -> None:
    async def connected(host: SimHost) -> None:
        async with run.cluster.client(host) as client:
            repairer = SegmentRepairer(client.store, client.ledgers, client.namespace)
            await work(client, repairer)

    await run.as_operator(connected)


async def repair(repairer: SegmentRepairer, remedy: Remedy, stream: str = STREAM) -> None:
    """Repair the only fault, which must have this remedy, and nothing must be left."""
    [fault] = await repairer.inspect(stream)
    assert fault.remedy is remedy, fault
    assert await repairer.repair(stream, fault, await repairer.head(stream))
    assert await repairer.inspect(stream) == []


def test_a_segment_whose_ledger_was_closed_behind_its_back_is_completed() -> None:
    async def script(run: RegionRun) -> None:
        await run.acks(50, 15)
        run.apps.active_writer = NO_WRITER
        next(host for host in run.cluster.app_hosts if host.name == "app-east").kill()

        async def work(client: SimClient, repairer: SegmentRepairer) -> None:
            assert await repairer.inspect(STREAM) == []
            [segment] = (await client.namespace.describe(STREAM)).segments
            await client.ledgers.recover(segment.ledger_id)
            await repair(repairer, Remedy.TAKE_OVER)
            [segment] = (await client.namespace.describe(STREAM)).segments
            assert segment.is_completed and segment.record_count >= 50

        await as_operator(run, work)

    run_script(script, plan("closed behind its back", roll_ms=HOUR_MS), repairs=False)


def test_ends_and_lengths_that_differ_are_adopted_from_the_ledger() -> None:
    """The checker does not know the stream whose metadata is made wrong on purpose."""

    async def script(run: RegionRun) -> None:
        await run.acks(50, 15)
        await as_operator(run, work)

    async def work(client: SimClient, repairer: SegmentRepairer) -> None:
        await client.namespace.create_stream(OTHER)
        async with await client.namespace.open_writer(OTHER) as writer:
            for number in range(9):
                await writer.append_numbered(b"p" * 16, number, [b"%d" % number])
        streams = StreamStore(client.store, NAMESPACE)
        [right] = (await client.namespace.describe(OTHER)).segments

        async def store(wrong: Segment) -> None:
            stored = await streams.segment(OTHER, right.lssn, right.stream_id)
            assert stored is not None
            assert await streams.replace_segment(OTHER, stored, wrong)

        for remedy, wrong in (
            (Remedy.ADOPT_LENGTH, replace(right, length_bytes=1)),
            (Remedy.ADOPT_END, behind(right)),
        ):
            await store(wrong)
            await repair(repairer, remedy, OTHER)
            assert (await client.namespace.describe(OTHER)).segments == (right,)
        await store(replace(right, last_entry_id=right.last_entry_id + 1))
        [fault] = await repairer.inspect(OTHER)
        assert fault.remedy is Remedy.NONE, "a segment is never shortened"
        assert not await repairer.repair(OTHER, fault, await repairer.head(OTHER))

    run_script(script, plan("ends differ", roll_ms=HOUR_MS), repairs=False)


def behind(right: Segment) -> Segment:
    """Return a segment whose metadata misses its last entries, and the snapshot of producers."""
    return replace(
        right,
        last_entry_id=3,
        record_count=4,
        length_bytes=7,
        producers_lssn=0,
        producers_entry=-1,
    )


def test_a_stream_that_was_claimed_after_the_inspection_is_not_taken_over() -> None:
    async def script(run: RegionRun) -> None:
        await run.acks(50, 15)

        async def work(client: SimClient, repairer: SegmentRepairer) -> None:
            head = await repairer.head(STREAM)
            await client.namespace.take_over(STREAM)
            fault = SegmentFault(1, 0, "old news", Remedy.TAKE_OVER)
            try:
                await repairer.repair(STREAM, fault, head)
            except StreamLostError:
                return
            raise AssertionError("the stream was taken over on old evidence")

        await as_operator(run, work)

    run_script(script, plan("old evidence", roll_ms=HOUR_MS), repairs=False)
