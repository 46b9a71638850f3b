"""The run of the simulator that the console has: one process at a time, with limits (CON-16)."""

import asyncio
import json
import tempfile
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from enum import Enum
from pathlib import Path
from typing import Any

from ....core.protocol.errors import RhumblineError, UnavailableError
from ....core.protocol.installation import lab_module
from ....core.runtime.tasks import Tasks, wait_until_done

RUN_S_MAX = 240.0
"""Time after which a run is ended, in seconds."""
_OUTPUT_BYTES_MAX = 32 << 20


class RunState(Enum):
    """The state of the console's run."""

    NONE = "none"
    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"
    CANCELLED = "cancelled"


class _RunFailedError(Exception):
    """The process did not print a replay."""


class ChaosRun:
    """Starts the simulator in a process, and keeps the replay that it printed last."""

    def __init__(self) -> None:
        self.number = 0
        """Number of runs that were started."""
        self.replay: bytes | None = None
        """The replay of the run ``number`` as JSON, if the run is done."""
        self._state = RunState.NONE
        self._wanted: dict[str, Any] = {}
        self._error = ""
        self._seed: int | None = None
        self._began_at = 0.0
        self._tasks = Tasks(lambda error: self._fail(f"{type(error).__name__}: {error}"))
        self._task: asyncio.Task[None] | None = None

    def start(self, kind: str, name: str, seed: int) -> None:
        """Start a run. Raises UnavailableError until the process of the last one has ended."""
        if self._task is not None and not self._task.done():
            raise UnavailableError("another run of the simulator is in progress")
        self.number += 1
        self.replay = None
        self._state = RunState.RUNNING
        self._wanted = {"kind": kind, "name": name, "seed": seed}
        self._error, self._seed = "", None
        self._began_at = asyncio.get_running_loop().time()
        self._task = self._tasks.spawn(self._run(kind, name, seed), "run the simulator")

    def cancel(self) -> None:
        """End the run that is in progress, if there is one."""
        if self._task is not None and self._state is RunState.RUNNING:
            self._state = RunState.CANCELLED
            self._task.cancel()

    async def aclose(self) -> None:
        """End the run that is in progress, and wait for its process. Safe to repeat."""
        self.cancel()
        if self._task is not None:
            await wait_until_done(self._task)
        await self._tasks.aclose()

    def status(self) -> dict[str, Any]:
        """Return the state of the run as a document."""
        found: dict[str, Any] = {"number": self.number, "state": self._state.value, **self._wanted}
        if self._state is RunState.RUNNING:
            found["seconds"] = round(asyncio.get_running_loop().time() - self._began_at, 1)
            found["seed_now"] = self._seed
        if self._error:
            found["error"] = self._error
        return found

    async def _run(self, kind: str, name: str, seed: int) -> None:
        try:
            async with asyncio.timeout(RUN_S_MAX):
                self.replay = await self._play(kind, name, seed)
            self._state = RunState.DONE
        except TimeoutError:
            self._fail(f"the run was ended after {RUN_S_MAX:.0f} s")
        except (_RunFailedError, RhumblineError, OSError) as error:
            self._fail(str(error))

    def _fail(self, error: str) -> None:
        self._state, self._error = RunState.FAILED, error

    async def _play(self, kind: str, name: str, seed: int) -> bytes:
        """Run the process in an empty folder, and return the replay that it prints."""
        replay = lab_module("chaos.lab.replay.replay_program")
        with tempfile.TemporaryDirectory(prefix="rhumbline-console-") as folder:
            order = replay.ReplayOrder(kind, name, seed)
            making = asyncio.ensure_future(
                asyncio.to_thread(replay.replay_program, order, Path(folder))
            )
            try:
                program = await asyncio.shield(making)
            finally:
                await wait_until_done(making)  # it writes into the folder
            async with _started(program.command, program.environment, folder) as process:
                found = await self._read(process)
                code = await process.wait()
        if found is None:
            raise _RunFailedError(f"the simulator ended with code {code} and without a replay")
        return found

    async def _read(self, process: Process) -> bytes | None:
        """Read lines until the one with the replay."""
        assert process.stdout is not None
        while True:
            try:
                line = await process.stdout.readline()
            except ValueError as error:
                bound = f"{_OUTPUT_BYTES_MAX} bytes"
                raise _RunFailedError(f"the replay is longer than {bound}") from error
            if not line:
                return None
            found = await asyncio.to_thread(_decoded, line)
            if "replay" in found:
                return line.strip()
            if "error" in found:
                raise _RunFailedError(str(found["error"]))
            self._seed = found.get("seed")


def _decoded(line: bytes) -> dict[str, Any]:
    try:
        found = json.loads(line)
    except ValueError as error:
        raise _RunFailedError(f"the simulator printed {line[:80]!r}") from error
    if not isinstance(found, dict):
        raise _RunFailedError(f"the simulator printed {line[:80]!r}")
    return found


@asynccontextmanager
async def _started(
    command: list[str], environment: dict[str, str], folder: str
) -> AsyncIterator[Process]:
    """Start a process, and kill it when the block ends."""
    process = await asyncio.create_subprocess_exec(
        *command,
        cwd=folder,
        env=environment,
        stdin=DEVNULL,
        stdout=PIPE,
        stderr=DEVNULL,
        limit=_OUTPUT_BYTES_MAX,
    )
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()
