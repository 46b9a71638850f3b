"""The metadata store of a simulated cluster: one tree, reached over the simulated network.

Its members are nodes of the network, one in each of some regions. A client reaches the store if it
reaches a member that reaches a majority of the members. Faults show clients everything that the
contract allows: late responses, lost requests (the write did not happen), lost responses (it did),
watch events that come late or once for several changes, and sessions that expire while their
process is cut off or paused.

Names of operations and paths are part of the fingerprint of a run.
"""

import asyncio
from bisect import bisect_right
from collections.abc import Callable, Coroutine, Sequence
from contextvars import Context
from dataclasses import dataclass
from functools import partial
from random import Random
from typing import Any, NamedTuple, TypeVar, cast
from zlib import crc32

from ....backends.memory import MemorySession, MemoryStore, MemoryTree
from ....backends.store_base import StoreSession
from ....backends.transaction_plan import Node, TransactionPlan, child_prefix
from ....core.protocol.errors import (
    ClosedError,
    IndeterminateError,
    InvalidArgumentError,
    MetadataUnavailableError,
    NoNodeError,
    SessionLostError,
)
from ....core.runtime.metadata_store import Operation, Session, Value, Version, Watch, check_path
from ....core.wire import ledger_metadata as ledger_codec
from ...checker.run_record import CompareAndSet
from .network import SimNetwork, SimNode
from .process import PROCESS, SimProcess, in_world

T = TypeVar("T")

TIMEOUT_MS = 3000
"""Timeout of one call."""

LATE_S_MAX = 15.0
"""Maximum delay of a late request; its sender has timed out long before."""

_HEARTBEAT_S = 0.4
_BEAT_METADATA = 30


class Commit(NamedTuple):
    """One change of one node; ``data`` is None if it was deleted."""

    at_ms: float
    path: str
    data: bytes | None


class RecordedTree(MemoryTree):
    """A tree that records every change."""

    def __init__(self, network: SimNetwork) -> None:
        super().__init__("sim")
        self.history: list[Commit] = []
        self.on_commit: Callable[[Commit], None] | None = None
        self.recorded: Callable[[str, bytes, float], bytes] = lambda _path, data, _at_ms: data
        """Returns the form in which a value of a path is recorded: that of today's programs."""
        self.on_revision: Callable[[], None] = lambda: None
        """Called after each transaction."""
        self._network = network
        self._past: dict[str, list[tuple[int, Node | None]]] = {}

    def commit(self, plan: TransactionPlan) -> Version:
        """Execute a transaction plan and record its changes."""
        version = self._commit(plan)
        for path in plan.changes:
            self._past.setdefault(path, []).append((self.revision, self.node(path)))
        self.on_revision()
        return version

    def node_at(self, path: str, revision: int) -> Node | None:
        """Return a node as it was at a revision; None if it did not exist then."""
        past = self._past.get(path, [])
        index = bisect_right(past, revision, key=lambda change: change[0])
        return past[index - 1][1] if index else None

    def children_at(self, path: str, revision: int) -> list[str]:
        """Return the sorted names of the children that a node had at a revision."""
        prefix = child_prefix(path)
        return sorted(
            name
            for known in self._past
            if known.startswith(prefix)
            and "/" not in (name := known[len(prefix) :])
            and self.node_at(known, revision) is not None
        )

    def _commit(self, plan: TransactionPlan) -> Version:
        at_ms = self._network.loop.now * 1000
        for path, change in plan.changes.items():
            if change.is_written or change.data is None:
                data = None if change.data is None else self.recorded(path, change.data, at_ms)
                self.history.append(Commit(at_ms, path, data))
                if self.on_commit is not None:
                    self.on_commit(self.history[-1])
        return super().commit(plan)


@dataclass(slots=True)
class MetadataHealth:
    """The faults of the store that are active now."""

    is_down: bool = False
    slowness: float = 1.0
    lost_requests: float = 0.0  # share of requests that never arrive
    lost_answers: float = 0.0  # share of responses that never arrive
    late_answers_ms: float = 0.0  # maximum, of reads only
    late_requests: float = 0.0  # share of requests that arrive up to ``LATE_S_MAX`` late
    watch_delay_ms: float = 0.0  # maximum; watch events also overtake each other


class MetadataSite:
    """The servers of the metadata store."""

    def __init__(
        self,
        network: SimNetwork,
        random: Random,
        regions: Sequence[str],
        *,
        name: str = "metadata",
    ) -> None:
        self.network = network
        self.random = random
        self.tree = RecordedTree(network)
        self.health = MetadataHealth()
        self.members = [network.add_node(f"{name}-{region}", region) for region in regions]
        self.clients: list[SimMetadataStore] = []
        self.make_client: Callable[[MetadataSite, SimProcess, int], SimMetadataStore]
        self.make_client = SimMetadataStore
        """Makes the handle of a process."""
        self.compare_and_sets: list[CompareAndSet] = []
        """Every compare-and-set of a ledger's metadata that was answered or timed out."""
        self.requests = 0
        self.replicas = {member.name: self.tree.revision for member in self.members}
        """The last revision that each member has. A member without a majority falls behind."""
        self.tree.on_revision = self._replicate
        self._reachable: dict[str, SimNode | None] = {}
        self._reachable_generation = -1  # the network's generation for which it is valid

    def client(self, timeout_ms: int = TIMEOUT_MS) -> "SimMetadataStore":
        """Return a handle for the running process."""
        process = PROCESS.get()
        assert process is not None, "only processes have a handle; use SimWorld.metadata.tree"
        store = self.make_client(self, process, timeout_ms)
        self.clients = [known for known in self.clients if not known.process.is_dead]
        self.clients.append(store)
        return store

    def _replicate(self) -> None:
        for member in self.members:
            if self._has_majority(member):
                self.replicas[member.name] = self.tree.revision

    def connected_member(self, node: SimNode) -> SimNode | None:
        """Return the nearest member that ``node`` is connected to, with or without a majority."""
        if self.health.is_down:
            return None
        network = self.network
        able = [member for member in self.members if self._is_connected(node, member)]
        return min(able, key=lambda m: network.link(node.region, m.region).delay_ms, default=None)

    def reachable_member(self, node: SimNode) -> SimNode | None:
        """Return the nearest member that can serve ``node`` now, or None."""
        if self.health.is_down:
            return None
        network = self.network
        if self._reachable_generation != network.generation:
            self._reachable_generation = network.generation
            self._reachable.clear()
        elif node.name in self._reachable:
            return self._reachable[node.name]
        member = self._reachable[node.name] = self._nearest_member(node)
        return member

    def _nearest_member(self, node: SimNode) -> SimNode | None:
        network = self.network
        able = [m for m in self.members if self._is_connected(node, m) and self._has_majority(m)]
        return min(able, key=lambda m: network.link(node.region, m.region).delay_ms, default=None)

    def _has_majority(self, member: SimNode) -> bool:
        reached = sum(1 for other in self.members if self._is_connected(member, other))
        return reached * 2 > len(self.members)

    def _is_connected(self, first: SimNode, second: SimNode) -> bool:
        network = self.network
        return not network.is_blocked(first, second) and not network.is_blocked(second, first)

    def commit_delay_s(self, member: SimNode, *, is_write: bool) -> float:
        """Return the processing time of one request, with the quorum round trip of a write."""
        delay = 0.0005 + 0.001 * self.random.random()
        if is_write and len(self.members) > 1:
            trips = sorted(
                self.network.delay_s(member, other) + self.network.delay_s(other, member)
                for other in self.members
                if other is not member and self._is_connected(member, other)
            )
            delay += trips[: len(self.members) // 2][-1] if trips else 0.0
        return delay * self.health.slowness

    def chance(self, share: float) -> bool:
        """Return True with the given probability; draws only if it is not 0."""
        return share > 0 and self.random.random() < share


class Past(NamedTuple):
    """The tree as it was at a revision."""

    tree: RecordedTree
    revision: int

    def get(self, path: str) -> Value:
        """Return a node's value. Raises NoNodeError."""
        node = self.tree.node_at(path, self.revision)
        if node is None:
            raise NoNodeError(path)
        return Value(node.data, node.version)

    def get_all(self, paths: Sequence[str]) -> list[Value | None]:
        """Return the values of several nodes, None for each that does not exist."""
        nodes = [self.tree.node_at(path, self.revision) for path in paths]
        return [None if node is None else Value(node.data, node.version) for node in nodes]

    def children(self, path: str) -> list[str]:
        """Return the names of all children. Raises NoNodeError."""
        if self.tree.node_at(path, self.revision) is None:
            raise NoNodeError(path)
        return self.tree.children_at(path, self.revision)


class SimSession(StoreSession):
    """A session as its process sees it: the process learns of its loss only while connected."""

    def __init__(self, store: "SimMetadataStore", inner: MemorySession) -> None:
        super().__init__()
        self.inner = inner
        self._store = store

    def learn(self) -> None:
        """Update the state of the session from the servers."""
        if self.inner.is_lost and not self.is_lost:
            self.mark_lost(self._store.process.context)

    async def close(self) -> None:
        """End the session and remove its ephemeral nodes; without a connection, after its TTL."""
        self._on_lost.clear()
        if not self.inner.is_lost:
            await self._store.end_session(self.inner)


class SimWatch:
    """A watch whose events reach the process with a delay, while it is connected."""

    def __init__(self, store: "SimMetadataStore", callback: Callable[[], None]) -> None:
        self._store = store
        self._callback = callback
        self._is_closed = False
        self._is_due = False
        self.inner: Watch | None = None

    def fire(self) -> None:
        """Send the event to the process, unless one is already on its way."""
        if self._is_due or self._is_closed or not self._store.is_connected:
            return
        self._is_due = True
        self._store.send_watch(self._arrive)

    def _arrive(self) -> None:
        self._is_due = False
        if not self._is_closed:
            self._callback()

    def close(self) -> None:
        """Stop calling back. Safe to repeat."""
        self._is_closed = True
        if self.inner is not None:
            self.inner.close()
        self._store.forget_watch(self)


class SimMetadataStore:
    """The handle of one process; implements ``core.runtime.metadata_store``."""

    uri = "sim:"

    def __init__(self, site: MetadataSite, process: SimProcess, timeout_ms: int) -> None:
        self.site = site
        self.process = process
        self.is_connected = True
        self._node = site.network.nodes[process.node]
        self._timeout_s = timeout_ms / 1000
        self._inner = MemoryStore(site.tree, "sim:")
        self._sessions: list[SimSession] = []
        self._server_sessions: list[MemorySession] = []
        self._watches: dict[SimWatch, None] = {}
        self._is_closed = False
        self._world = Context()
        self._is_ticking = False

    # --- the contract ---------------------------------------------------------------------------

    async def get(self, path: str, *, stale_ok: bool = False) -> Value:
        """Return the node's value. Raises NoNodeError, MetadataUnavailableError."""
        check_path(path)
        if stale_ok:
            return await self._call_nearby("get", path, lambda past: past.get(path))
        return await self._call("get", path, lambda: self._inner.get(path), is_write=False)

    async def get_all(self, paths: Sequence[str], *, stale_ok: bool = False) -> list[Value | None]:
        """Return the values of several nodes, None for each that does not exist."""
        if not paths:
            return []
        if stale_ok:
            return await self._call_nearby("get all", paths[0], lambda past: past.get_all(paths))
        return await self._call(
            "get all", paths[0], lambda: self._inner.get_all(paths), is_write=False
        )

    async def children(
        self,
        path: str,
        *,
        after: str | None = None,
        limit: int | None = None,
        stale_ok: bool = False,
    ) -> list[str]:
        """Return the names of at most ``limit`` children behind ``after``, in byte order."""
        check_path(path)
        if stale_ok:
            names = await self._call_nearby("children", path, lambda past: past.children(path))
            later = [name for name in names if after is None or name > after]
            return later if limit is None else later[:limit]
        return await self._call(
            "children",
            path,
            lambda: self._inner.children(path, after=after, limit=limit),
            is_write=False,
        )

    def is_newer(self, version: Version, than: Version) -> bool:
        """Return True if a node had the version ``than`` first and ``version`` later."""
        return self._inner.is_newer(version, than)

    async def create(
        self,
        path: str,
        data: bytes = b"",
        *,
        ephemeral: Session | None = None,
        sequential: bool = False,
    ) -> tuple[str, Version]:
        """Create a node and return its path and version."""
        owner = None if ephemeral is None else self._inner_session(ephemeral)
        return await self._call(
            "create",
            path,
            lambda: self._inner.create(path, data, ephemeral=owner, sequential=sequential),
        )

    async def put(self, path: str, data: bytes, *, expect: Version | None = None) -> Version:
        """Replace a node's data. Raises NoNodeError, BadVersionError."""
        sent_ms = self.site.network.loop.now * 1000
        try:
            return await self._call("put", path, lambda: self._inner.put(path, data, expect=expect))
        finally:
            self._record_compare_and_set(path, data, expect, sent_ms)

    def _record_compare_and_set(
        self, path: str, data: bytes, expect: Version | None, sent_ms: float
    ) -> None:
        ledger_id = ledger_id_of(path)
        if ledger_id is not None and expect is not None:
            state = ledger_codec.decode(ledger_id, data).state
            now_ms = self.site.network.loop.now * 1000
            client = self.process.name
            self.site.compare_and_sets.append(
                CompareAndSet(
                    client, ledger_id, state, int(expect.partition(".")[2]), sent_ms, now_ms
                )
            )

    async def delete(self, path: str, *, expect: Version | None = None) -> None:
        """Delete a node. Raises NoNodeError, BadVersionError, NotEmptyError."""
        await self._call("delete", path, lambda: self._inner.delete(path, expect=expect))

    async def txn(self, operations: Sequence[Operation]) -> list[Version | None]:
        """Execute all operations or none.

        Returns the new version for each Create and Put, None for each Check and Delete.
        """
        path = operations[0].path if operations else ""
        return await self._call("txn", path, lambda: self._inner.txn(operations))

    def watch(self, path: str, callback: Callable[[], None], *, prefix: bool = False) -> Watch:
        """Call ``callback`` after the node changes; with ``prefix`` also for nodes below it."""
        if self._is_closed:
            raise ClosedError("the metadata store was closed")
        watch = SimWatch(self, callback)
        watch.inner = self._inner.watch(path, watch.fire, prefix=prefix)
        self._watches[watch] = None
        self._start_ticking()
        return watch

    async def session(self, ttl_ms: int) -> SimSession:
        """Open a session that survives a disconnection of up to ``ttl_ms``."""

        async def open_session() -> MemorySession:
            inner = await self._inner.session(ttl_ms)
            self._server_sessions.append(inner)
            self._start_ticking()
            return inner

        session = SimSession(self, await self._call("session", str(ttl_ms), open_session))
        self._sessions = [known for known in self._sessions if not known.is_lost]
        self._sessions.append(session)
        return session

    async def close(self) -> None:
        """Close watches and sessions. Safe to repeat."""
        if self._is_closed:
            return
        for watch in list(self._watches):
            watch.close()
        for session in self._sessions:
            await session.close()
        self._is_closed = True

    # --- requests -------------------------------------------------------------------------------

    async def _call(
        self,
        name: str,
        path: str,
        operation: Callable[[], Coroutine[Any, Any, T]],
        *,
        is_write: bool = True,
    ) -> T:
        if self._is_closed:
            raise ClosedError("the metadata store was closed")
        site, loop = self.site, self.site.network.loop
        deadline = loop.now + self._timeout_s
        member = site.reachable_member(self._node)
        while member is None:
            if loop.now >= deadline:
                raise MetadataUnavailableError(f"{name} {path}: no contact with the metadata store")
            await asyncio.sleep(0.05 + 0.1 * site.random.random())
            member = site.reachable_member(self._node)
        answer: asyncio.Future[T] = loop.create_future()
        delay_s = site.network.delay_s(self._node, member)
        delay_s += site.commit_delay_s(member, is_write=is_write)
        if site.chance(site.health.late_requests):
            delay_s += LATE_S_MAX * site.random.random()
        loop.call_later(
            delay_s,
            partial(self._arrive, name, path, operation, answer, member, is_write=is_write),
            context=self._world,
        )
        try:
            async with asyncio.timeout_at(deadline):
                return await answer
        except TimeoutError:
            message = f"{name} {path}: no answer from the metadata store"
            if is_write:
                raise IndeterminateError(message) from None
            raise MetadataUnavailableError(message) from None

    async def _call_nearby(self, name: str, path: str, read: Callable[["Past"], T]) -> T:
        """Read what one member has, with or without its majority, from a slow or dead link too."""
        site = self.site
        member = site.connected_member(self._node)
        if self._is_closed:
            raise ClosedError("the metadata store was closed")
        if member is None:
            await asyncio.sleep(0.05 + 0.1 * site.random.random())
            raise MetadataUnavailableError(f"{name} {path}: no member can be reached")
        async with asyncio.timeout(self._timeout_s):
            await asyncio.sleep(site.network.delay_s(self._node, member))
            found = read(Past(site.tree, site.replicas[member.name]))
            await asyncio.sleep(site.network.delay_s(member, self._node))
        if site.network.is_blocked(member, self._node):
            raise MetadataUnavailableError(f"{name} {path}: the member was cut off")
        network = site.network
        site.requests += 1
        network.trace.beat(_BEAT_METADATA, site.requests, crc32(f"old {name} {path}".encode()))
        if network.trace.is_detailed:
            network.trace.detail(self.process.name, f"old metadata {name} {path}")
        return found

    def _arrive(
        self,
        name: str,
        path: str,
        operation: Callable[[], Coroutine[Any, Any, T]],
        answer: "asyncio.Future[T]",
        member: SimNode,
        *,
        is_write: bool,
    ) -> None:
        """Process a request at the servers. Runs as the simulation: the caller may be dead."""
        site, network = self.site, self.site.network
        if site.reachable_member(self._node) is None or site.chance(site.health.lost_requests):
            return
        site.requests += 1
        network.trace.beat(_BEAT_METADATA, site.requests, crc32(f"{name} {path}".encode()))
        result, error = _done_at_once(operation())
        if network.trace.is_detailed:
            network.trace.detail(self.process.name, f"metadata {name} {path} {error or ''}")
        if site.chance(site.health.lost_answers):
            return
        delay_s = network.delay_s(member, self._node) * site.health.slowness
        if site.health.late_answers_ms and not is_write:
            delay_s += site.random.random() * site.health.late_answers_ms / 1000

        def reply() -> None:
            if network.is_blocked(member, self._node) or answer.done():
                return
            if error is not None:
                answer.set_exception(error)
            else:
                answer.set_result(cast(T, result))

        network.loop.call_later(delay_s, reply, context=self._world)

    # --- contact --------------------------------------------------------------------------------

    def _start_ticking(self) -> None:
        if not self._is_ticking:
            self._is_ticking = True
            self.site.network.loop.call_later(_HEARTBEAT_S, self._tick, context=self._world)

    def _tick(self) -> None:
        """Update the connection state. Runs as the simulation, also after the process died."""
        if self._is_closed:
            return
        process = self.process
        if process.is_dead:
            for watch in list(self._watches):
                watch.close()
            self._disconnect_sessions()
            self._is_closed = True
            return
        has_contact = process.is_running and self.site.reachable_member(self._node) is not None
        if has_contact:
            for inner in self._server_sessions:
                inner.regain_contact()
            for session in self._sessions:
                session.learn()
            if not self.is_connected:
                self.is_connected = True
                for watch in self._watches:
                    watch.fire()
        elif self.is_connected:
            self.is_connected = False
            self._disconnect_sessions()
        self.site.network.loop.call_later(_HEARTBEAT_S, self._tick, context=self._world)

    def _disconnect_sessions(self) -> None:
        self._server_sessions = [inner for inner in self._server_sessions if not inner.is_lost]
        for inner in self._server_sessions:
            inner.lose_contact()

    def send_watch(self, arrive: Callable[[], None]) -> None:
        """Deliver a watch event to the process."""
        site, loop = self.site, self.site.network.loop
        member = site.reachable_member(self._node)
        delay_s = 1.0 if member is None else site.network.delay_s(member, self._node)
        if site.health.watch_delay_ms:
            delay_s += site.random.random() * site.health.watch_delay_ms / 1000

        def deliver() -> None:
            if site.reachable_member(self._node) is None:
                loop.call_later(1.0, deliver, context=self._world)
            else:
                loop.call_soon(arrive, context=self.process.context)

        loop.call_later(delay_s, deliver, context=self._world)

    def forget_watch(self, watch: SimWatch) -> None:
        """Remove a closed watch. Safe to repeat."""
        self._watches.pop(watch, None)

    async def end_session(self, inner: MemorySession) -> None:
        """End a session at the servers; without a connection it ends after its TTL."""

        async def close() -> None:
            inner.regain_contact()
            await inner.close()

        try:
            await self._call("end of session", "", close)
        except (MetadataUnavailableError, IndeterminateError):
            self._server_sessions = [one for one in self._server_sessions if one is not inner]
            in_world(inner.lose_contact)

    def expire_session(self) -> None:
        """Expire all sessions of this running process at the servers, as a fault."""
        for inner in self._server_sessions:
            inner.expire()

    def _inner_session(self, session: Session) -> MemorySession:
        if not isinstance(session, SimSession) or session not in self._sessions:
            raise InvalidArgumentError("a session of another store")
        if session.is_lost:
            raise SessionLostError("the session is gone")
        return session.inner


def _done_at_once(work: Coroutine[Any, Any, T]) -> tuple[T | None, Exception | None]:
    """Run a coroutine that never waits and return its result or its error."""
    try:
        work.send(None)
    except StopIteration as end:
        return end.value, None
    except Exception as error:  # raised where the call is awaited
        return None, error
    raise AssertionError("the memory store waited")


def ledger_id_of(path: str) -> int | None:
    """Return the ledger whose metadata is at ``path``; None if it is another path."""
    parts = path.split("/")
    if len(parts) < 5 or parts[1] != "ledgers" or not parts[-1].startswith("L"):
        return None
    return int("".join(parts[2:-1]) + parts[-1][1:])
