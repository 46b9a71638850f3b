"""Replicas agree while regions fail, continue after a crash, and can be rebuilt."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from key_value_store import STREAM, Replica

from rhumbline import Client, Dlsn
from rhumbline.errors import TruncatedError
from rhumbline.testing import Rehearsal, RehearsalFactory

REGIONS = ("east", "north", "west")
Work = Callable[[Replica], Awaitable[Any]]


class ReplicaProcess:
    """A process with one replica, which does what the test asks for."""

    def __init__(self, cluster: Rehearsal, name: str, region: str, file: Path) -> None:
        self.replica = Replica(name, file)
        self.state = self.replica.state
        self._asked: asyncio.Queue[tuple[Work, asyncio.Future[Any]]] = asyncio.Queue()
        self.program = cluster.start_program(region, self._run, name=name)

    async def _run(self, client: Client) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(self.replica.run(client))
            while True:
                group.create_task(self._do(*await self._asked.get()))

    async def _do(self, work: Work, done: "asyncio.Future[Any]") -> None:
        done.set_result(await work(self.replica))

    async def put(self, key: str, value: str, expected: int) -> bool:
        return bool(await self.do(lambda replica: replica.put(key, value, expected)))

    async def do(self, work: Work) -> object:
        done: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._asked.put_nowait((work, done))
        return await done


async def until_equal(one: ReplicaProcess, *others: ReplicaProcess) -> None:
    async with asyncio.timeout(60):
        while any(  # noqa: ASYNC110
            other.state.everything() != one.state.everything() for other in others
        ):
            await asyncio.sleep(0.1)


def test_one_of_the_puts_wins_at_every_replica(
    rhumbline_cluster: RehearsalFactory, tmp_path: Path
) -> None:
    async def scenario(cluster: Rehearsal) -> None:
        await cluster.create_stream(STREAM)
        replicas = [ReplicaProcess(cluster, name, name, tmp_path / name) for name in REGIONS]
        won: list[bool] = []
        for version in range(3):
            puts = (one.put("colour", f"{one.replica.name} {version}", version) for one in replicas)
            won = await asyncio.gather(*puts)
            assert sorted(won) == [False, False, True]
        await until_equal(*replicas)
        winner = replicas[won.index(True)].replica.name
        assert replicas[0].state.get("colour") == (f"{winner} 2", 3)

    rhumbline_cluster(regions=3).run(scenario)


def test_replicas_agree_after_a_region_was_cut_off(
    rhumbline_cluster: RehearsalFactory, tmp_path: Path
) -> None:
    async def scenario(cluster: Rehearsal) -> None:
        await cluster.create_stream(STREAM)
        east, north = (
            ReplicaProcess(cluster, name, name, tmp_path / name) for name in ("east", "north")
        )
        assert await east.put("a", "1", 0)
        cluster.cut_region("east")
        late = asyncio.create_task(east.put("a", "late", 1))
        assert await north.put("a", "2", 1)
        await asyncio.sleep(10)
        cluster.heal_region("east")
        assert not await late, "the log had decided already"
        await until_equal(east, north)
        assert east.state.get("a") == ("2", 2)

    rhumbline_cluster(regions=3).run(scenario)


def test_a_replica_continues_at_its_position_and_the_rest_is_truncated(
    rhumbline_cluster: RehearsalFactory, tmp_path: Path
) -> None:
    async def scenario(cluster: Rehearsal) -> None:
        await cluster.create_stream(STREAM)
        first = ReplicaProcess(cluster, "first", "east", tmp_path / "first")
        second = ReplicaProcess(cluster, "second", "west", tmp_path / "second")
        for number in range(10):
            assert await second.put(f"key {number}", "x", 0)
        await until_equal(first, second)
        await first.do(Replica.publish_position)
        await second.do(Replica.publish_position)
        smallest = second.state.smallest_position
        assert smallest is not None
        first.program.kill()
        assert await second.put("key 0", "y", 1)
        again = ReplicaProcess(cluster, "first", "east", tmp_path / "first")
        assert again.state.position is not None
        assert again.state.position >= smallest, "it does not begin at the start"
        await until_equal(again, second)
        assert await again.put("key 0", "z", 2), "its numbers go on"
        with pytest.raises(TruncatedError):
            await cluster.run_program("north", read_from_the_first_record)

    async def read_from_the_first_record(client: Client) -> None:
        async with client.reader(STREAM, Dlsn(1, 0, 0)) as reader:
            await anext(reader)

    rhumbline_cluster(regions=3).run(scenario)


def test_a_replica_is_rebuilt_from_another(
    rhumbline_cluster: RehearsalFactory, tmp_path: Path
) -> None:
    async def scenario(cluster: Rehearsal) -> None:
        await cluster.create_stream(STREAM)
        keeper = ReplicaProcess(cluster, "keeper", "east", tmp_path / "keeper")
        lost = ReplicaProcess(cluster, "lost", "west", tmp_path / "lost")
        for number in range(10):
            await keeper.put(f"key {number}", "x", 0)
        await lost.do(Replica.publish_position)
        lost.program.kill()  # and its disk is gone, so its position must not hold the log back
        await keeper.do(lambda replica: replica.retire("lost"))
        await keeper.put("key 1", "y", 1)
        await keeper.do(Replica.publish_position)
        assert keeper.state.smallest_position is not None
        keeper.state.copy_to(tmp_path / "rebuilt")
        rebuilt = ReplicaProcess(cluster, "rebuilt", "west", tmp_path / "rebuilt")
        await keeper.put("key 2", "y", 1)
        await until_equal(rebuilt, keeper)
        assert await rebuilt.put("key 3", "y", 1)
        await until_equal(rebuilt, keeper)
        assert keeper.state.get("key 3") == ("y", 2)

    rhumbline_cluster(regions=3).run(scenario)
