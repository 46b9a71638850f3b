"""A stranger attacks every port of a local cluster while an application appends.

The application appends one record after the other, through a proxy and directly, and each append
is timed: before the attack, while the attacker only holds connections, and while it sends messages.
"""

import asyncio
import json
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack, ExitStack
from dataclasses import dataclass, field
from pathlib import Path

from ....client.connect import connect
from ....core.log.api.log_writer import LogWriter
from ....core.runtime.tasks import Tasks
from ...local_server import LocalServer
from ...managed_process import ManagedProcess, python_command
from .messages import BOOKIE, PROXY, STATUS

STREAMS = (PROXIED, DIRECT) = ("proxied", "direct")
_APPENDS = 200
_PAUSE_S = 0.005
_FACTOR_MAX = 2.0


@dataclass
class Phase:
    """The durations of appends in one phase, by stream, in ms."""

    name: str
    ms: dict[str, list[float]] = field(default_factory=lambda: {name: [] for name in STREAMS})

    def quantile(self, stream: str, part: float) -> float:
        """Return a quantile of the durations."""
        ordered = sorted(self.ms[stream])
        return ordered[min(len(ordered) - 1, int(part * len(ordered)))]


@dataclass
class SiegeResult:
    """The outcome of an attack."""

    phases: list[Phase]
    counts: dict[str, int]

    def slowdown(self, stream: str) -> float:
        """Return how many times longer than before the median append takes at worst."""
        before, *during = self.phases
        worst = max(phase.quantile(stream, 0.5) for phase in during)
        return worst / before.quantile(stream, 0.5)

    @property
    def is_within_bound(self) -> bool:
        """True if the median append never took more than twice as long as before."""
        return all(self.slowdown(stream) <= _FACTOR_MAX for stream in STREAMS)

    def lines(self) -> list[str]:
        """Return the outcome for people."""
        return [
            *(f"{name}: {count}" for name, count in sorted(self.counts.items())),
            *(
                f"{stream:8} {phase.name:7} {len(phase.ms[stream]):6} appends, median "
                f"{phase.quantile(stream, 0.5):7.2f} ms, p99 {phase.quantile(stream, 0.99):7.2f} ms"
                for stream in STREAMS
                for phase in self.phases
            ),
            *(f"{stream}: slower by a factor of {self.slowdown(stream):.2f}" for stream in STREAMS),
        ]


class Siege:
    """One attack on one cluster."""

    def __init__(self, folder: Path, *, tls: bool, connections: int, frames: int) -> None:
        self._folder = folder
        self._server = LocalServer(folder / "server", tls=tls)
        self._connections = connections
        self._frames = frames
        self._phase = Phase("before")
        self._failures: list[BaseException] = []

    def run(self) -> SiegeResult:
        """Run it. Raises UnavailableError if a process fails, and the error of a failed append."""
        with ExitStack() as closing:
            closing.enter_context(self._server)
            return asyncio.run(self._run())

    async def _run(self) -> SiegeResult:
        server = self._server
        tls = server.client_tls("victim", "admin")
        async with AsyncExitStack() as closing:
            proxied = await closing.enter_async_context(connect(server.uri, tls=tls))
            direct = await closing.enter_async_context(
                connect(server.metadata_uri, region="local", tls=tls)
            )
            for stream in STREAMS:
                await proxied.namespace().create_stream(stream)
            tasks = Tasks(on_failure=self._failures.append)
            for stream, client in ((PROXIED, proxied), (DIRECT, direct)):
                writer = await closing.enter_async_context(client.writer(stream))
                tasks.spawn(self._append(stream, writer), stream)
            closing.push_async_callback(tasks.aclose)
            phases = [await self._measured("before", self._until_enough)]
            attacker = ManagedProcess(
                "attacker",
                python_command(
                    "chaos.lab.hostile.attacker", *server_ports(server),
                    "--connections", str(self._connections), "--frames", str(self._frames),
                ),
                self._folder / "attacker.log",
                has_input=True,
                has_output=True,
            )  # fmt: skip
            closing.push_async_callback(asyncio.to_thread, attacker.kill)
            await asyncio.to_thread(attacker.launch)
            await asyncio.to_thread(attacker.read_line)
            phases.append(await self._measured("idle", self._until_enough))
            attacker.write_line(b"flood")
            counts: dict[str, int] = {}

            async def flood() -> None:
                counts.update(json.loads(await asyncio.to_thread(attacker.read_line)))

            phases.append(await self._measured("flood", flood))
            attacker.write_line(b"end")
            return SiegeResult(phases, counts)

    async def _measured(self, name: str, work: Callable[[], Awaitable[None]]) -> Phase:
        phase = self._phase = Phase(name)
        await work()
        await self._until_enough()
        return phase

    async def _until_enough(self) -> None:
        while min(map(len, self._phase.ms.values())) < _APPENDS:
            if self._failures:
                raise self._failures[0]
            await asyncio.sleep(_PAUSE_S)

    async def _append(self, stream: str, writer: LogWriter) -> None:
        now = asyncio.get_running_loop().time
        while True:
            phase, began = self._phase, now()
            await writer.append(b"one record of somebody else")
            phase.ms[stream].append((now() - began) * 1000)
            await asyncio.sleep(_PAUSE_S)


def server_ports(server: LocalServer) -> list[str]:
    """Return the ports of a server as the attacker's arguments."""
    kinds = {"bookie": BOOKIE, "proxy": PROXY, "status": STATUS}
    return [f"{kinds[kind]}:{port}" for kind, ports in server.ports.items() for port in ports[:1]]
