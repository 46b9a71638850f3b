"""The processes of a scenario, and the links between their regions."""

import asyncio
import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ....backends.open import open_store
from ....client.host import system_runtime
from ....core.bookie.config import MIB
from ....core.log.namespace import create_namespace
from ....core.log.stream_store import StreamStore
from ....core.metadata.layout import initialise_cluster
from ....core.runtime.metadata_store import MetadataStore
from .. import settings
from ..scenario import ETCD, Scenario, app_name, bookie_name, region_of
from . import app, bookie
from .etcd import Member, etcd_binary
from .programs import Program, free_port, python, rhumbline
from .toxiproxy import Link, Toxiproxy, toxiproxy_binary

SERVERS = Path.home() / ".cache" / "rhumbline" / "servers"
"""Where servers are looked for that are not in PATH."""

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
        self.program.command = python("chaos.lab.wan.bookie", json.dumps(told))
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
        self.program.command = python("chaos.lab.wan.app", json.dumps(told))
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


class WanCluster:
    """Everything that runs. ``folder`` is the lab's own and is left behind."""

    def __init__(self, scenario: Scenario, folder: Path, servers: Path = SERVERS) -> None:
        self.scenario = scenario
        self.folder = folder
        self.toxiproxy = Toxiproxy(toxiproxy_binary(servers), folder)
        self.members: list[Member] = []
        if scenario.topology.metadata == ETCD:
            binary = etcd_binary(servers)
            self.members = [Member(region, binary, folder) for region in scenario.topology.members]
        self.bookies: list[BookieProgram] = []
        self.apps: dict[str, AppProgram] = {}
        self.others: list[Program] = []
        """Repair, archiver, proxies."""
        self.cold = folder / "cold"
        self._uris: dict[str, str] = {}
        self._app_starts = 0
        self._proxies: dict[str, dict[str, str]] = {}
        """Of a proxy's region: its address by viewer."""
        self._is_far = self._is_linked = True

    # --- start and end --------------------------------------------------------------------------

    async def start(self) -> None:
        """Starts everything and waits until it serves. Raises UnavailableError, and
        ConfigurationError when a server is not on this machine."""
        await self.toxiproxy.start()
        await self._start_metadata()
        await self._start_bookies()
        if self.scenario.workload.through_proxies:
            await self._start_proxies()
        self._make_helpers()
        for program in self.others:
            if not program.is_running:
                program.launch()
        for region in self.scenario.topology.regions:
            self.apps[region] = AppProgram(region, self.folder, self.scenario, self._uris[region])
            if self.scenario.workload.through_proxies:
                self.apps[region].proxies = self._proxies_of(region)
            self.launch_app(region)
        for one in self.apps.values():
            await one.program.wait_ready()

    async def start_bare(self, *, is_linked: bool) -> None:
        """Only bookies with a stream, and no distance: links without any toxic, or no links."""
        self._is_far, self._is_linked = False, is_linked
        await self.toxiproxy.start()
        await self._start_metadata()
        await self._start_bookies()

    def uri(self, region: str) -> str:
        """Of the metadata store, for who is in a region."""
        return self._uris[region]

    def launch_app(self, region: str) -> None:
        """Starts the application of a region in a new process."""
        self._app_starts += 1
        self.apps[region].launch(self._app_starts * app.SESSIONS_MAX)

    async def open_store(self) -> MetadataStore:
        """A handle of the lab's own, which is never cut off."""
        addresses = ",".join(f"127.0.0.1:{one.port}" for one in self.members)
        uri = f"etcd://{addresses}/lab" if self.members else self._file_uri()
        return await open_store(uri, timeout_ms=3_000)

    def aclose(self) -> None:
        """Kills everything. Safe to repeat."""
        for one in self.bookies:
            one.remove()
        for program in self.programs():
            program.kill()
        self.toxiproxy.program.kill()

    def programs(self) -> Iterator[Program]:
        """All but toxiproxy."""
        yield from (one.program for one in self.members)
        yield from (one.program for one in self.bookies)
        yield from self.others
        yield from (one.program for one in self.apps.values())

    def bookie(self, name: str) -> BookieProgram:
        """By name."""
        return next(one for one in self.bookies if one.name == name)

    def _file_uri(self) -> str:
        return f"sqlite://{self.folder}/metadata.db"

    async def _start_metadata(self) -> None:
        regions = self.scenario.topology.regions
        for member in self.members:
            link = await self.toxiproxy.link("*", member.name, member.region, member.peer_port)
            await self._make_far(link)
            member.peer_address = link.address
        for member in self.members:
            member.join(self.members)
            member.program.launch()
        for member in self.members:
            await member.wait_ready()
        for region in regions:
            addresses = []  # that of the own region first: it is the one that is asked
            for member in sorted(self.members, key=lambda one: one.region != region):
                if member.region == region:
                    addresses.append(f"127.0.0.1:{member.port}")
                else:
                    name = f"{member.name}-client"
                    link = await self.toxiproxy.link(region, name, member.region, member.port)
                    await self._make_far(link)
                    addresses.append(link.address)
            self._uris[region] = (
                f"etcd://{','.join(addresses)}/lab" if self.members else self._file_uri()
            )
        store = await self.open_store()
        try:
            runtime = system_runtime()
            await initialise_cluster(store, runtime.random)
            await create_namespace(store, runtime, app.NAMESPACE, settings.policy_of(self.scenario))
        finally:
            await store.close()

    async def _start_bookies(self) -> None:
        topology = self.scenario.topology
        full = {one.target for one in self.scenario.fault if one.kind == "full-disk"}
        for region in topology.regions:
            for number in range(topology.bookies):
                name = bookie_name(region, number)
                one = BookieProgram(name, self.folder, self._uris[region], number)
                self.bookies.append(one)
                for viewer in topology.regions:
                    if viewer != region and self._is_linked:
                        link = await self.toxiproxy.link(viewer, name, region, one.port)
                        await self._make_far(link)
                        one.addresses[viewer] = link.address
                if name in full:
                    one.make_small()
                one.launch()
        for one in self.bookies:
            await one.wait_ready()
        await self._create_stream()

    async def _create_stream(self) -> None:
        from ....client.connect import Client

        store = await self.open_store()
        region = self.scenario.topology.regions[0]
        try:
            async with Client("", namespace=app.NAMESPACE, region=region, store=store) as client:
                await client.namespace().create_stream(app.STREAM)
        finally:
            await store.close()

    def _make_helpers(self) -> None:
        work, regions = self.scenario.workload, self.scenario.topology.regions
        for region in regions if work.repairs else ():
            command = rhumbline(
                "repair", "run", "-u", self._uris[region], "-n", app.NAMESPACE, "--region", region,
                "--lost-after", f"{settings.REPAIR.lost_after_ms}ms",
                "--audit-interval", f"{settings.REPAIR.audit_interval_ms}ms",
            )  # fmt: skip
            self._add(f"repair-{region}", region, command)
        if work.archives:
            self.cold.mkdir()
            region = regions[-1]
            command = rhumbline(
                "archive", "serve", "-u", self._uris[region], "-n", app.NAMESPACE,
                "--region", region, "--cold", self.cold.as_uri(),
                "--every", f"{settings.ARCHIVE_PAUSE_MS}ms",
            )  # fmt: skip
            self._add("archiver", region, command)

    def _add(self, name: str, region: str, command: list[str], ready: str = "") -> Program:
        program = Program(name, region, command, self.folder / f"{name}.log", ready=ready)
        self.others.append(program)
        return program

    async def _start_proxies(self) -> None:
        """A proxy advertises one address to all: a link of the viewer "*", whose delay is the mean
        of its region's ways. The first connection of an application in its region is direct."""
        for region in self.scenario.topology.regions:
            name, port = f"proxy-{region}", free_port()
            link = await self.toxiproxy.link("*", name, region, port)
            await self._make_far(link)
            command = rhumbline(
                "write-proxy", "--with-read", "--port", str(port), "-u", self._uris[region],
                "-n", app.NAMESPACE, "--region", region, "--advertise", link.address,
            )  # fmt: skip
            self._add(name, region, command, "proxy serves at").launch()
            self._proxies[region] = {region: f"127.0.0.1:{port}"}
            for viewer in self.scenario.topology.regions:
                if viewer != region:
                    far = await self.toxiproxy.link(viewer, f"{name}-client", region, port)
                    await self._make_far(far)
                    self._proxies[region][viewer] = far.address
        for program in self.others:
            await program.wait_ready()

    def _proxies_of(self, region: str) -> str:
        """The proxies as a region reaches them, its own first."""
        ordered = sorted(self._proxies, key=lambda one: one != region)
        return "grpc://" + ",".join(self._proxies[one][region] for one in ordered)

    async def _make_far(self, link: Link) -> None:
        """Distance by the ways of the scenario; to a viewer "*" the mean of all ways."""
        if not self._is_far:
            return
        others = [one for one in self.scenario.topology.regions if one != link.server_region]
        viewers = others if link.viewer == "*" else [link.viewer]
        ways = [self.scenario.way(viewer, link.server_region) for viewer in viewers]
        await self.toxiproxy.make_far(
            link,
            rtt_ms=sum(way.rtt_ms for way in ways) / len(ways),
            jitter_ms=sum(way.jitter_ms for way in ways) / len(ways),
            kib_per_s=min(way.kib_per_s for way in ways),
        )

    # --- what is stored -------------------------------------------------------------------------

    def streams(self, store: MetadataStore) -> StreamStore:
        """The namespace's metadata."""
        return StreamStore(store, app.NAMESPACE)

    async def leader(self) -> str:
        """The region of the metadata ensemble's leader; of the first member if nobody leads."""
        for member in self.members:
            if await asyncio.to_thread(member.is_leader):
                return member.region
        return self.scenario.topology.members[0]
