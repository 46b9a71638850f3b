"""``rhumbline_cluster`` runs programs in regions under faults, reproducibly from one seed."""

import asyncio
from collections.abc import Callable

import pytest

from rhumbline.chaos.rehearsal import ProgramKilledError, Rehearsal, RehearsalFactory
from rhumbline.chaos.simulation.world.loop import SimulationFailedError
from rhumbline.client.connect import Client
from rhumbline.core.protocol.errors import ConfigurationError


async def write_hundred(client: Client) -> int:
    async with client.writer("s") as writer:
        for number in range(100):
            await writer.append(b"%d" % number)
    return 100


def test_a_program_continues_while_a_region_is_down(rhumbline_cluster: RehearsalFactory) -> None:
    async def scenario(cluster: Rehearsal) -> list[bytes]:
        await cluster.create_stream("s")
        writing = cluster.start_program("east", write_hundred)
        await asyncio.sleep(0.3)
        cluster.kill_region("north")
        assert not writing.is_done
        assert await writing == 100
        cluster.restore_region("north")
        await asyncio.sleep(60)
        return await cluster.read_payloads("s", region="north")

    cluster = rhumbline_cluster(regions=3, rtt_ms=10)
    assert cluster.run(scenario) == [b"%d" % number for number in range(100)]
    assert cluster.now_s > 60


def test_killing_a_region_kills_its_programs(rhumbline_cluster: RehearsalFactory) -> None:
    async def scenario(cluster: Rehearsal) -> None:
        await cluster.create_stream("s")
        writing = cluster.start_program("west", write_hundred)
        await asyncio.sleep(0.3)
        cluster.kill_region("west")
        with pytest.raises(ProgramKilledError):
            await writing

    rhumbline_cluster().run(scenario)


def test_an_exception_of_a_program_propagates_with_the_seed(
    rhumbline_cluster: RehearsalFactory,
) -> None:
    async def fail(client: Client) -> None:
        raise ValueError("a bug of the application")

    async def scenario(cluster: Rehearsal) -> None:
        await cluster.run_program("east", fail)

    with pytest.raises(ValueError, match="a bug of the application") as caught:
        rhumbline_cluster(seed=77).run(scenario)
    assert "seed 77" in caught.value.__notes__[0]


@pytest.mark.parametrize("fault", ["cut", "slow", "metadata", "bookie", "pause"])
def test_a_writer_recovers_from_each_fault(fault: str, rhumbline_cluster: RehearsalFactory) -> None:
    async def scenario(cluster: Rehearsal) -> list[bytes]:
        await cluster.create_stream("s")
        writing = cluster.start_program("east", write_hundred)
        await asyncio.sleep(0.3)
        faults: dict[str, tuple[Callable[[], None], Callable[[], None]]] = {
            "cut": (lambda: cluster.cut_region("east"), lambda: cluster.heal_region("east")),
            "slow": (
                lambda: cluster.slow_region("east", factor=20),
                lambda: cluster.slow_region("east", factor=1),
            ),
            "metadata": (cluster.stop_metadata_store, cluster.start_metadata_store),
            "bookie": (
                lambda: cluster.kill_bookie("north", 1),
                lambda: cluster.restart_bookie("north", 1),
            ),
            "pause": (writing.pause, writing.resume),
        }
        begin, end = faults[fault]
        begin()
        await asyncio.sleep(3)
        end()
        await writing
        return await cluster.read_payloads("s")

    assert rhumbline_cluster().run(scenario) == [b"%d" % number for number in range(100)]


def test_the_same_seed_gives_the_same_run() -> None:
    async def scenario(cluster: Rehearsal) -> float:
        await cluster.create_stream("s")
        await cluster.run_program("west", write_hundred)
        return cluster.now_s

    def duration_s(seed: int) -> float:
        with Rehearsal(seed=seed) as cluster:
            return cluster.run(scenario)

    assert duration_s(3) == duration_s(3) != duration_s(4)


def test_invalid_settings_are_rejected() -> None:
    for settings in ({"regions": 0}, {"regions": ["a", "a"]}, {"bookies": 0}):
        with pytest.raises(ConfigurationError):
            Rehearsal(**settings)


def test_a_program_that_fails_and_is_not_awaited_fails_the_run(
    rhumbline_cluster: RehearsalFactory,
) -> None:
    """The test was green."""

    async def fail(client: Client) -> None:
        raise ValueError("a bug of the application")

    async def scenario(cluster: Rehearsal) -> None:
        cluster.start_program("east", fail, name="desk")
        await asyncio.sleep(5)

    with pytest.raises(ValueError, match="a bug of the application") as caught:
        rhumbline_cluster().run(scenario)
    assert "program desk-1-east failed, and the scenario did not await it" in str(
        caught.value.__notes__
    )


def test_a_failed_program_is_named_when_the_scenario_fails_too(
    rhumbline_cluster: RehearsalFactory,
) -> None:
    async def fail(client: Client) -> None:
        raise ValueError("a bug of the application")

    async def scenario(cluster: Rehearsal) -> None:
        cluster.start_program("east", fail)
        await asyncio.sleep(5)
        raise KeyError("of the scenario")

    with pytest.raises(KeyError) as caught:
        rhumbline_cluster().run(scenario)
    assert "unawaited: ValueError: a bug of the application" in str(caught.value.__notes__)


def test_a_killed_or_an_awaited_program_may_fail(rhumbline_cluster: RehearsalFactory) -> None:
    async def fail(client: Client) -> None:
        raise ValueError("expected")

    async def wait(client: Client) -> None:
        await asyncio.Event().wait()

    async def scenario(cluster: Rehearsal) -> None:
        cluster.start_program("east", wait).kill()
        with pytest.raises(ValueError, match="expected"):
            await cluster.start_program("west", fail)
        cluster.start_program("west", wait)  # is discarded at the end

    rhumbline_cluster().run(scenario)


def test_a_run_that_does_not_end_names_the_lines_that_wait(
    rhumbline_cluster: RehearsalFactory,
) -> None:
    """The message named a line of Rhumbline only."""

    async def read_forever(client: Client) -> None:
        async with client.reader("s") as reader:
            async for _ in reader:
                pass

    async def scenario(cluster: Rehearsal) -> None:
        await cluster.create_stream("s")
        await cluster.start_program("east", read_forever, name="reader")

    with pytest.raises(SimulationFailedError, match="not done in 60 s") as caught:
        rhumbline_cluster().run(scenario, minutes_max=1)
    first, second, *_ = caught.value.__notes__
    line = scenario.__code__.co_firstlineno + 2
    assert first == f"rhumbline: the scenario waits at {__file__}:{line} in scenario"
    line = read_forever.__code__.co_firstlineno + 2
    assert second == f"rhumbline: reader-2-east waits at {__file__}:{line} in read_forever"


def test_unknown_names_are_refused(rhumbline_cluster: RehearsalFactory) -> None:
    """A fault in a region that does not exist did nothing, and the test was green."""

    async def scenario(cluster: Rehearsal) -> None:
        for call in (
            lambda: cluster.kill_region("wset"),
            lambda: cluster.restore_region("wset"),
            lambda: cluster.cut_region("wset"),
            lambda: cluster.heal_region("wset"),
            lambda: cluster.slow_region("wset", factor=2),
            lambda: cluster.kill_bookie("wset"),
            lambda: cluster.start_program("wset", write_hundred),
        ):
            with pytest.raises(ConfigurationError, match="no region 'wset'; the regions are east"):
                call()
        with pytest.raises(ConfigurationError, match="region east has no bookie 2, only 0 to 1"):
            cluster.restart_bookie("east", 2)

    rhumbline_cluster().run(scenario)
