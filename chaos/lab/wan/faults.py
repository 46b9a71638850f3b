"""The lab's faults in the real world: toxics on links, signals to processes, files taken away.

Each is a coroutine that begins the fault and returns what ends it, or None if it is over at once.
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

End = Callable[[], Awaitable[None]]
Ways = list[tuple[ToxiproxyLink, tuple[str, ...]]]

_RESET = {"timeout": 0}
_SWALLOW = {"timeout": 0}
_SLICES = {"average_size": 24, "size_variation": 16, "delay": 50}


class Faults:
    """Begins faults in a cluster. ``relaunch`` starts a program again as the run wants it."""

    def __init__(
        self, cluster: WanCluster, seed: int, relaunch: Callable[[str], Awaitable[None]]
    ) -> None:
        self._cluster = cluster
        self._seed = seed
        self._relaunch = relaunch
        self._count = 0

    async def begin(self, fault: FaultTable, region: str) -> End | None:
        """Begins a fault; ``region`` is its target's, resolved, for regional kinds."""
        self._count += 1
        toxics = self._toxics(fault, region)
        if toxics is not None:
            return await self._poison(*toxics)
        return await self._made(fault, region)

    # --- links ----------------------------------------------------------------------------------

    def _toxics(
        self, fault: FaultTable, region: str
    ) -> tuple[Ways, str, dict[str, int], float] | None:
        """(ways, toxic, attributes, toxicity) of a fault that is one kind of toxic."""
        value, whole = int(fault.value), 1.0
        match fault.kind:
            case "mute-region":
                return self._from(region), "timeout", _SWALLOW, whole
            case "deafen-region":
                return self._into(region), "timeout", _SWALLOW, whole
            case "cut-one-way":
                source, _, target = fault.target.partition(">")
                return self._one_way(source, target), "timeout", _SWALLOW, whole
            case "slow-region":
                return self._of(region), "latency", {"latency": value}, whole
            case "narrow-region":
                return self._of(region), "bandwidth", {"rate": value}, whole
            case "slice-region":
                return self._of(region), "slicer", _SLICES, whole
            case "limit-region":
                return self._of(region), "limit_data", {"bytes": value}, whole
            case "reset-region":
                ways: Ways = [(link, (DOWN,)) for link, _ in self._of(region)]
                return ways, "reset_peer", _RESET, fault.value or whole
            case "reset":
                everywhere: Ways = [(link, (DOWN,)) for link in self._cluster.toxiproxy.links]
                return everywhere, "reset_peer", _RESET, fault.value or whole
        return None

    async def _poison(
        self, ways: Ways, kind: str, attributes: dict[str, int], toxicity: float
    ) -> End:
        name = f"fault{self._count}"
        await self._cluster.toxiproxy.poison(name, ways, kind, attributes, toxicity=toxicity)

        async def end() -> None:
            await self._cluster.toxiproxy.cure(name)

        return end

    def _of(self, region: str) -> Ways:
        links = self._cluster.toxiproxy.links
        return [(link, BOTH) for link in links if region in (link.viewer, link.server_region)]

    def _from(self, region: str) -> Ways:
        return [(link, (UP if link.viewer == region else DOWN,)) for link, _ in self._of(region)]

    def _into(self, region: str) -> Ways:
        return [(link, (DOWN if link.viewer == region else UP,)) for link, _ in self._of(region)]

    def _one_way(self, source: str, target: str) -> Ways:
        ways: Ways = []
        for link in self._cluster.toxiproxy.links:
            if (link.viewer, link.server_region) == (source, target):
                ways.append((link, (UP,)))
            elif (link.viewer, link.server_region) == (target, source):
                ways.append((link, (DOWN,)))
        return ways

    # --- everything else ------------------------------------------------------------------------

    async def _made(self, fault: FaultTable, region: str) -> End | None:
        regional: dict[str, Callable[[str], Awaitable[End]]] = {
            "cut-region": self._cut,
            "lose-region": self._lose,
            "refuse-region": self._refuse,
            "metadata-member": self._kill_member,
        }
        if fault.kind in regional:
            return await regional[fault.kind](region)
        others: dict[str, Callable[[FaultTable], Awaitable[End]]] = {
            "kill": self._kill,
            "restart": self._restart,
            "pause": self._stop_still,
            "wipe": self._wipe,
            "full-disk": self._full,
            "slow-disk": self._slow_disk,
            "metadata-away": self._metadata_away,
            "cold-away": self._hide_cold,
            "swizzle": self._swizzle,
            "rolling-restart": self._rolling,
        }
        return await others[fault.kind](fault)

    async def _refuse(self, region: str) -> End:
        toxiproxy = self._cluster.toxiproxy
        links = [link for link, _ in self._of(region)]
        await toxiproxy.enable(links, is_on=False)
        return lambda: toxiproxy.enable(links, is_on=True)

    async def _kill(self, fault: FaultTable) -> End:
        self._program(fault.target).kill()
        return lambda: self._relaunch(fault.target)

    async def _restart(self, fault: FaultTable) -> End:
        await self._program(fault.target).stop()
        return lambda: self._relaunch(fault.target)

    async def _stop_still(self, fault: FaultTable) -> End:
        return self._pause([self._program(fault.target)])

    async def _wipe(self, fault: FaultTable) -> End:
        self._cluster.bookie(fault.target).wipe()
        return lambda: self._relaunch(fault.target)

    async def _metadata_away(self, fault: FaultTable) -> End:
        return self._pause([member.program for member in self._cluster.members])

    async def _swizzle(self, fault: FaultTable) -> End:
        return self._in_turns(self._stop_in_turns(fault.lasts_ms / 1000))

    async def _rolling(self, fault: FaultTable) -> End:
        return self._in_turns(self._roll(fault.lasts_ms / 1000))

    def _program(self, name: str) -> Program:
        return next(one for one in self._cluster.programs() if one.name == name)

    async def _cut(self, region: str) -> End:
        end_links = await self._poison(self._of(region), "timeout", _SWALLOW, 1.0)
        members = [one.program for one in self._cluster.members if one.region == region]
        resume = self._pause(members)

        async def end() -> None:
            await end_links()
            await resume()

        return end

    async def _lose(self, region: str) -> End:
        """First nobody hears of it any more, so that nobody is told that its processes end."""
        end_links = await self._poison(self._of(region), "timeout", _SWALLOW, 1.0)
        names = []
        for program in self._cluster.programs():
            if program.region == region and program.is_running:
                program.kill()
                names.append(program.name)

        async def end() -> None:
            await end_links()
            await asyncio.gather(*(self._relaunch(name) for name in names))

        return end

    def _pause(self, programs: list[Program]) -> End:
        for program in programs:
            program.pause()

        async def end() -> None:
            for program in programs:
                program.resume()

        return end

    async def _kill_member(self, region: str) -> End:
        members = [one.program for one in self._cluster.members if one.region == region]
        for program in members:
            program.kill()

        async def end() -> None:
            for program in members:
                await self._relaunch(program.name)

        return end

    async def _full(self, fault: FaultTable) -> End:
        bookie = self._cluster.bookie(fault.target)
        if bookie.is_small:
            await asyncio.to_thread(bookie.fill, int(fault.value))

            async def free() -> None:
                bookie.unfill()

            return free
        bookie.seem_full(True)
        await bookie.program.stop()
        await self._relaunch(bookie.name)

        async def end() -> None:
            bookie.seem_full(False)
            await bookie.program.stop()
            await self._relaunch(bookie.name)

        return end

    async def _slow_disk(self, fault: FaultTable) -> End:
        slow = slow_file(self._cluster.bookie(fault.target).notes)
        slow.write_text(f"{fault.value}")

        async def end() -> None:
            slow.unlink(missing_ok=True)

        return end

    async def _hide_cold(self, fault: FaultTable) -> End:
        """A plain file stands where the folder was: nothing can be read or written there."""
        cold, hidden = self._cluster.cold, self._cluster.cold.with_suffix(".away")
        cold.rename(hidden)
        cold.write_bytes(b"")

        async def end() -> None:
            cold.unlink()
            hidden.rename(cold)

        return end

    def _in_turns(self, work: Coroutine[Any, Any, None]) -> End:
        task = asyncio.create_task(work)

        async def end() -> None:
            await task

        return end

    async def _stop_in_turns(self, lasts_s: float) -> None:
        """Stopped processes: unlike a cut link this holds for their own region, too."""
        random = Random(f"{self._seed} swizzle {self._count}")
        programs = [one.program for one in self._cluster.bookies if random.random() < 0.7]
        down, up = random.sample(programs, len(programs)), random.sample(programs, len(programs))
        pause_s = 0.5 * lasts_s / max(1, len(programs))
        for program in down:
            program.pause()
            await asyncio.sleep(pause_s)
        for program in up:
            await asyncio.sleep(pause_s)
            program.resume()

    async def _roll(self, lasts_s: float) -> None:
        names = [*(one.name for one in self._cluster.bookies)]
        names += [one.name for one in self._cluster.apps.values()]
        loop = asyncio.get_running_loop()
        begin, share_s = loop.time(), lasts_s / len(names)
        for place, name in enumerate(names):
            await asyncio.sleep(max(0.0, begin + place * share_s - loop.time()))
            await self._program(name).stop()
            await self._relaunch(name)
