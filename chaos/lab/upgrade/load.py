"""An application of either version that appends numbers, each after the one before."""

import time
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

from ....core.protocol.errors import UnavailableError
from ...managed_process import ManagedProcess
from .program_version import ProgramVersion

RESTART = "application"
"""The beginning of the names of steps that restart an application."""

_LOAD = """
import asyncio, signal, sys, time
import rhumbline

async def main(uri, region, stream, number):
    stopping = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stopping.set)
    where = {} if uri.startswith("grpc") else {"region": region}
    async with rhumbline.connect(uri, **where) as client:
        async with client.writer(stream) as writer:
            print("appends", flush=True)
            while not stopping.is_set():
                await writer.append(b"%d" % number)
                print(number, time.time(), flush=True)
                number += 1
                await asyncio.sleep(0.005)

asyncio.run(main(*sys.argv[1:4], int(sys.argv[4])))
"""


class Acknowledged(NamedTuple):
    """The acknowledgement of a number."""

    number: int
    time_s: float


class AppendGap(NamedTuple):
    """The longest time without an acknowledgement, and the step in which it ended."""

    ms: float
    step: str


class NumberLoad(ManagedProcess):
    """Appends numbers to one stream until it is stopped; a later start continues."""

    def __init__(
        self, folder: Path, version: ProgramVersion, uri: str, region: str, stream: str
    ) -> None:
        super().__init__(
            f"load-{stream}", [], folder / f"load-{stream}.log", ready="^appends$", cwd=folder
        )
        self.stream = stream
        self.version = version
        self._uri, self._region = uri, region

    def launch(self) -> None:
        """Start the process without waiting until it appends."""
        after = self.acknowledged()
        first = after[-1].number + 1 if after else 0
        self.command = self.version.script(_LOAD, self._uri, self._region, self.stream, str(first))
        super().launch()

    def acknowledged(self) -> list[Acknowledged]:
        """Return all acknowledgements since the first start."""
        if not self.log.exists():
            return []
        rows = (line.split() for line in self.log.read_text(errors="replace").splitlines())
        return [
            Acknowledged(int(row[0]), float(row[1]))
            for row in rows
            if len(row) == 2 and row[0].isdigit()
        ]

    def check_running(self) -> None:
        """Raise UnavailableError with the end of the log if the process ended."""
        if not self.is_running:
            raise UnavailableError(f"{self.name} ended: {self.exit_code}\n{self.end_of_log()}")


class StepLog:
    """The names of steps with the times at which they began."""

    def __init__(self) -> None:
        self.steps: list[tuple[float, str]] = []

    def begin(self, step: str) -> None:
        """Note the begin of a step."""
        self.steps.append((time.time(), step))

    def step_at(self, time_s: float) -> str:
        """Return the step at a time."""
        return next((step for begun, step in reversed(self.steps) if begun <= time_s), "start")


def longest_gap(
    acknowledged: list[Acknowledged], steps: StepLog, *, of_restarts: bool
) -> AppendGap:
    """Return the longest gap in steps that restart the application itself, or in the others."""
    gaps = [
        AppendGap((after.time_s - before.time_s) * 1000, steps.step_at(after.time_s))
        for before, after in pairwise(acknowledged)
    ]
    found = [gap for gap in gaps if gap.step.startswith(RESTART) == of_restarts]
    return max(found, default=AppendGap(0.0, "none"))
