"""A proxy process without gRPC: its calls, its registration and its stop (rules PRX-7, PRX-20).

One process is a write proxy, a read proxy, or both. A call that its roles cannot serve ends with
NotOwnerError and the address of a proxy that can.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Sequence
from contextlib import suppress
from typing import Any

from google.protobuf.message import Message

from ...core.log.api.log_namespaces import LogNamespaces
from ...core.log.namespace import Namespace
from ...core.protocol.errors import (
    ClosedError,
    InvalidArgumentError,
    NotOwnerError,
    RhumblineError,
    TooManyRequestsError,
    UnavailableError,
)
from ...core.protocol.installation import installed_version
from ...core.runtime.metadata_store import MetadataStore
from ...core.runtime.primitives.wakeup import Wakeup
from ...core.runtime.runtime import Runtime
from ...core.runtime.tasks import Tasks
from ..balance.proxy_balance import ProxyBalance
from ..config import ProxyConfig
from ..homes.home_keeper import HomeKeeper
from ..membership import READ, WRITE, ProxyMembership
from ..permissions.append_permits import AppendPermits
from ..probing.prober import Prober
from ..proxy_stores import ProxyStore, ProxyStores, RegionalProxyStore
from ..quotas.caller_quota import CallerQuota
from ..quotas.proxy_quotas import ProxyQuotas
from ..read.decoded_read import DecodedRead
from ..read.flow_control import ReadCredit
from ..read.read_cursor import ReadCursor
from ..read.read_proxy import OpenedRead, ReadProxy
from ..topics.group_call import SESSIONLESS_MS_MAX, GroupCall
from ..topics.namespace_administration import NamespaceAdministration
from ..topics.topic_administration import TopicAdministration
from ..write.append_session import AppendSession
from ..write.write_proxy import WriteProxy
from . import methods
from . import rhumbline_pb2 as pb
from .administration import Administration
from .grpc_status import encode_position
from .message_coalescing import MessageCoalescer
from .messages import decode_start, encode_results
from .rpc_transport import RpcTransport

GROUP_CALLS_MAX = 10_000
"""Maximum number of group members whose sessions one proxy holds."""
_CREDIT_BYTES = 1 << 20
_THROTTLED_BEAT_S = 0.25
"""Interval of heartbeats to a reader that waits for its quota; a silent proxy would be missed."""

SendResponse = Callable[[Message | bytes], Awaitable[None]]
"""Sends a response (some are already encoded); waits until there is room for it."""

StreamHandler = Callable[[AsyncIterator[Any], SendResponse], Awaitable[None]]
"""Handles a streaming call. The call ends when it returns or raises; it is cancelled if the client
ends the call."""

UnaryHandler = Callable[[Any], Awaitable[Message]]


class ProxyService:
    """A proxy that is registered from ``join`` to ``leave``. For one event loop."""

    def __init__(
        self,
        runtime: Runtime,
        store: MetadataStore,
        namespaces: Callable[[str], Namespace],
        config: ProxyConfig,
        *,
        roles: Sequence[str],
        address: str,
        region: str,
        regional: RegionalProxyStore | None = None,
        calls: RpcTransport,
        operator_address: str = "",
        all_namespaces: LogNamespaces | None = None,
        cpu_seconds: Callable[[], float] = lambda: 0.0,
        cpu_wait_seconds: Callable[[], float] = lambda: 0.0,
    ) -> None:
        """``address`` is the host:port under which clients and other proxies reach this one,
        ``operator_address`` that for administrative calls, if it is another one.

        ``store`` is the global metadata store, ``regional`` that of the proxy's region, if any.
        ``calls`` is for probes of other proxies; ``leave`` closes it.
        ``all_namespaces`` creates, lists and deletes namespaces for clients.
        ``cpu_seconds`` returns the CPU time of the process, ``cpu_wait_seconds`` the time for which
        it has waited for a CPU.
        """

        def registered_in(store: MetadataStore, store_region: str = "") -> ProxyStore:
            membership = ProxyMembership(
                store,
                runtime,
                roles=roles,
                address=address,
                region=region,
                session_ttl_ms=config.session_ttl_ms,
                addresses=config.advertised_addresses,
                version=installed_version(),
                operator_address=operator_address,
            )
            return ProxyStore(store, membership, store_region)

        registered = [registered_in(store)]
        if regional is not None:
            registered.append(registered_in(regional.store, regional.region))
        self._stores = stores = ProxyStores(
            registered, None if regional is None else regional.find_region
        )
        self.membership = membership = stores.first.membership
        self.writes: WriteProxy | None = None
        self.homes: HomeKeeper | None = None
        self.balance: ProxyBalance | None = None
        self.reads: ReadProxy | None = None
        self._runtime = runtime
        self._config = config
        self.quotas = ProxyQuotas(stores, config.shared_bytes_max)
        """The quotas of callers; they apply once their record is followed (``quotas.start``)."""
        self._stopping = asyncio.Event()
        self._calls: dict[asyncio.Event, None] = {}
        self._namespaces = namespaces
        self._group_calls: dict[Wakeup, None] = {}
        if WRITE in roles:
            self.writes = WriteProxy(namespaces, stores, config, runtime.random)
            self.homes = HomeKeeper(self.writes, config)
            self.balance = ProxyBalance(stores, self.writes, config, cpu_seconds)
        if READ in roles:
            self.reads = ReadProxy(namespaces, membership, config)
        self._prober = Prober(stores, calls, config, runtime.random, cpu_wait_seconds)
        admin = Administration(namespaces, stores, self.writes, self.homes, self.quotas)
        self.stream_calls: dict[methods.Method, StreamHandler] = {
            methods.APPEND: self.append,
            methods.READ: self._read,
            methods.HOLD_MEMBERSHIP: self._hold_membership,
        }
        self.unary_calls: dict[methods.Method, UnaryHandler] = {
            methods.CREATE_STREAM: admin.create_stream,
            methods.DELETE_STREAM: admin.delete_stream,
            methods.LIST_STREAMS: admin.list_streams,
            methods.DESCRIBE_STREAM: admin.describe_stream,
            methods.TRUNCATE_STREAM: admin.truncate_stream,
            methods.UNTRUNCATE_STREAM: admin.untruncate_stream,
            methods.END_STREAM: admin.end_stream,
            methods.SET_POLICY: admin.set_policy,
            methods.SET_HOME_REGION: admin.set_home_region,
            methods.SET_ACCEPTING: admin.set_accepting,
            methods.PROBE_PROXY: self._prober.respond,
            methods.GET_OWNER: admin.get_owner,
            methods.RELEASE_STREAM: admin.release_stream,
            methods.DESCRIBE_NAMESPACE: admin.describe_namespace,
            methods.LIST_PROXIES: admin.list_proxies,
            methods.DESCRIBE_HOME: admin.describe_home,
            methods.FIND_END: admin.find_end,
            methods.SEAL_STREAM: admin.seal_stream,
            methods.UNSEAL_STREAM: admin.unseal_stream,
            methods.ROLL_STREAM: admin.roll_stream,
            methods.READ_SCHEMAS: admin.read_schemas,
            methods.REPLACE_SCHEMAS: admin.replace_schemas,
            **_topic_calls(TopicAdministration(namespaces, region, self.quotas)),
            **_namespace_calls(NamespaceAdministration(all_namespaces)),
        }

    # --- start and stop ------------------------------------------------------------------------

    async def join(self) -> None:
        """Register, so that others send clients here. Raises MetadataError."""
        for store in self._stores.all:
            try:
                await store.membership.join()
            except RhumblineError as error:
                if len(self._stores.all) == 1:
                    raise
                store.membership.join_later(error)
        if not self._is_registered:
            await self.leave()
            raise UnavailableError("the proxy could not register in any metadata store")
        self._prober.start()
        if self.homes is not None:
            self.homes.start()
        if self.balance is not None:
            self.balance.start()

    async def hand_over(self) -> None:
        """Release all streams and end all calls, with results for all sets. Safe to repeat."""
        if self._stopping.is_set():
            return
        self._prober.is_stopping = True
        if self.homes is not None:
            await self.homes.aclose()
        if self.balance is not None:
            await self.balance.aclose()
        if self.writes is not None:
            await self.writes.aclose()
        else:
            with suppress(RhumblineError):  # other proxies notice when the session ends
                for store in self._stores.all:
                    await store.membership.set_accepting(False)
        self._stopping.set()
        for wake in self._calls:
            wake.set()
        for wakeup in self._group_calls:
            wakeup.wake()
        if self.reads is not None:
            await self.reads.aclose()

    async def leave(self) -> None:
        """End the session, after ``hand_over``. Safe to repeat."""
        await self.quotas.aclose()
        await self._prober.aclose()
        for store in self._stores.all:
            await store.membership.leave()

    @property
    def _is_registered(self) -> bool:
        return any(store.membership.session is not None for store in self._stores.all)

    def unready_reason(self) -> str | None:
        """Return why the proxy should get no new clients; None if it is ready."""
        if self._stopping.is_set():
            return "stopping"
        if not self._is_registered:
            return "not registered in the metadata store"
        return None

    def statistics(self) -> dict[str, Any]:
        """Return counters and sizes for metrics."""
        return {
            "registered": self._is_registered,
            "sessions_lost": sum(store.membership.lost_count for store in self._stores.all),
            "removed": sum(store.membership.removed_count for store in self._stores.all),
            "calls": len(self._calls),
            "group_members": len(self._group_calls),
            "quotas": self.quotas.statistics(),
            "probing": self._prober.statistics(),
            "homes_moved": 0 if self.homes is None else self.homes.moved_count,
            "write": self.writes.statistics() if self.writes is not None else None,
            "read": self.reads.statistics() if self.reads is not None else None,
            "balance": self.balance.statistics() if self.balance is not None else None,
        }

    # --- append ---------------------------------------------------------------------------------

    async def append(
        self,
        requests: AsyncIterator[pb.AppendRequest],
        send: SendResponse,
        permits: AppendPermits | None = None,
    ) -> None:
        """Serve an append call to a caller with these permits; None: all streams."""
        if self.writes is None:
            raise self._other_role(WRITE, ())
        quota = self.quotas.begin_call()
        wake, coalescer = asyncio.Event(), MessageCoalescer()
        session = AppendSession(
            self.writes,
            wake.set,
            bytes_max=self._config.session_bytes_max,
            tracer=self._runtime.tracer,
            permits=permits,
            quota=quota,
        )
        tasks = Tasks(on_failure=lambda _: wake.set())
        reading = tasks.spawn(_submit_all(requests, session, wake), "append call")
        self._calls[wake] = None
        try:
            while True:
                await wake.wait()
                await coalescer.wait(session.outstanding_count)
                wake.clear()
                results = session.take_results()
                if results or session.take_ping():
                    await send(encode_results(results))
                is_over = self._stopping.is_set() or reading.done()
                if is_over and session.outstanding_bytes == 0 and not session.has_results:
                    if reading.done() and not reading.cancelled() and reading.exception():
                        reading.result()
                    return
        finally:
            self.quotas.end_call()
            del self._calls[wake]
            await tasks.aclose()

    # --- read -----------------------------------------------------------------------------------

    async def _read(self, requests: AsyncIterator[pb.ReadRequest], send: SendResponse) -> None:
        first = await anext(requests, None)
        if first is None:
            raise InvalidArgumentError("the read call has no request")
        quota = self.quotas.begin_call()
        try:
            reads, opened = await self._open(first)
        except BaseException:
            self.quotas.end_call()
            raise
        credit = ReadCredit(first.credit_bytes or _CREDIT_BYTES, first.credit_records)
        tasks = Tasks(on_failure=lambda _: credit.end())
        self._calls[credit.wake] = None
        try:
            tasks.spawn(_grant_all(requests, credit), "read call")
            skipped_by_client = 0 if first.decodes_records else first.txid
            await send(_read_start(opened, skipped_by_client))
            await self._deliver(reads, opened, first, credit, self._throttled(first, quota, send))
        except asyncio.CancelledError:
            if self._stopping.is_set():  # the proxy closed the tail
                raise _stopping_error() from None
            raise
        except ClosedError as error:  # the proxy's own client is closed, not the reader
            raise _stopping_error() from error
        finally:
            del self._calls[credit.wake]
            self.quotas.end_call()
            try:
                await tasks.aclose()
            finally:  # a client that goes ends its requests first, and cancels the call then
                await reads.close(opened)

    async def _open(self, first: pb.ReadRequest) -> tuple[ReadProxy, OpenedRead]:
        if self.reads is None or self._stopping.is_set():
            raise self._other_role(READ, [*first.tried, self.membership.own_member.address])
        opened = await self.reads.open(
            first.namespace,
            first.stream,
            decode_start(first),
            stops_at_end=first.stops_at_end,
            advances_if_truncated=first.advances_if_truncated,
            tried=tuple(first.tried),
        )
        return self.reads, opened

    async def _deliver(
        self,
        reads: ReadProxy,
        opened: OpenedRead,
        first: pb.ReadRequest,
        credit: ReadCredit,
        send: SendResponse,
    ) -> None:
        if not first.decodes_records:
            await self._deliver_blocks(reads, opened, opened.cursor, first, credit, send)
            return
        decoded = DecodedRead(
            opened.cursor,
            credit,
            stream=first.stream,
            start=decode_start(first),
            position=opened.position,
        )
        try:
            await self._deliver_blocks(reads, opened, decoded, first, credit, send)
        finally:
            await decoded.aclose()

    async def _deliver_blocks(
        self,
        reads: ReadProxy,
        opened: OpenedRead,
        blocks: ReadCursor | DecodedRead,
        first: pb.ReadRequest,
        credit: ReadCredit,
        send: SendResponse,
    ) -> None:
        heartbeat_s = first.heartbeat_ms / 1000 if first.heartbeat_ms > 0 else None
        generation = opened.arrival.generation
        while await credit.wait(self._stopping):
            if generation != reads.generation:
                generation = reads.generation
                better = reads.find_better_proxy(opened)
                if better:
                    raise NotOwnerError(
                        f"read proxy {better} serves {opened.key} for this reader now", better
                    )
            try:
                block = await blocks.next(heartbeat_s)
            except TimeoutError:
                await send(pb.ReadResponse())
                continue
            if block is None:
                await send(pb.ReadResponse(is_end=not first.stops_at_end))
                return
            credit.take(block.size)
            await send(block.encoded())
        if self._stopping.is_set():
            raise _stopping_error()

    def _throttled(
        self, first: pb.ReadRequest, quota: CallerQuota, send: SendResponse
    ) -> SendResponse:
        """Return a ``send`` that waits after each message for as long as the quota demands."""

        async def send_and_wait(message: Message | bytes) -> None:
            await send(message)
            size = len(message) if isinstance(message, bytes) else 0
            left_s = quota.read_wait_s(first.namespace, first.stream, size) if size else 0.0
            while left_s > 0 and not self._stopping.is_set():
                await asyncio.sleep(min(left_s, _THROTTLED_BEAT_S))
                left_s -= _THROTTLED_BEAT_S
                if first.heartbeat_ms > 0:
                    await send(pb.ReadResponse())

        return send_and_wait

    # --- groups ---------------------------------------------------------------------------------

    async def _hold_membership(
        self, requests: AsyncIterator[pb.GroupRequest], send: SendResponse
    ) -> None:
        self._check_serving()
        if len(self._group_calls) >= GROUP_CALLS_MAX:
            raise TooManyRequestsError(f"this proxy holds {GROUP_CALLS_MAX} members of groups")
        wakeup = Wakeup()
        self._group_calls[wakeup] = None
        try:
            try:
                async with asyncio.timeout(SESSIONLESS_MS_MAX / 1000):
                    first = await anext(requests, None)
            except TimeoutError as error:
                raise UnavailableError("the call has no request") from error
            if first is None:
                raise InvalidArgumentError("the call has no request")
            call = GroupCall(self._namespaces, wakeup)
            await call.serve(first, requests, send, self._check_serving)
        finally:
            del self._group_calls[wakeup]

    def _check_serving(self) -> None:
        if self._stopping.is_set():
            raise _stopping_error()

    def _other_role(self, role: str, tried: Collection[str]) -> NotOwnerError:
        """Return the error that names a proxy with ``role``, untried and in this region if
        possible."""
        region = self.membership.own_member.region
        others = [member for member in self.membership.members(role) if member.is_accepting]
        others.sort(key=lambda member: (member.address in tried, member.region != region))
        return NotOwnerError(f"not a {role} proxy", others[0].address if others else "")


def _topic_calls(topics: TopicAdministration) -> dict[methods.Method, UnaryHandler]:
    return {
        methods.CREATE_TOPIC: topics.create_topic,
        methods.GROW_TOPIC: topics.grow_topic,
        methods.LIST_GROUPS: topics.list_groups,
        methods.DESCRIBE_TOPIC: topics.describe_topic,
        methods.DELETE_TOPIC: topics.delete_topic,
        methods.LIST_TOPICS: topics.list_topics,
        methods.CREATE_SUBSCRIPTION: topics.create_subscription,
        methods.READ_SUBSCRIPTION: topics.read_subscription,
        methods.COMMIT_SUBSCRIPTION: topics.commit_subscription,
        methods.RESET_SUBSCRIPTION: topics.reset_subscription,
        methods.TAKE_OVER_SUBSCRIPTION: topics.take_over_subscription,
        methods.STORE_ACKNOWLEDGEMENTS: topics.store_acknowledgements,
        methods.DELETE_SUBSCRIPTION: topics.delete_subscription,
        methods.LIST_SUBSCRIPTIONS: topics.list_subscriptions,
    }


def _namespace_calls(namespaces: NamespaceAdministration) -> dict[methods.Method, UnaryHandler]:
    return {
        methods.CREATE_NAMESPACE: namespaces.create_namespace,
        methods.LIST_NAMESPACES: namespaces.list_namespaces,
        methods.DELETE_NAMESPACE: namespaces.delete_namespace,
    }


def _stopping_error() -> NotOwnerError:
    return NotOwnerError("this proxy is stopping")


async def _submit_all(
    requests: AsyncIterator[pb.AppendRequest], session: AppendSession, wake: asyncio.Event
) -> None:
    async for request in requests:
        await session.take(request)
        await session.room()
    wake.set()


def _read_start(opened: OpenedRead, first_txid: int) -> pb.ReadResponse:
    start = pb.ReadStart(
        position=encode_position(opened.position),
        first_txid=first_txid,
        metadata_age_ms=opened.metadata_age_ms,
    )
    if opened.truncated is not None:
        start.truncated.CopyFrom(encode_position(opened.truncated))
    return pb.ReadResponse(start=start)


async def _grant_all(requests: AsyncIterator[pb.ReadRequest], credit: ReadCredit) -> None:
    async for request in requests:
        credit.grant(request.credit_bytes, request.credit_records)
    credit.end()
