"""Rhumbline's bookies in a BookKeeper cluster on ZooKeeper, for tests of Apache's programs."""

import asyncio
import subprocess
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self, TypeVar

from rhumbline.chaos.managed_process import bare_environment, rhumbline_command
from rhumbline.chaos.server_processes import BookieProcess
from rhumbline.client.connect import Client
from rhumbline.tests.support.servers.metadata_servers import ZooKeeper, started

T = TypeVar("T")


class BookiesOnZooKeeper:
    """Bookie processes, one for each of ``regions``, with a ZooKeeper of their own.

    As a context manager they run within the block.
    """

    def __init__(self, root: Path, regions: Sequence[str]) -> None:
        self.zookeeper = started(ZooKeeper)
        self.zookeeper.start()
        self.uri = f"zk://{self.zookeeper.address}"
        self.rhumbline("cluster", "init")
        self._region = regions[0]
        self.bookies = [self._start(root / f"b{n}", f"b{n}", r) for n, r in enumerate(regions)]

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    def rhumbline(self, *arguments: str) -> str:
        """Run a command of ``rhumbline`` on the cluster and return what it prints."""
        command = rhumbline_command(*arguments, "-u", self.uri)
        done = subprocess.run(
            command, timeout=120, capture_output=True, text=True, env=bare_environment()
        )
        assert done.returncode == 0, f"{arguments}: {done.stdout} {done.stderr}"
        return done.stdout

    def _start(self, directory: Path, name: str, region: str) -> BookieProcess:
        directory.mkdir()
        self.rhumbline("bookie", "format", str(directory), "--name", name, "--region", region)
        process = BookieProcess(directory, self.uri, "--region", region)
        process.start()
        return process

    def stop(self) -> None:
        """Kill the bookies and remove ZooKeeper. Safe to repeat."""
        for bookie in self.bookies:
            bookie.kill()
        self.zookeeper.remove()

    def run(self, work: Callable[[Client], Awaitable[T]]) -> T:
        """Run ``work`` with a client in the region of the first bookie and return its result."""

        async def main() -> T:
            async with Client(self.uri, region=self._region) as client:
                return await work(client)

        return asyncio.run(main())
