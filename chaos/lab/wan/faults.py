"""The faults of scenarios with real processes: toxics on links, signals, changes of files.

Beginning a fault returns the coroutine function that ends it, or None if the fault has no duration.
"""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from random import Random
from typing import Any

from ..scenario import FaultTable
from .cluster import WanCluster
from .processes import Program
from .programs.durability_recorder import slow_file
from .toxiproxy import BOTH, DOWN, UP, ToxiproxyLink

EndFault = Callable[[], Awaitable[None]]
LinkDirections = list[tuple[ToxiproxyLink, tuple[str, ...]]]

_RESET = {"timeout": 0}
_SWALLOW = {"timeout": 0}
_SLICES = {"average_size": 24, "size_variation": 16, "delay": 50}


class Faults:
    """Begins and ends faults in a cluster. ``relaunch`` starts a program again by name."""

    def __init__(
        self, cluster: WanCluster, seed: int, relaunch: Callable[[str], Awaitable[None]]
    ) -> None:
        self._cluster = cluster
        self._seed = seed
        self._relaunch = relaunch
        self._count = 0

    async def begin(self, fault: FaultTable, region: str) -> EndFault | None:
        """Begin a fault and return the function that ends it.

        ``region`` is the resolved region of the target, for kinds that act on a region.
        """
        self._count += 1
        toxics = self._toxics_of(fault, region)
        if toxics is not None:
            return await self._add_toxics(*toxics)
        return await self._begin_other(fault, region)

    # --- links ------------------------------------------------------------------------------------

    def _toxics_of(
        self, fault: FaultTable, region: str
    ) -> tuple[LinkDirections, str, dict[str, int], float] | None:
        """Return (directions, toxic, attributes, toxicity) if the fault is a toxic on links."""
        value, always = int(fault.value), 1.0
        match fault.kind:
            case "mute-region":
                return self._outbound(region), "timeout", _SWALLOW, always
            case "deafen-region":
                return self._inbound(region), "timeout", _SWALLOW, always
            case "cut-one-way":
                source, _, target = fault.target.partition(">")
                return self._one_way(source, target), "timeout", _SWALLOW, always
            case "slow-region":
                return self._all_directions(region), "latency", {"latency": value}, always
            case "narrow-region":
                return self._all_directions(region), "bandwidth", {"rate": value}, always
            case "slice-region":
                return self._all_directions(region), "slicer", _SLICES, always
            case "limit-region":
                return self._all_directions(region), "limit_data", {"bytes": value}, always
            case "reset-region":
                directions: LinkDirections = [
                    (link, (DOWN,)) for link, _ in self._all_directions(region)
                ]
                return directions, "reset_peer", _RESET, fault.value or always
            case "reset":
                everywhere: LinkDirections = [
                    (link, (DOWN,)) for link in self._cluster.toxiproxy.links
                ]
                return everywhere, "reset_peer", _RESET, fault.value or always
        return None

    async def _add_toxics(
        self, directions: LinkDirections, kind: str, attributes: dict[str, int], toxicity: float
    ) -> EndFault:
        name = f"fault{self._count}"
        await self._cluster.toxiproxy.add_toxics(
            name, directions, kind, attributes, toxicity=toxicity
        )

        async def end() -> None:
            await self._cluster.toxiproxy.remove_toxics(name)

        return end

    def _all_directions(self, region: str) -> LinkDirections:
        links = self._cluster.toxiproxy.links
        return [(link, BOTH) for link in links if region in (link.viewer, link.server_region)]

    def _outbound(self, region: str) -> LinkDirections:
        return [
            (link, (UP if link.viewer == region else DOWN,))
            for link, _ in self._all_directions(region)
        ]

    def _inbound(self, region: str) -> LinkDirections:
        return [
            (link, (DOWN if link.viewer == region else UP,))
            for link, _ in self._all_directions(region)
        ]

    def _one_way(self, source: str, target: str) -> LinkDirections:
        directions: LinkDirections = []
        for link in self._cluster.toxiproxy.links:
            if (link.viewer, link.server_region) == (source, target):
                directions.append((link, (UP,)))
            elif (link.viewer, link.server_region) == (target, source):
                directions.append((link, (DOWN,)))
        return directions

    # --- processes and files ----------------------------------------------------------------------

    async def _begin_other(self, fault: FaultTable, region: str) -> EndFault | None:
        regional: dict[str, Callable[[str], Awaitable[EndFault]]] = {
            "cut-region": self._cut,
            "lose-region": self._lose,
            "refuse-region": self._refuse,
            "metadata-member": self._kill_member,
        }
        if fault.kind in regional:
            return await regional[fault.kind](region)
        others: dict[str, Callable[[FaultTable], Awaitable[EndFault]]] = {
            "kill": self._kill,
            "restart": self._restart,
            "pause": self._pause_one,
            "wipe": self._wipe,
            "full-disk": self._full,
            "slow-disk": self._slow_disk,
            "metadata-away": self._metadata_away,
            "cold-away": self._cold_away,
            "swizzle": self._swizzle,
            "rolling-restart": self._rolling,
        }
        return await others[fault.kind](fault)

    async def _refuse(self, region: str) -> EndFault:
        toxiproxy = self._cluster.toxiproxy
        links = [link for link, _ in self._all_directions(region)]
        await toxiproxy.enable(links, is_on=False)
        return lambda: toxiproxy.enable(links, is_on=True)

    async def _kill(self, fault: FaultTable) -> EndFault:
        self._program(fault.target).kill()
        return lambda: self._relaunch(fault.target)

    async def _restart(self, fault: FaultTable) -> EndFault:
        await asyncio.to_thread(self._program(fault.target).stop)
        return lambda: self._relaunch(fault.target)

    async def _pause_one(self, fault: FaultTable) -> EndFault:
        return self._pause([self._program(fault.target)])

    async def _wipe(self, fault: FaultTable) -> EndFault:
        self._cluster.bookie(fault.target).wipe()
        return lambda: self._relaunch(fault.target)

    async def _metadata_away(self, fault: FaultTable) -> EndFault:
        return self._pause([member.program for member in self._cluster.members])

    async def _swizzle(self, fault: FaultTable) -> EndFault:
        return self._in_background(self._swizzle_pauses(fault.lasts_ms / 1000))

    async def _rolling(self, fault: FaultTable) -> EndFault:
        return self._in_background(self._restart_in_order(fault.lasts_ms / 1000))

    def _program(self, name: str) -> Program:
        return next(program for program in self._cluster.programs() if program.name == name)

    async def _cut(self, region: str) -> EndFault:
        end_links = await self._add_toxics(self._all_directions(region), "timeout", _SWALLOW, 1.0)
        members = [member.program for member in self._cluster.members if member.region == region]
        resume = self._pause(members)

        async def end() -> None:
            await end_links()
            await resume()

        return end

    async def _lose(self, region: str) -> EndFault:
        """Cut the region off first, so that no peer is notified when its processes end."""
        end_links = await self._add_toxics(self._all_directions(region), "timeout", _SWALLOW, 1.0)
        names = []
        for program in self._cluster.programs():
            if program.region == region and program.is_running:
                program.kill()
                names.append(program.name)

        async def end() -> None:
            await end_links()
            await asyncio.gather(*(self._relaunch(name) for name in names))

        return end

    def _pause(self, programs: list[Program]) -> EndFault:
        for program in programs:
            program.pause()

        async def end() -> None:
            for program in programs:
                program.resume()

        return end

    async def _kill_member(self, region: str) -> EndFault:
        members = [member.program for member in self._cluster.members if member.region == region]
        for program in members:
            program.kill()

        async def end() -> None:
            for program in members:
                await self._relaunch(program.name)

        return end

    async def _full(self, fault: FaultTable) -> EndFault:
        bookie = self._cluster.bookie(fault.target)
        if bookie.has_small_disk:
            await asyncio.to_thread(bookie.fill_disk, int(fault.value))

            async def free() -> None:
                bookie.free_disk()

            return free
        bookie.set_disk_full(True)
        await asyncio.to_thread(bookie.program.stop)
        await self._relaunch(bookie.name)

        async def end() -> None:
            bookie.set_disk_full(False)
            await asyncio.to_thread(bookie.program.stop)
            await self._relaunch(bookie.name)

        return end

    async def _slow_disk(self, fault: FaultTable) -> EndFault:
        slow = slow_file(self._cluster.bookie(fault.target).notes)
        slow.write_text(f"{fault.value}")

        async def end() -> None:
            slow.unlink(missing_ok=True)

        return end

    async def _cold_away(self, fault: FaultTable) -> EndFault:
        """Replace the cold store's folder by a plain file, so that every access fails."""
        cold, hidden = self._cluster.cold, self._cluster.cold.with_suffix(".away")
        cold.rename(hidden)
        cold.write_bytes(b"")

        async def end() -> None:
            cold.unlink()
            hidden.rename(cold)

        return end

    def _in_background(self, work: Coroutine[Any, Any, None]) -> EndFault:
        task = asyncio.create_task(work)

        async def end() -> None:
            await task

        return end

    async def _swizzle_pauses(self, lasts_s: float) -> None:
        """Pause bookies one by one, then resume them in another order.

        Unlike a cut link, a pause affects peers in the same region as well.
        """
        random = Random(f"{self._seed} swizzle {self._count}")
        programs = [bookie.program for bookie in self._cluster.bookies if random.random() < 0.7]
        down, up = random.sample(programs, len(programs)), random.sample(programs, len(programs))
        pause_s = 0.5 * lasts_s / max(1, len(programs))
        for program in down:
            program.pause()
            await asyncio.sleep(pause_s)
        for program in up:
            await asyncio.sleep(pause_s)
            program.resume()

    async def _restart_in_order(self, lasts_s: float) -> None:
        names = [bookie.name for bookie in self._cluster.bookies]
        names += [app.name for app in self._cluster.apps.values()]
        loop = asyncio.get_running_loop()
        begin, share_s = loop.time(), lasts_s / len(names)
        for index, name in enumerate(names):
            await asyncio.sleep(max(0.0, begin + index * share_s - loop.time()))
            await asyncio.to_thread(self._program(name).stop)
            await self._relaunch(name)
