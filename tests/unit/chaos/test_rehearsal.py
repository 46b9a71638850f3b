"""``rhumbline_cluster``: programs in regions, outages, virtual time, one seed."""

import asyncio
from collections.abc import Callable

import pytest

from rhumbline.chaos.rehearsal import MakeRehearsal, ProgramKilledError, Rehearsal
from rhumbline.client.connect import Client
from rhumbline.core.protocol.errors import ConfigurationError


async def write_hundred(client: Client) -> int:
    async with client.writer("s") as writer:
        for number in range(100):
            await writer.append(b"%d" % number)
    return 100


def test_a_program_goes_on_while_a_region_is_lost(rhumbline_cluster: MakeRehearsal) -> None:
    async def story(cluster: Rehearsal) -> list[bytes]:
        await cluster.create_stream("s")
        writing = cluster.start("east", write_hundred)
        await asyncio.sleep(0.3)
        cluster.lose("north")
        assert not writing.is_over
        assert await writing == 100
        cluster.restore("north")
        await asyncio.sleep(60)
        return await cluster.payloads("s", region="north")

    cluster = rhumbline_cluster(regions=3, rtt_ms=10)
    assert cluster.play(story) == [b"%d" % number for number in range(100)]
    assert cluster.now_s > 60


def test_what_runs_in_a_lost_region_is_killed(rhumbline_cluster: MakeRehearsal) -> None:
    async def story(cluster: Rehearsal) -> None:
        await cluster.create_stream("s")
        writing = cluster.start("west", write_hundred)
        await asyncio.sleep(0.3)
        cluster.lose("west")
        with pytest.raises(ProgramKilledError):
            await writing

    rhumbline_cluster().play(story)


def test_what_a_program_raises_is_raised_with_the_seed(rhumbline_cluster: MakeRehearsal) -> None:
    async def fail(client: Client) -> None:
        raise ValueError("a bug of the application")

    async def story(cluster: Rehearsal) -> None:
        await cluster.run("east", fail)

    with pytest.raises(ValueError, match="a bug of the application") as caught:
        rhumbline_cluster(seed=77).play(story)
    assert "seed 77" in caught.value.__notes__[0]


@pytest.mark.parametrize("fault", ["cut", "slow", "metadata", "bookie", "pause"])
def test_every_outage_ends(fault: str, rhumbline_cluster: MakeRehearsal) -> None:
    async def story(cluster: Rehearsal) -> list[bytes]:
        await cluster.create_stream("s")
        writing = cluster.start("east", write_hundred)
        await asyncio.sleep(0.3)
        outages: dict[str, tuple[Callable[[], None], Callable[[], None]]] = {
            "cut": (lambda: cluster.cut("east"), lambda: cluster.heal("east")),
            "slow": (lambda: cluster.slow("east", times=20), lambda: cluster.slow("east", times=1)),
            "metadata": (cluster.lose_metadata, cluster.restore_metadata),
            "bookie": (
                lambda: cluster.kill_bookie("north", 1),
                lambda: cluster.start_bookie("north", 1),
            ),
            "pause": (writing.pause, writing.resume),
        }
        begin, end = outages[fault]
        begin()
        await asyncio.sleep(3)
        end()
        await writing
        return await cluster.payloads("s")

    assert rhumbline_cluster().play(story) == [b"%d" % number for number in range(100)]


def test_the_same_seed_tells_the_same_story() -> None:
    async def story(cluster: Rehearsal) -> float:
        await cluster.create_stream("s")
        await cluster.run("west", write_hundred)
        return cluster.now_s

    def told(seed: int) -> float:
        with Rehearsal(seed=seed) as cluster:
            return cluster.play(story)

    assert told(3) == told(3) != told(4)


def test_settings_that_make_no_sense_are_refused() -> None:
    for settings in ({"regions": 0}, {"regions": ["a", "a"]}, {"bookies": 0}):
        with pytest.raises(ConfigurationError):
            Rehearsal(**settings)
