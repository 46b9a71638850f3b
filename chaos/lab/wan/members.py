"""The bookies and applications of the lab: their processes, files and commands."""

import asyncio
import json
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ....core.bookie.config import MIB
from ...managed_process import python_command
from ..ports import free_port
from ..scenario import Scenario, app_name, region_of
from .processes import Program
from .programs import app, bookie

_FULL_DISK_BYTES = 96 * MIB
_READ_ONLY_BELOW_BYTES = 4 * MIB


@dataclass(frozen=True, slots=True)
class Incarnation:
    """One incarnation of a bookie's storage, with its id and its log of durable records."""

    bookie_id: str
    region: str
    notes: Path


class BookieProgram:
    """A bookie process with its disk and all bookie ids that it has had."""

    def __init__(self, name: str, folder: Path, metadata: str, number: int) -> None:
        self.name = name
        self.region = region_of(name)
        self.directory = folder / name
        self.port = free_port()
        self.addresses: dict[str, str] = {}
        self.incarnations: list[Incarnation] = []
        self.lost: list[str] = []
        """Bookie ids whose data a fault destroyed."""
        self.has_small_disk = False
        """True if its disk is a separate small file system, which can be filled."""
        self._metadata = metadata
        self._rack = f"r{number}"
        self._generation = 0
        self._read_only_below_bytes = _READ_ONLY_BELOW_BYTES
        log = folder / f"{name}.log"
        self.program = Program(name, self.region, [], log, ready=f"^{bookie.READY}")

    def launch(self) -> None:
        """Start the process."""
        self.directory.mkdir(exist_ok=True)
        config = {
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
        self.program.command = python_command("chaos.lab.wan.programs.bookie", json.dumps(config))
        self.program.launch()

    async def wait_ready(self) -> None:
        """Wait until the bookie serves, and read its id from the log. Raises UnavailableError."""
        await asyncio.to_thread(self.program.wait_ready)
        bookie_id = self.program.find(f"^{bookie.READY}(.*)$")
        assert bookie_id is not None
        incarnation = Incarnation(bookie_id, self.region, self.notes)
        if incarnation not in self.incarnations:
            self.incarnations.append(incarnation)

    @property
    def bookie_id(self) -> str:
        """The current bookie id."""
        return self.incarnations[-1].bookie_id

    def wipe(self) -> None:
        """Kill the process and delete all files on its disk."""
        self.program.kill()
        self.lost.append(self.bookie_id)
        self._generation += 1
        for path in self.directory.iterdir():
            shutil.rmtree(path) if path.is_dir() else path.unlink()

    def mount_small_disk(self) -> None:
        """Mount a small tmpfs as the disk, if this process has the right to mount."""
        self.directory.mkdir(exist_ok=True)
        size = f"size={_FULL_DISK_BYTES}"
        command = ["mount", "-t", "tmpfs", "-o", size, "tmpfs", str(self.directory)]
        try:
            done = subprocess.run(command, capture_output=True, timeout=10, check=False)
        except OSError:
            return
        self.has_small_disk = done.returncode == 0

    def fill_disk(self, left_bytes: int) -> None:
        """Fill a small disk until ``left_bytes`` are free."""
        room = shutil.disk_usage(self.directory).free - left_bytes
        with (self.directory.parent / f"{self.name}.log").open("ab") as log:
            log.write(b"the lab fills the disk\n")
        with (self.directory / "filler").open("wb") as filler:
            while room > 0:
                filler.write(bytes(min(room, MIB)))
                room -= MIB

    def free_disk(self) -> None:
        """Delete the file that fills the disk. Safe to repeat."""
        (self.directory / "filler").unlink(missing_ok=True)

    def set_disk_full(self, is_full: bool) -> None:
        """Make the disk count as full from the next start on, by a setting."""
        self._read_only_below_bytes = 1 << 60 if is_full else _READ_ONLY_BELOW_BYTES

    def remove(self) -> None:
        """Kill the process and unmount its small disk. Safe to repeat."""
        self.program.kill()
        if self.has_small_disk:
            command = ["umount", "-l", str(self.directory)]
            subprocess.run(command, capture_output=True, timeout=10, check=False)

    @property
    def notes(self) -> Path:
        """The file in which the disk logs the records that became durable."""
        return self.directory.parent / f"{self.name}.{self._generation}.durable"


class AppProgram:
    """An application process, with the commands sent to it and the events it recorded."""

    def __init__(self, region: str, folder: Path, scenario: Scenario, metadata: str) -> None:
        self.name = app_name(region)
        self.region = region
        self.notes = folder / f"{self.name}.notes"
        self.events: list[list[Any]] = []
        self.sessions: list[int] = []
        """First session number of each start of the process."""
        self.proxies = ""
        self._offset = 0
        self._partial_line = b""
        self._commands = 0
        self._scenario = scenario
        self._metadata = metadata
        log = folder / f"{self.name}.log"
        self.program = Program(self.name, region, [], log, ready=app.READY, has_input=True)

    def launch(self, first_session: int) -> None:
        """Start the process."""
        work = self._scenario.workload
        self.sessions.append(first_session)
        config = {
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
        self.program.command = python_command("chaos.lab.wan.programs.app", json.dumps(config))
        self.program.launch()

    def send_command(self, command: str, **arguments: object) -> int:
        """Send a command to the process and return its number, for ``reply_to``."""
        self._commands += 1
        line = {"do": command, "id": self._commands, **arguments}
        if self.program.is_running:
            self.program.write_line(json.dumps(line).encode())
        return self._commands

    def read_events(self) -> list[list[Any]]:
        """Read the events recorded since the last call, add them to ``events`` and return them."""
        if not self.notes.exists():
            return []
        with self.notes.open("rb") as file:
            file.seek(self._offset)
            data = self._partial_line + file.read()
            self._offset = file.tell()
        *lines, self._partial_line = data.split(b"\n")
        new_events = [json.loads(line) for line in lines]
        self.events += new_events
        return new_events

    def reply_to(self, command: int) -> str | None:
        """Return the error of a command, "" if it succeeded, None if it is not done."""
        self.read_events()
        for event in reversed(self.events):
            if event[0] == "reply" and event[2] == command:
                return str(event[3])
        return None
