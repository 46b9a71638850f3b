"""The processes of a scenario and the toxiproxy links between their regions."""

import asyncio
from collections.abc import Iterator, Sequence
from pathlib import Path

from ....backends.open_store import open_store
from ....client.system_runtime import system_runtime
from ....core.log.metadata.stream_store import StreamStore
from ....core.log.namespace import create_namespace
from ....core.metadata.cluster_layout import initialise_cluster
from ....core.runtime.metadata_store import MetadataStore
from ...managed_process import rhumbline_command
from .. import product_settings
from ..ports import free_port
from ..scenario import ETCD, FDB, ZOOKEEPER, Scenario, bookie_name
from .members import AppProgram, BookieProgram
from .metadata.ensemble_member import EnsembleMember
from .metadata.etcd import EtcdMember, etcd_binary
from .metadata.fdb import FdbMember, fdb_programs
from .metadata.zookeeper import ZooKeeperMember, zookeeper_jars
from .processes import Program
from .programs import app
from .toxiproxy import Toxiproxy, ToxiproxyLink, toxiproxy_binary

SERVERS = Path.home() / ".cache" / "rhumbline" / "servers"
"""The folder to search for servers that are not in PATH."""


class WanCluster:
    """All processes of one run. Their files stay in ``folder`` after the run."""

    def __init__(self, scenario: Scenario, folder: Path, servers: Path = SERVERS) -> None:
        self.scenario = scenario
        self.folder = folder
        self.toxiproxy = Toxiproxy(toxiproxy_binary(servers), folder)
        self.members = _members(scenario, folder, servers)
        self.bookies: list[BookieProgram] = []
        self.apps: dict[str, AppProgram] = {}
        self.others: list[Program] = []
        """The repair, archiver and proxy processes."""
        self.cold = folder / "cold"
        self._uris: dict[str, str] = {}
        self._app_starts = 0
        self._proxies: dict[str, dict[str, str]] = {}
        """By proxy region: the proxy's address by the region of its client."""
        self._has_distance = self._is_linked = True

    # --- start and end ----------------------------------------------------------------------------

    async def start(self) -> None:
        """Start all processes and wait until they serve.

        Raises UnavailableError, and ConfigurationError if a server is not installed.
        """
        await self.toxiproxy.start()
        await self._start_metadata()
        await self._start_bookies()
        if self.scenario.workload.through_proxies:
            await self._start_proxies()
        self._add_services()
        for program in self.others:
            if not program.is_running:
                program.launch()
        for region in self.scenario.topology.regions:
            self.apps[region] = AppProgram(region, self.folder, self.scenario, self._uris[region])
            if self.scenario.workload.through_proxies:
                self.apps[region].proxies = self._proxies_of(region)
            self.launch_app(region)
        for app_program in self.apps.values():
            await asyncio.to_thread(app_program.program.wait_ready)

    async def start_bare(self, *, is_linked: bool) -> None:
        """Start only bookies and a stream, without delays: with plain links, or with no links."""
        self._has_distance, self._is_linked = False, is_linked
        await self.toxiproxy.start()
        await self._start_metadata()
        await self._start_bookies()

    def uri(self, region: str) -> str:
        """Return the metadata store's URI for processes in a region."""
        return self._uris[region]

    def launch_app(self, region: str) -> None:
        """Start the application of a region in a new process."""
        self._app_starts += 1
        self.apps[region].launch(self._app_starts * app.SESSIONS_MAX)

    async def open_store(self) -> MetadataStore:
        """Open the metadata store for the lab itself, over connections that no fault affects."""
        addresses = ",".join(f"127.0.0.1:{member.port}" for member in self.members)
        return await open_store(self._uri_of(addresses), timeout_ms=3_000)

    def aclose(self) -> None:
        """Kill all processes. Safe to repeat."""
        for bookie in self.bookies:
            bookie.remove()
        for program in self.programs():
            program.kill()
        self.toxiproxy.program.kill()

    def programs(self) -> Iterator[Program]:
        """Yield all programs except toxiproxy."""
        yield from (member.program for member in self.members)
        yield from (bookie.program for bookie in self.bookies)
        yield from self.others
        yield from (app_program.program for app_program in self.apps.values())

    def bookie(self, name: str) -> BookieProgram:
        """Return the bookie with a name."""
        return next(bookie for bookie in self.bookies if bookie.name == name)

    def _uri_of(self, addresses: str) -> str:
        if self.members:
            return self.members[0].uri(addresses)
        return f"sqlite://{self.folder}/metadata.db"

    async def _start_metadata(self) -> None:
        regions = self.scenario.topology.regions
        for member in self.members:
            if not member.has_peer_link:
                continue
            link = await self.toxiproxy.link("*", member.name, member.region, member.peer_port)
            await self._add_distance(link)
            member.peer_address = link.address
        for member in self.members:
            member.join(self.members)
            member.program.launch()
        for member in self.members:
            await asyncio.to_thread(member.program.wait_ready)
        for region in regions:
            addresses = []  # that of the own region first, because clients prefer it
            for member in sorted(self.members, key=lambda other: other.region != region):
                if member.region == region:
                    addresses.append(f"127.0.0.1:{member.port}")
                else:
                    name = f"{member.name}-client"
                    link = await self.toxiproxy.link(region, name, member.region, member.port)
                    await self._add_distance(link)
                    addresses.append(link.address)
            self._uris[region] = self._uri_of(",".join(addresses))
        store = await self.open_store()
        try:
            runtime = system_runtime()
            await initialise_cluster(store, runtime.random)
            await create_namespace(
                store, runtime, app.NAMESPACE, product_settings.policy_of(self.scenario)
            )
        finally:
            await store.close()

    async def _start_bookies(self) -> None:
        topology = self.scenario.topology
        full = {fault.target for fault in self.scenario.fault if fault.kind == "full-disk"}
        for region in topology.regions:
            for number in range(topology.bookies):
                name = bookie_name(region, number)
                bookie = BookieProgram(name, self.folder, self._uris[region], number)
                self.bookies.append(bookie)
                for viewer in topology.regions:
                    if viewer != region and self._is_linked:
                        link = await self.toxiproxy.link(viewer, name, region, bookie.port)
                        await self._add_distance(link)
                        bookie.addresses[viewer] = link.address
                if name in full:
                    bookie.mount_small_disk()
                bookie.launch()
        for bookie in self.bookies:
            await bookie.wait_ready()
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

    def _add_services(self) -> None:
        work, regions = self.scenario.workload, self.scenario.topology.regions
        for region in regions if work.repairs else ():
            command = rhumbline_command(
                "repair", "run", "-u", self._uris[region], "-n", app.NAMESPACE, "--region", region,
                "--lost-after", f"{product_settings.REPAIR.lost_after_ms}ms",
                "--audit-interval", f"{product_settings.REPAIR.audit_interval_ms}ms",
            )  # fmt: skip
            self._add(f"repair-{region}", region, command)
        if work.archives:
            self.cold.mkdir()
            region = regions[-1]
            command = rhumbline_command(
                "archive", "serve", "-u", self._uris[region], "-n", app.NAMESPACE,
                "--region", region, "--cold", self.cold.as_uri(),
                "--every", f"{product_settings.ARCHIVE_PAUSE_MS}ms",
            )  # fmt: skip
            self._add("archiver", region, command)

    def _add(self, name: str, region: str, command: list[str], ready: str = "") -> Program:
        program = Program(name, region, command, self.folder / f"{name}.log", ready=ready)
        self.others.append(program)
        return program

    async def _start_proxies(self) -> None:
        """Start a proxy in each region, which advertises a link to the clients of each other one.

        The connection of an application to the proxy of its own region is direct.
        """
        for region in self.scenario.topology.regions:
            name, port = f"proxy-{region}", free_port()
            addresses = self._proxies[region] = {region: f"127.0.0.1:{port}"}
            for viewer in self.scenario.topology.regions:
                if viewer != region:
                    link = await self.toxiproxy.link(viewer, name, region, port)
                    await self._add_distance(link)
                    addresses[viewer] = link.address
            advertised = [
                f"--advertise={viewer}={address}" for viewer, address in addresses.items()
            ]
            command = rhumbline_command(
                "write-proxy", "--with-read", "--port", str(port), "-u", self._uris[region],
                "-n", app.NAMESPACE, "--region", region, *advertised,
            )  # fmt: skip
            self._add(name, region, command, "proxy serves at").launch()
        for program in self.others:
            await asyncio.to_thread(program.wait_ready)

    def _proxies_of(self, region: str) -> str:
        """Return the URI of all proxies as seen from a region, with that region's proxy first."""
        ordered = sorted(self._proxies, key=lambda other: other != region)
        return "grpc://" + ",".join(self._proxies[other][region] for other in ordered)

    async def _add_distance(self, link: ToxiproxyLink) -> None:
        """Add the delay and bandwidth of the scenario's links; a viewer "*" gets their mean."""
        if not self._has_distance:
            return
        others = [
            region for region in self.scenario.topology.regions if region != link.server_region
        ]
        viewers = others if link.viewer == "*" else [link.viewer]
        links = [self.scenario.link_between(viewer, link.server_region) for viewer in viewers]
        await self.toxiproxy.add_distance(
            link,
            rtt_ms=sum(region_link.rtt_ms for region_link in links) / len(links),
            jitter_ms=sum(region_link.jitter_ms for region_link in links) / len(links),
            kib_per_s=min(region_link.kib_per_s for region_link in links),
        )

    # --- metadata ---------------------------------------------------------------------------------

    def streams(self, store: MetadataStore) -> StreamStore:
        """Return the metadata of the lab's namespace."""
        return StreamStore(store, app.NAMESPACE)

    async def leader(self) -> str:
        """Return the region of the metadata ensemble's leader, else that of its first member."""
        for member in self.members:
            if await asyncio.to_thread(member.is_leader):
                return member.region
        return self.scenario.topology.members[0]


def _members(scenario: Scenario, folder: Path, servers: Path) -> Sequence[EnsembleMember]:
    """Create the metadata ensemble. Raises ConfigurationError if its server is not installed."""
    topology, regions = scenario.topology, enumerate(scenario.topology.members, 1)
    if topology.metadata == ETCD:
        binary = etcd_binary(servers)
        return [EtcdMember(region, number, folder, binary) for number, region in regions]
    if topology.metadata == FDB:
        programs = fdb_programs()
        return [FdbMember(region, number, folder, programs) for number, region in regions]
    if topology.metadata == ZOOKEEPER:
        jars = zookeeper_jars(servers)
        return [ZooKeeperMember(region, number, folder, jars) for number, region in regions]
    return []
