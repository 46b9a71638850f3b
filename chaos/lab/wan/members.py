"""One bookie and one application of the lab: their processes, what they note, what can be done."""

import json
import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ....core.bookie.config import MIB
from ..ports import free_port
from ..scenario import Scenario, app_name, region_of
from .processes import Program, python
from .programs import app, bookie

_FULL_DISK_BYTES = 96 * MIB
_READ_ONLY_BELOW_BYTES = 4 * MIB


@dataclass(frozen=True, slots=True)
class Incarnation:
    """One life of a bookie's storage: its id, and what was durable there since when."""

    bookie_id: str
    region: str
    notes: Path


class BookieProgram:
    """A bookie: its process, its disk, and the ids it has had."""

    def __init__(self, name: str, folder: Path, metadata: str, number: int) -> None:
        self.name = name
        self.region = region_of(name)
        self.directory = folder / name
        self.port = free_port()
        self.addresses: dict[str, str] = {}
        self.incarnations: list[Incarnation] = []
        self.lost: list[str] = []
        """Ids whose data a fault destroyed."""
        self.is_small = False
        """Whether its disk is a small file system of its own, which can be filled."""
        self._metadata = metadata
        self._rack = f"r{number}"
        self._generation = 0
        self._read_only_below_bytes = _READ_ONLY_BELOW_BYTES
        log = folder / f"{name}.log"
        self.program = Program(name, self.region, [], log, ready=bookie.READY)

    def launch(self) -> None:
        """Starts its process."""
        self.directory.mkdir(exist_ok=True)
        told = {
            "directory": str(self.directory),
            "metadata": self._metadata,
            "name": self.name,
            "region": self.region,
            "rack": self._rack,
            "port": self.port,
            "addresses": self.addresses,
            "notes": str(self.notes),
            "read_only_below_bytes": self._read_only_below_bytes,
        }
        self.program.command = python("chaos.lab.wan.programs.bookie", json.dumps(told))
        self.program.launch()

    async def wait_ready(self) -> None:
        """Waits until it serves, and learns its id. Raises UnavailableError."""
        await self.program.wait_ready()
        for line in reversed(self.program.log.read_text(errors="replace").splitlines()):
            if line.startswith(bookie.READY):
                found = Incarnation(line.removeprefix(bookie.READY), self.region, self.notes)
                if found not in self.incarnations:
                    self.incarnations.append(found)
                return

    @property
    def bookie_id(self) -> str:
        """The id it has now."""
        return self.incarnations[-1].bookie_id

    def wipe(self) -> None:
        """Kills it and empties its disk."""
        self.program.kill()
        self.lost.append(self.bookie_id)
        self._generation += 1
        for path in self.directory.iterdir():
            shutil.rmtree(path) if path.is_dir() else path.unlink()

    def make_small(self) -> None:
        """Gives it a small disk, if this process may."""
        self.directory.mkdir(exist_ok=True)
        size = f"size={_FULL_DISK_BYTES}"
        command = ["mount", "-t", "tmpfs", "-o", size, "tmpfs", str(self.directory)]
        try:
            done = subprocess.run(command, capture_output=True, timeout=10, check=False)
        except OSError:
            return
        self.is_small = done.returncode == 0

    def fill(self, left_bytes: int) -> None:
        """Leaves so much room on a small disk."""
        room = shutil.disk_usage(self.directory).free - left_bytes
        with (self.directory.parent / f"{self.name}.log").open("ab") as log:
            log.write(b"the lab fills the disk\n")
        with (self.directory / "filler").open("wb") as filler:
            while room > 0:
                filler.write(bytes(min(room, MIB)))
                room -= MIB

    def unfill(self) -> None:
        """Takes the filler away. Safe to repeat."""
        (self.directory / "filler").unlink(missing_ok=True)

    def seem_full(self, is_full: bool) -> None:
        """A setting, at the next start: its disk counts as full, however much is free."""
        self._read_only_below_bytes = 1 << 60 if is_full else _READ_ONLY_BELOW_BYTES

    def remove(self) -> None:
        """Kills it, and unmounts its disk. Safe to repeat."""
        self.program.kill()
        if self.is_small:
            command = ["umount", "-l", str(self.directory)]
            subprocess.run(command, capture_output=True, timeout=10, check=False)

    @property
    def notes(self) -> Path:
        """Where its disk notes what is durable."""
        return self.directory.parent / f"{self.name}.{self._generation}.durable"


class AppProgram:
    """An application: its process, what it is told, what it saw."""

    def __init__(self, region: str, folder: Path, scenario: Scenario, metadata: str) -> None:
        self.name = app_name(region)
        self.region = region
        self.notes = folder / f"{self.name}.notes"
        self.events: list[list[Any]] = []
        self.sessions: list[int] = []
        """The first number of each of its processes' sessions."""
        self.proxies = ""
        self._read = 0
        self._rest = b""
        self._errands = 0
        self._scenario = scenario
        self._metadata = metadata
        self.program = Program(self.name, region, [], folder / f"{self.name}.log", ready=app.READY)

    def launch(self, first_session: int) -> None:
        """Starts its process."""
        work = self._scenario.workload
        self.sessions.append(first_session)
        told = {
            "name": self.name,
            "region": self.region,
            "metadata": self._metadata,
            "proxies": self.proxies,
            "notes": str(self.notes),
            "appends_per_s": work.appends_per_s,
            "tails": self.region in (work.tails or self._scenario.topology.regions),
            "first_session": first_session,
            "run": len(self.sessions),
        }
        self.program.command = python("chaos.lab.wan.programs.app", json.dumps(told))
        self.program.launch()

    def tell(self, errand: str, **arguments: object) -> int:
        """Tells it to do something; the number of the errand, for ``answer``."""
        self._errands += 1
        line = {"do": errand, "id": self._errands, **arguments}
        if self.program.is_running:
            os.write(self.program.stdin, json.dumps(line).encode() + b"\n")
        return self._errands

    def look(self) -> list[list[Any]]:
        """What it has seen since the last look."""
        if not self.notes.exists():
            return []
        with self.notes.open("rb") as file:
            file.seek(self._read)
            data = self._rest + file.read()
            self._read = file.tell()
        *lines, self._rest = data.split(b"\n")
        fresh = [json.loads(line) for line in lines]
        self.events += fresh
        return fresh

    def answer(self, errand: int) -> str | None:
        """What was wrong with an errand, "" if nothing; None: it isn't done."""
        self.look()
        for event in reversed(self.events):
            if event[0] == "reply" and event[2] == errand:
                return str(event[3])
        return None
