"""What applications are told to do besides writing and tailing: catch up, truncate, finish."""

import asyncio
import time
from collections.abc import Callable

from .....core.protocol.dlsn import Dlsn
from ...played_scenario import PlayedScenario
from ..cluster import WanCluster
from ..members import AppProgram

ERRAND_S_MAX = 60.0
_LOOK_S = 0.1
_TRUNCATED_FROM = 10
"""Fewer acknowledged records are not truncated."""


class NotAliveError(Exception):
    """Something that had to happen after the faults did not."""


class AppCommands:
    """Sends applications on errands, and notes in ``play`` what comes of them."""

    def __init__(
        self, cluster: WanCluster, play: PlayedScenario, note: Callable[[str, str], None]
    ) -> None:
        self.tasks: list[asyncio.Task[None]] = []
        self._cluster = cluster
        self._play = play
        self._note = note

    def acked(self) -> list[Dlsn]:
        """Every position that was acknowledged until now, in order."""
        found = []
        for one in self._cluster.apps.values():
            one.look()
            found += [
                Dlsn.parse(event[5])
                for event in one.events
                if event[0] == "end" and event[4] == "ok"
            ]
        return sorted(found)

    async def catch_up(self, number: int) -> None:
        """A reader begins at the start and reads what is acknowledged now."""
        apps = [one for one in self._cluster.apps.values() if one.program.is_running]
        wanted = self.acked()
        if not apps or not wanted:
            return
        one = apps[number % len(apps)]
        name = f"catch-up {number} {one.name}"
        start = text_of(self._play.truncated_before)
        errand = one.tell("read", name=name, start=start, until=behind(wanted[-1]))
        self.tasks.append(asyncio.create_task(self._caught_up(one, errand, name, wanted)))

    async def _caught_up(self, one: AppProgram, errand: int, name: str, wanted: list[Dlsn]) -> None:
        fault = await self._answer(one, errand)
        if fault != "":
            self._note(one.name, f"{name}: {fault or 'did not end'}")
            return
        reads = {event[2] for event in one.events if event[0] == "read" and event[3] == name}
        found = {
            Dlsn.parse(dlsn)
            for event in one.events
            if event[0] == "got" and event[2] in reads
            for dlsn, _ in event[3]
        }
        first = self._play.truncated_before or Dlsn(0, 0, 0)
        self._play.caught_up[name] = all(dlsn in found or dlsn < first for dlsn in wanted)

    async def truncate(self, region: str) -> None:
        """The application of a region truncates the older half of what is acknowledged."""
        order, before = self.acked(), self._play.truncated_before
        if len(order) <= _TRUNCATED_FROM:
            return
        position = order[len(order) // 2]
        if before is None or position > before:
            # From here on nobody asks for what is below, whether the call is heard of or not.
            self._play.truncated_before = position
        self._cluster.apps[region].tell("truncate", position=str(position))

    async def finish(self, one: AppProgram, what: str, errand: str, **arguments: object) -> None:
        """Has an application do an errand, to its end. Raises NotAliveError."""
        fault = await self._answer(one, one.tell(errand, **arguments))
        if fault != "":
            raise NotAliveError(f"{what} in {one.region}: {fault or 'did not end'}")

    async def _answer(self, one: AppProgram, errand: int) -> str | None:
        """What was wrong with it, "" if nothing; None: it did not end in time."""
        deadline = time.monotonic() + ERRAND_S_MAX
        answer = one.answer(errand)
        while answer is None and time.monotonic() < deadline and one.program.is_running:
            await asyncio.sleep(_LOOK_S)
            answer = one.answer(errand)
        return answer


def behind(last: Dlsn) -> str:
    """Behind the entry of a position."""
    return f"{last.lssn}:{last.entry_id + 1}:0"


def text_of(position: Dlsn | None) -> str | None:
    """A position as applications are told it."""
    return None if position is None else str(position)
