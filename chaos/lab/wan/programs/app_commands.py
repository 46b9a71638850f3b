"""Sends commands to applications: catch-up reads, truncation, the final writes and reads."""

import asyncio
import time
from collections.abc import Callable

from .....core.protocol.dlsn import Dlsn
from ...played_scenario import PlayedScenario
from ..cluster import WanCluster
from ..members import AppProgram

COMMAND_S_MAX = 60.0
_POLL_S = 0.1
_RECORDS_MIN = 10
"""The stream is truncated only if more records than this are acknowledged."""


class NoProgressError(Exception):
    """An operation that must succeed after the faults failed or did not finish."""


class AppCommands:
    """Sends commands to applications and records their results in ``play``."""

    def __init__(
        self, cluster: WanCluster, play: PlayedScenario, note: Callable[[str, str], None]
    ) -> None:
        self.tasks: list[asyncio.Task[None]] = []
        self._cluster = cluster
        self._play = play
        self._note = note

    def acked(self) -> list[Dlsn]:
        """Return all positions acknowledged so far, in order."""
        positions = []
        for app in self._cluster.apps.values():
            app.read_events()
            positions += [
                Dlsn.parse(event[5])
                for event in app.events
                if event[0] == "end" and event[4] == "ok"
            ]
        return sorted(positions)

    async def catch_up(self, number: int) -> None:
        """Start a catch-up reader that reads from the start to the last acknowledged record."""
        apps = [app for app in self._cluster.apps.values() if app.program.is_running]
        expected = self.acked()
        if not apps or not expected:
            return
        app = apps[number % len(apps)]
        name = f"catch-up {number} {app.name}"
        start = format_position(self._play.truncated_before)
        command = app.send_command("read", name=name, start=start, until=after_entry(expected[-1]))
        self.tasks.append(asyncio.create_task(self._check_catch_up(app, command, name, expected)))

    async def _check_catch_up(
        self, app: AppProgram, command: int, name: str, expected: list[Dlsn]
    ) -> None:
        error = await self._await_reply(app, command)
        if error != "":
            self._note(app.name, f"{name}: {error or 'did not finish'}")
            return
        reads = {event[2] for event in app.events if event[0] == "read" and event[3] == name}
        delivered = {
            Dlsn.parse(dlsn)
            for event in app.events
            if event[0] == "got" and event[2] in reads
            for dlsn, _ in event[3]
        }
        first = self._play.truncated_before or Dlsn(0, 0, 0)
        self._play.caught_up[name] = all(dlsn in delivered or dlsn < first for dlsn in expected)

    async def truncate(self, region: str) -> None:
        """Have the application of a region truncate the older half of the acknowledged records."""
        acked, before = self.acked(), self._play.truncated_before
        if len(acked) <= _RECORDS_MIN:
            return
        position = acked[len(acked) // 2]
        if before is None or position > before:
            # Readers start at the new position from now on, whatever the outcome of the command.
            self._play.truncated_before = position
        self._cluster.apps[region].send_command("truncate", position=str(position))

    async def finish(self, app: AppProgram, label: str, command: str, **arguments: object) -> None:
        """Send a command and wait until it succeeds. Raises NoProgressError."""
        error = await self._await_reply(app, app.send_command(command, **arguments))
        if error != "":
            raise NoProgressError(f"{label} in {app.region}: {error or 'did not finish'}")

    async def _await_reply(self, app: AppProgram, command: int) -> str | None:
        """Return the error of a command, "" if it succeeded, None if it did not finish in time."""
        deadline = time.monotonic() + COMMAND_S_MAX
        reply = app.reply_to(command)
        while reply is None and time.monotonic() < deadline and app.program.is_running:
            await asyncio.sleep(_POLL_S)
            reply = app.reply_to(command)
        return reply


def after_entry(last: Dlsn) -> str:
    """Return the position just after the entry of ``last``, as a string."""
    return f"{last.lssn}:{last.entry_id + 1}:0"


def format_position(position: Dlsn | None) -> str | None:
    """Return a position as a string for a command's arguments."""
    return None if position is None else str(position)
