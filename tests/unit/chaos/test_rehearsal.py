"""``rhumbline_cluster`` runs programs in regions under faults, reproducibly from one seed."""

import asyncio
from collections.abc import Callable

import pytest

from rhumbline.chaos.rehearsal import ProgramKilledError, Rehearsal, RehearsalFactory
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
