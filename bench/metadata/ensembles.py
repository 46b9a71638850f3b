"""Servers for benchmarks of metadata stores: one member, or three with links between them."""

import asyncio
import copy
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

from ...chaos.lab.wan.cluster import SERVERS
from ...chaos.lab.wan.metadata.ensemble_member import EnsembleMember
from ...chaos.lab.wan.metadata.etcd import EtcdMember, etcd_binary
from ...chaos.lab.wan.metadata.zookeeper import ZooKeeperMember, zookeeper_jars
from ...cli.servers.relay import Relay
from ...core.protocol.errors import ConfigurationError, UnavailableError

ETCD = "etcd"
ZOOKEEPER = "zookeeper"
KINDS = (ZOOKEEPER, ETCD)
REGIONS = ("a", "b", "c")

HOST = "127.0.0.1"
_LEADER_S_MAX = 30


class Ensemble:
    """The members of a store, and a relay in front of each for clients."""

    def __init__(self, members: Sequence[EnsembleMember], clients: dict[str, Relay]) -> None:
        self.members = members
        self.clients = clients
        """By region: the link from clients to the member of that region."""
        self._ports: dict[str, int] = {}

    async def start_links(self) -> None:
        """Open the links of the clients."""
        for member in self.members:
            relay = self.clients[member.region]
            relay.target = (HOST, member.port)
            self._ports[member.region] = await relay.start(HOST)

    def uri(self, *regions: str, is_direct: bool = False) -> str:
        """Return the URI for a client that knows the members of ``regions`` (none: all)."""
        known = [member for member in self.members if not regions or member.region in regions]
        addresses = ",".join(
            f"{HOST}:{member.port if is_direct else self._ports[member.region]}" for member in known
        )
        return f"{self.members[0].scheme}://{addresses}/bench"

    async def leader(self) -> EnsembleMember:
        """Return the leader. Raises UnavailableError if there is none for a while."""
        for _ in range(_LEADER_S_MAX * 10):
            for member in self.members:
                if member.program.is_running and await asyncio.to_thread(member.is_leader):
                    return member
            await asyncio.sleep(0.1)
        raise UnavailableError(f"no leader within {_LEADER_S_MAX} s")


@asynccontextmanager
async def running_ensemble(
    kind: str, folder: Path, count: int, *, rtt_ms: int = 0
) -> AsyncIterator[Ensemble]:
    """Run ``count`` members, one per region, whose peers are ``rtt_ms`` apart.

    Raises ConfigurationError if the server is not installed.
    """
    members = [_member(kind, region, number, folder) for number, region in _numbered(count)]
    async with AsyncExitStack() as closing:
        for member in members:
            closing.callback(member.program.kill)
        if rtt_ms:
            await _join_at_distance(members, rtt_ms, closing)
        else:
            for member in members:
                member.join(members)
        for member in members:
            member.program.launch()
        for member in members:
            await asyncio.to_thread(member.program.wait_ready)
        ensemble = Ensemble(members, {member.region: Relay(None, delay_ms=0) for member in members})
        await ensemble.start_links()
        for relay in ensemble.clients.values():
            closing.push_async_callback(relay.aclose)
        yield ensemble


def _numbered(count: int) -> list[tuple[int, str]]:
    return list(enumerate(REGIONS[:count], 1))


def _member(kind: str, region: str, number: int, folder: Path) -> EnsembleMember:
    if kind == ETCD:
        return EtcdMember(region, number, folder, etcd_binary(SERVERS))
    if kind == ZOOKEEPER:
        return ZooKeeperMember(region, number, folder, zookeeper_jars(SERVERS))
    raise ConfigurationError(f"unknown kind of server {kind!r} (known: {', '.join(KINDS)})")


async def _join_at_distance(
    members: Sequence[EnsembleMember], rtt_ms: int, closing: AsyncExitStack
) -> None:
    """Configure the members so that they reach each other over delayed links.

    An etcd member advertises its link to all. A ZooKeeper member listens on the port in its own
    configuration, so each configuration names the own ports and the links of the others.
    """
    links: dict[str, EnsembleMember] = {}
    for member in members:
        link = links[member.region] = copy.copy(member)
        ports = []
        for port in (member.peer_port, member.election_port):
            relay = Relay((HOST, port), delay_ms=rtt_ms / 2)
            ports.append(await relay.start(HOST))
            closing.push_async_callback(relay.aclose)
        link.peer_address, link.election_port = f"{HOST}:{ports[0]}", ports[1]
        if member.has_peer_link:
            member.peer_address = link.peer_address
    for member in members:
        member.join([member if other is member else links[other.region] for other in members])
