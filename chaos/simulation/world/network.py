"""The simulated network: nodes in regions, connections between them, and network faults.

A path (from node, to node) is blocked while one of the nodes is powered off or clogged in that
direction, or while the pair of nodes or of regions is cut in that direction. Blocked paths drop
packets silently: connects hang, established connections hold their bytes, and each end times out on
its own (TCP's retransmission limit).

Each pair of regions has a delay with jitter, and a bandwidth that all its connections share.
"""

import asyncio
import errno
from collections import Counter
from collections.abc import Callable
from contextvars import Context
from dataclasses import dataclass
from random import Random
from typing import Self, cast

from .loop import SimLoop
from .process import PROCESS, SimProcess
from .trace import Trace
from .transport import SimTransport

_CONNECT_RETRY_S = (1.0, 2.0, 4.0, 8.0, 16.0, 32.0)
"""Intervals between SYN retransmissions, as in Linux; after the last one: ETIMEDOUT."""

_BEAT_BYTES, _BEAT_CONNECT, _BEAT_RESET = 10, 12, 13


@dataclass(slots=True)
class SimLink:
    """The link from one region to another."""

    delay_ms: float
    jitter_ms: float
    bytes_per_s: float
    free_at: float = 0.0
    slowness: float = 1.0
    """Factor on the delay; set by faults."""


class SimNode:
    """A host as seen by the network. ``name`` is also its address."""

    def __init__(self, name: str, region: str) -> None:
        self.name = name
        self.region = region
        self.is_up = True
        self.is_clogged_in = False
        self.is_clogged_out = False
        self.listeners: dict[int, SimServer] = {}
        self._next_port = 20_000

    def __repr__(self) -> str:
        return f"<node {self.name} in {self.region}>"

    def free_port(self) -> int:
        """Return a port that was never used on this node."""
        self._next_port += 1
        return self._next_port


class SimSocket:
    """The socket of a server, as far as programs inspect it."""

    def __init__(self, name: tuple[str, int]) -> None:
        self._name = name

    def getsockname(self) -> tuple[str, int]:
        """Return (address, port)."""
        return self._name


class SimServer:
    """A listener with the methods of ``asyncio.Server`` that programs call."""

    def __init__(
        self,
        node: SimNode,
        port: int,
        factory: Callable[[], asyncio.BaseProtocol],
        context: Context,
    ) -> None:
        self.node = node
        self.port = port
        self.factory = factory
        self.context = context
        self.sockets = (SimSocket((node.name, port)),)

    def close(self) -> None:
        """Stop accepting; established connections stay open. Safe to repeat."""
        if self.node.listeners.get(self.port) is self:
            del self.node.listeners[self.port]

    def is_serving(self) -> bool:
        """Return whether the server accepts connections."""
        return self.node.listeners.get(self.port) is self

    async def wait_closed(self) -> None:
        """Return at once: closing takes no time."""
        await asyncio.sleep(0)

    async def start_serving(self) -> None:
        """Do nothing: the server accepts connections from its creation on."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        self.close()


class SimNetwork:
    """All nodes, links and connections of a run, and the faults on them."""

    def __init__(self, loop: SimLoop, random: Random, trace: Trace) -> None:
        self.loop = loop
        self.random = random
        self.trace = trace
        self.context = Context()  # outside of any process: for events that must always happen
        self.nodes: dict[str, SimNode] = {}
        self.default_link = SimLink(20.0, 1.0, 1e9)
        self.links: dict[tuple[str, str], SimLink] = {}
        self.cuts: Counter[tuple[str, str]] = Counter()
        self.lags_ms: dict[tuple[str, str], float] = {}
        """(from node, to node) to the additional delay of a packet."""
        self.connections: dict[int, tuple[SimTransport, SimTransport]] = {}
        self.generation = 0
        self.messages = 0
        self.bytes_carried = 0
        self.cut_rate = 1 / 64
        self.on_sent: Callable[[SimTransport, bytes], None] | None = None
        self.on_delivery: Callable[[SimTransport, bytes], None] | None = None
        self.on_change: Callable[[], None] | None = None
        """Called after each change of the paths."""
        self._connection_count = 0
        self._watched: set[int] = set()

    # --- nodes and links ------------------------------------------------------------------------

    def add_node(self, name: str, region: str) -> SimNode:
        """Add a node that is powered on."""
        assert name not in self.nodes
        node = self.nodes[name] = SimNode(name, region)
        return node

    def link(self, source: str, target: str) -> SimLink:
        """Return the link from one region to another."""
        found = self.links.get((source, target))
        if found is None:
            shape = self.default_link
            found = SimLink(shape.delay_ms, shape.jitter_ms, shape.bytes_per_s)
            self.links[source, target] = found
        return found

    def delay_s(self, source: SimNode, target: SimNode) -> float:
        """Draw the delay of a small packet, in seconds."""
        link = self.link(source.region, target.region)
        jitter = self.random.random()
        return (link.delay_ms + link.jitter_ms * jitter * jitter) * link.slowness / 1000

    def arrival(self, source: SimNode, target: SimNode, size: int, now: float) -> float:
        """Return the arrival time of ``size`` bytes that are sent now, and occupy the link."""
        link = self.links.get((source.region, target.region)) or self.link(
            source.region, target.region
        )
        leaves = link.free_at if link.free_at > now else now
        link.free_at = leaves = leaves + size / link.bytes_per_s
        jitter = self.random.random()
        lag_ms = self.lags_ms.get((source.name, target.name), 0.0) if self.lags_ms else 0.0
        delay_ms = (link.delay_ms + link.jitter_ms * jitter * jitter) * link.slowness
        return leaves + (delay_ms + lag_ms) / 1000

    def cut_point(self, size: int) -> int:
        """Return the offset at which a delivery is split, to test parsers; 0: not split."""
        if size < 2 or self.random.random() >= self.cut_rate:
            return 0
        return self.random.randrange(1, size)

    # --- faults ---------------------------------------------------------------------------------

    def is_blocked(self, source: SimNode, target: SimNode) -> bool:
        """Return whether the path from one node to another is blocked now."""
        if not (source.is_up and target.is_up):
            return True
        if source is target:
            return False
        if source.is_clogged_out or target.is_clogged_in:
            return True
        cuts = self.cuts
        if not cuts:
            return False
        return (
            cuts[source.region, target.region] > 0
            or cuts[source.name, target.name] > 0
            or cuts[source.name, "*"] > 0
            or cuts["*", target.name] > 0
        )

    def cut(self, source: str, target: str) -> None:
        """Cut one direction between nodes or regions (``*``: any node). Cuts are counted."""
        self.cuts[source, target] += 1
        self.changed()

    def heal(self, source: str, target: str) -> None:
        """End one ``cut``."""
        assert self.cuts[source, target] > 0, f"{source} to {target} is not cut"
        self.cuts[source, target] -= 1
        if not self.cuts[source, target]:
            del self.cuts[source, target]
        self.changed()

    def heal_all(self) -> None:
        """End all cuts, clogs and lags."""
        self.cuts.clear()
        self.lags_ms.clear()
        for node in self.nodes.values():
            node.is_clogged_in = node.is_clogged_out = False
        for link in self.links.values():
            link.slowness = 1.0
        self.changed()

    def changed(self) -> None:
        """Block and unblock connections after a change of the paths."""
        self.generation += 1
        if self.on_change is not None:
            self.on_change()
        for pair in list(self.connections.values()):
            for end in pair:
                if self.is_blocked(end.node, end.peer.node):
                    end.block()
                elif end.is_blocked:
                    self._unblock_later(end)

    def _unblock_later(self, end: SimTransport) -> None:
        """Unblock after TCP's next retransmission; the longer the cut, the later it is."""
        lasted = self.loop.now - end.blocked_since
        wait = self.random.random() * min(lasted, 3.0)

        def unblock() -> None:
            if not self.is_blocked(end.node, end.peer.node):
                end.unblock()
                self.forget(end)

        self.loop.call_later(wait, unblock, context=self.context)

    def reset_connections(self, node: SimNode | None = None, share: float = 1.0) -> int:
        """Reset a share of the connections (of a node), like a router reboot; returns how many."""
        count = 0
        for first, second in list(self.connections.values()):
            concerns = node is None or first.node is node or second.node is node
            if concerns and self.random.random() < share:
                count += 1
                for end in (first, second):
                    error = ConnectionResetError(errno.ECONNRESET, "Connection reset by peer")
                    self.loop.call_later(
                        self.delay_s(end.peer.node, end.node), end.lose, error, context=end.context
                    )
        return count

    def process_died(self, process: SimProcess, *, is_power_cut: bool) -> None:
        """Close a dead process's sockets as its kernel does; at a power cut nothing is sent."""
        for node in self.nodes.values():
            for port in [p for p, s in node.listeners.items() if s.context.get(PROCESS) is process]:
                del node.listeners[port]
        for pair in list(self.connections.values()):
            for end in pair:
                if end.process is process:
                    end.vanish(is_silent=is_power_cut, is_reset=self.random.random() < 0.5)

    # --- for transports -------------------------------------------------------------------------

    def delivered(self, end: SimTransport, data: bytes, checksum: int) -> None:
        """Record that bytes reached a protocol."""
        self.messages += 1
        self.bytes_carried += len(data)
        self.trace.beat(_BEAT_BYTES, end.number, checksum)
        if self.on_delivery is not None:
            self.on_delivery(end, data)

    def send_reset(self, source: SimTransport, target: SimTransport) -> None:
        """Send a reset to ``target``; it is lost if the path is blocked."""
        if source.is_blocked or target.is_gone:
            return
        arrives = max(self.loop.now + self.delay_s(source.node, target.node), source.last_arrival)

        def arrive() -> None:
            if not source.is_blocked and not target.is_gone:
                self.trace.beat(_BEAT_RESET, target.number, 0)
                target.lose(ConnectionResetError(errno.ECONNRESET, "Connection reset by peer"))

        self.loop.call_at(arrives, arrive, context=target.context)

    def watch_for_timeout(self, end: SimTransport) -> None:
        """Let ``end`` time out eventually, because it sent something on a blocked path."""
        if id(end) in self._watched or end.is_gone:
            return
        self._watched.add(id(end))
        timeout_s = 10.0 + 80.0 * self.random.random()

        def give_up() -> None:
            self._watched.discard(id(end))
            if not end.is_blocked or end.is_gone:
                return
            if self.loop.now - end.blocked_since < timeout_s:
                self.watch_for_timeout(end)
                return
            end.lose(TimeoutError(errno.ETIMEDOUT, "Connection timed out"))

        self.loop.call_later(timeout_s, give_up, context=end.context)

    def forget(self, end: SimTransport) -> None:
        """Remove a connection whose ends are both gone and hold no data."""
        peer = end.peer
        if end.is_gone and peer.is_gone and not end.held and not peer.held:
            self.connections.pop(end.number, None)

    # --- connect and listen ---------------------------------------------------------------------

    async def create_server(
        self, factory: Callable[[], asyncio.BaseProtocol], host: str | None, port: int
    ) -> SimServer:
        """Listen on the running process's node. Raises OSError if the port is in use."""
        node, context = self._here()
        if host not in (None, "", "0.0.0.0", "::", "localhost", "127.0.0.1", node.name):
            raise OSError(errno.EADDRNOTAVAIL, f"{host} is not an address of {node.name}")
        await asyncio.sleep(0)
        port = port or node.free_port()
        if port in node.listeners:
            raise OSError(errno.EADDRINUSE, f"{node.name}:{port} is in use")
        server = node.listeners[port] = SimServer(node, port, factory, context)
        return server

    async def create_connection(
        self, factory: Callable[[], asyncio.BaseProtocol], host: str, port: int
    ) -> tuple[asyncio.Transport, asyncio.BaseProtocol]:
        """Connect. Raises ConnectionRefusedError, TimeoutError (after about a minute), OSError."""
        source, context = self._here()
        target = source if host in ("localhost", "127.0.0.1") else self.nodes.get(host)
        if target is None:
            raise OSError(errno.EHOSTUNREACH, f"{host} is unknown")
        await self._reach(source, target)
        server = target.listeners.get(port)
        if server is None:
            await asyncio.sleep(self.delay_s(target, source))
            raise ConnectionRefusedError(errno.ECONNREFUSED, f"{host}:{port} refused")
        end = self._establish(source, context, server)
        try:
            await asyncio.sleep(self.delay_s(target, source))
        except asyncio.CancelledError:
            end.abort()
            raise
        if end.is_gone:
            raise ConnectionResetError(errno.ECONNRESET, f"{host}:{port} reset the connection")
        protocol = factory()
        end.open(cast(asyncio.Protocol, protocol))  # has the same methods
        return end, protocol

    async def _reach(self, source: SimNode, target: SimNode) -> None:
        """Deliver the SYN, with retransmissions. Raises TimeoutError if the path stays blocked."""
        for retry_s in (*_CONNECT_RETRY_S, 0.0):
            if not self.is_blocked(source, target) and not self.is_blocked(target, source):
                await asyncio.sleep(self.delay_s(source, target))
                if not self.is_blocked(source, target) and not self.is_blocked(target, source):
                    return
            await asyncio.sleep(retry_s)
        raise TimeoutError(errno.ETIMEDOUT, f"{target.name} does not answer")

    def _establish(self, source: SimNode, context: Context, server: SimServer) -> SimTransport:
        """Create both ends; the server's protocol is created in the server's process."""
        self._connection_count += 1
        number = self._connection_count
        names = ((source.name, source.free_port()), (server.node.name, server.port))
        near = SimTransport(self, source, context, names, number)
        far = SimTransport(self, server.node, server.context, (names[1], names[0]), number)
        near.peer, far.peer = far, near
        self.connections[number] = (near, far)
        self.trace.beat(_BEAT_CONNECT, number, 0)

        def accept() -> None:
            if not far.is_gone:
                far.open(cast(asyncio.Protocol, server.factory()))

        self.loop.call_soon(accept, context=server.context)
        return near

    def _here(self) -> tuple[SimNode, Context]:
        process = PROCESS.get()
        assert process is not None, "the simulation itself has no address; run this in a process"
        return self.nodes[process.node], process.context
