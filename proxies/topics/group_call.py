"""Holds the session of a group's member for a client, and serves the nodes of the group (PRX-60).

The member itself runs in the client: it lists the members, computes its share and claims partitions
by the same code as a direct client. The proxy contributes what needs a connection to the metadata
store, and limits the client to the nodes of the group that it named.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack

from google.protobuf.message import Message

from ...core.log.metadata.paths import TopicPaths
from ...core.log.namespace import Namespace
from ...core.log.topics.topics import open_topic
from ...core.protocol.errors import InvalidArgumentError, RhumblineError, SessionLostError
from ...core.runtime.metadata_store import MetadataStore, Session, Version
from ...core.runtime.primitives.wakeup import Wakeup
from ...core.runtime.tasks import Tasks
from ..rpc import rhumbline_pb2 as pb
from ..rpc.grpc_status import encode_error

SESSION_TTL_MS_MIN = 500
SESSION_TTL_MS_MAX = 600_000
SESSIONLESS_MS_MAX = 10_000
"""Longest silence in ms of a call without a session, and before the first message of any call."""
_OPERATIONS_WAITING_MAX = 64
_NODE_BYTES_MAX = 4096

SendResponse = Callable[[Message | bytes], Awaitable[None]]


class GroupCall:
    """One call of ``HoldMembership``. For one event loop."""

    def __init__(self, namespaces: Callable[[str], Namespace], stopping: Wakeup) -> None:
        """``stopping`` wakes the call when something changed for it, and when the proxy stops."""
        self._namespaces = namespaces
        self._wakeup = stopping
        self._base = self._topic = ""
        self._store: MetadataStore
        self._session: Session | None = None
        self._operations: asyncio.Queue[pb.GroupRequest]
        self._operations = asyncio.Queue(_OPERATIONS_WAITING_MAX)
        self._responses: asyncio.Queue[pb.GroupResponse]
        self._responses = asyncio.Queue(_OPERATIONS_WAITING_MAX)
        self._has_changed = False
        self._heartbeat_id = 0
        self._has_left = False
        self._last_received_at = 0.0

    async def serve(
        self,
        first: pb.GroupRequest,
        requests: AsyncIterator[pb.GroupRequest],
        send: SendResponse,
        check_serving: Callable[[], None],
    ) -> None:
        """Serve the call until the client ends it; ``check_serving`` raises if the proxy stops.

        Raises NoSuchStreamError, InvalidArgumentError, SessionLostError, MetadataError.
        """
        ttl_ms = _checked_ttl(first.session_ttl_ms)
        namespace = self._namespaces(first.namespace)
        store = self._store = namespace.store
        await open_topic(store, namespace, first.topic)
        paths = TopicPaths(first.namespace, first.topic)
        self._base, self._topic = paths.group(first.group), paths.topic
        # All is closed even if the call is cancelled meanwhile. A session that stayed open would be
        # renewed until the proxy stops, and the group would wait for its member's partitions.
        async with AsyncExitStack() as closing:
            if ttl_ms:
                self._session = await store.session(ttl_ms)
                closing.push_async_callback(self._session.close)
                self._session.on_lost(self._wakeup.wake)
            tasks = Tasks(on_failure=lambda _: self._wakeup.wake())
            closing.push_async_callback(tasks.aclose)
            for watch in (
                store.watch(self._base, self._on_changed, prefix=True),
                store.watch(self._topic, self._on_changed),
            ):
                closing.callback(watch.close)
            self._last_received_at = asyncio.get_running_loop().time()
            works = (
                tasks.spawn(self._read(requests), "requests of a member"),
                tasks.spawn(self._work(), "operations of a member"),
            )
            await send(pb.GroupResponse(id=first.id))
            while not (self._has_left or any(work.done() for work in works)):
                await self._send_all(send)
                await self._wait((ttl_ms or SESSIONLESS_MS_MAX) / 1000)
                check_serving()
            for work in works:
                if work.done():
                    work.result()

    async def _wait(self, silence_s_max: float) -> None:
        """Wait until something is to be done. Raises SessionLostError."""
        left_s = self._last_received_at + silence_s_max - asyncio.get_running_loop().time()
        if left_s <= 0:
            raise SessionLostError(f"no message of the member for {silence_s_max} s")
        await self._wakeup.wait(left_s)
        if self._session is not None and self._session.is_lost:
            raise SessionLostError("the proxy lost the session of the member")

    def _on_changed(self) -> None:
        self._has_changed = True
        self._wakeup.wake()

    async def _read(self, requests: AsyncIterator[pb.GroupRequest]) -> None:
        loop = asyncio.get_running_loop()
        async for request in requests:
            self._last_received_at = loop.time()
            if request.WhichOneof("operation") is None:
                self._heartbeat_id = request.id
                self._wakeup.wake()
            else:
                await self._operations.put(request)
        self._wakeup.wake()

    async def _work(self) -> None:
        while True:
            request = await self._operations.get()
            response = pb.GroupResponse(id=request.id)
            try:
                await self._carry_out(request, response)
            except RhumblineError as error:
                response.error.CopyFrom(encode_error(error))
            await self._responses.put(response)  # no further operation if they are not read
            self._wakeup.wake()

    async def _send_all(self, send: SendResponse) -> None:
        if self._has_changed or self._heartbeat_id:
            response = pb.GroupResponse(id=self._heartbeat_id, has_changed=self._has_changed)
            self._has_changed, self._heartbeat_id = False, 0
            await send(response)
        for _ in range(self._responses.qsize()):
            await send(self._responses.get_nowait())

    # --- operations -----------------------------------------------------------------------------

    async def _carry_out(self, request: pb.GroupRequest, response: pb.GroupResponse) -> None:
        store = self._store
        match request.WhichOneof("operation"):
            case "read":
                response.data, response.version = await store.get(self._path(request.read))
            case "read_topic":
                response.data, response.version = await store.get(self._topic)
            case "list":
                response.names.extend(await store.children(self._path(request.list)))
            case "create":
                node = request.create
                _, response.version = await store.create(
                    self._path(node.path), _data(node), ephemeral=self._session_of(node)
                )
            case "put":
                node = request.put
                response.version = await store.put(
                    self._path(node.path), _data(node), expect=_expected(node)
                )
            case "delete":
                node = request.delete
                await store.delete(self._path(node.path), expect=_expected(node))
            case _:
                self._has_left = True

    def _path(self, relative: str) -> str:
        """Return the path of a node of the group, "" for its root; no other can be named."""
        if not relative:
            return self._base
        if any(part in ("", ".", "..") for part in relative.split("/")):
            raise InvalidArgumentError(f"bad path of a group's node {relative[:80]!r}")
        return f"{self._base}/{relative}"

    def _session_of(self, node: pb.GroupNode) -> Session | None:
        if not node.is_ephemeral:
            return None
        if self._session is None:
            raise InvalidArgumentError("an ephemeral node needs a call with session_ttl_ms")
        return self._session


def _checked_ttl(ttl_ms: int) -> int:
    if ttl_ms and not SESSION_TTL_MS_MIN <= ttl_ms <= SESSION_TTL_MS_MAX:
        raise InvalidArgumentError(
            f"session_ttl_ms {ttl_ms} is not between {SESSION_TTL_MS_MIN} and {SESSION_TTL_MS_MAX}"
        )
    return ttl_ms


def _data(node: pb.GroupNode) -> bytes:
    if len(node.data) > _NODE_BYTES_MAX:
        raise InvalidArgumentError(
            f"a group's node holds at most {_NODE_BYTES_MAX} bytes, not {len(node.data)}"
        )
    return node.data


def _expected(node: pb.GroupNode) -> Version | None:
    return Version(node.expected_version) if node.HasField("expected_version") else None
