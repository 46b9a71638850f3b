"""Faults of the processes of a FoundationDB cluster. The first sentence of each is in the guide."""

import asyncio
from collections.abc import Awaitable, Callable

from rhumbline.tests.support.servers.fdb_servers import FdbCluster

STOPPED_S = 4.0


async def kill(cluster: FdbCluster, *numbers: int) -> None:
    """Kill processes at once, and start them again after a while."""
    for number in numbers:
        cluster.servers[number].kill()
    await asyncio.sleep(STOPPED_S)
    for number in numbers:
        cluster.servers[number].launch()


async def freeze(cluster: FdbCluster, *numbers: int) -> None:
    """Freeze processes at once with SIGSTOP, and let them continue after a while."""
    for number in numbers:
        cluster.servers[number].pause()
    try:
        await asyncio.sleep(STOPPED_S)
    finally:
        for number in numbers:
            cluster.servers[number].resume()


async def each_in_turn(
    cluster: FdbCluster, fault: Callable[[FdbCluster, int], Awaitable[None]]
) -> None:
    """Let each process fail once; the copies are complete again before the next one."""
    for number in range(len(cluster.servers)):
        await fault(cluster, number)
        await asyncio.to_thread(cluster.wait_healthy)


async def killed_in_turn(cluster: FdbCluster) -> None:
    """Each process in turn: killed, and started again."""
    await each_in_turn(cluster, kill)


async def frozen_in_turn(cluster: FdbCluster) -> None:
    """Each process in turn: frozen for 4 s (SIGSTOP)."""
    await each_in_turn(cluster, freeze)


async def majority_killed(cluster: FdbCluster) -> None:
    """Two of three processes: killed, and started again."""
    await kill(cluster, 0, 1)


async def majority_frozen(cluster: FdbCluster) -> None:
    """Two of three processes: frozen for 4 s."""
    await freeze(cluster, 1, 2)


async def all_killed(cluster: FdbCluster) -> None:
    """All processes: killed, and started again."""
    await kill(cluster, *range(len(cluster.servers)))


async def all_frozen(cluster: FdbCluster) -> None:
    """All processes: frozen for 4 s."""
    await freeze(cluster, *range(len(cluster.servers)))


async def coordinators_moved(cluster: FdbCluster) -> None:
    """The coordinators: moved from three processes to one, and back to three."""
    await asyncio.to_thread(cluster.move_coordinators, cluster.servers[1])
    await asyncio.sleep(1)
    await asyncio.to_thread(cluster.move_coordinators, *cluster.servers)


async def only_coordinator_killed(cluster: FdbCluster) -> None:
    """The only coordinator: killed, and started again."""
    await asyncio.to_thread(cluster.move_coordinators, cluster.servers[2])
    await kill(cluster, 2)
    await asyncio.to_thread(cluster.move_coordinators, *cluster.servers)


async def only_coordinator_frozen(cluster: FdbCluster) -> None:
    """The only coordinator: frozen for 4 s."""
    await asyncio.to_thread(cluster.move_coordinators, cluster.servers[2])
    await freeze(cluster, 2)
    await asyncio.to_thread(cluster.move_coordinators, *cluster.servers)


Fault = Callable[[FdbCluster], Awaitable[None]]
OF_ONE: list[Fault] = [all_killed, all_frozen]
OF_THREE: list[Fault] = [
    killed_in_turn,
    frozen_in_turn,
    majority_killed,
    majority_frozen,
    all_killed,
    all_frozen,
    coordinators_moved,
    only_coordinator_killed,
    only_coordinator_frozen,
]


def name_of(fault: Fault) -> str:
    """Return the name of a fault, for ids of tests and reports."""
    return getattr(fault, "__name__", "fault")
