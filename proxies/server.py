"""The gRPC shell of a proxy process: calls in, answers out, nothing decided.

One process is a write proxy, a read proxy, or both. What cannot be served by its role is answered
with NotOwnerError, which names a proxy of the other role.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Any

import grpc
import grpc.aio
from google.protobuf.message import Message
from grpc_health.v1 import health, health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection

from ..core.log.namespace import Namespace
from ..core.protocol.errors import (
    InvalidArgumentError,
    InvariantBrokenError,
    NotOwnerError,
    RhumblineError,
)
from ..core.runtime.metadata_store import MetadataStore
from ..core.runtime.runtime import Runtime
from ..core.runtime.tasks import Tasks
from . import methods
from . import rhumbline_pb2 as pb
from .administration import Administration
from .append_session import GATHER_SECONDS, AppendSession
from .claims import Claims
from .config import ProxyConfig
from .credit import Credit
from .messages import decode_item, decode_start, encode_answers
from .presence import READ, WRITE, Presence
from .read_proxy import ReadProxy
from .status import DETAILS_KEY, encode_details, encode_position, status_name
from .write_proxy import WriteProxy

Context = grpc.aio.ServicerContext[Any, Any]

_GRACE_SECONDS = 1.0
_CREDIT_BYTES = 1 << 20


class ProxyServer:
    """A proxy that serves until it is closed."""

    def __init__(
        self,
        runtime: Runtime,
        store: MetadataStore,
        namespaces: Callable[[str], Namespace],
        config: ProxyConfig,
        *,
        roles: Sequence[str],
        region: str,
    ) -> None:
        self.address = ""
        """host:port as others are told it; known once it serves."""
        self.status_address = ""
        """Where its figures are served, if they are; set by who serves them."""
        self._runtime = runtime
        self._store = store
        self._namespaces = namespaces
        self._config = config
        self._roles = tuple(roles)
        self._region = region
        self._server: grpc.aio.Server | None = None
        self._health = health.aio.HealthServicer()
        self._stopping = asyncio.Event()
        self._calls: dict[asyncio.Event, None] = {}
        self._presence: Presence | None = None
        self._writes: WriteProxy | None = None
        self._reads: ReadProxy | None = None

    async def start(self, host: str, port: int, *, advertised: str = "") -> None:
        """Listens (port 0 takes a free one) and registers. Raises OSError, MetadataError."""
        server = grpc.aio.server(options=methods.SERVER_OPTIONS)
        try:
            bound = server.add_insecure_port(f"{host}:{port}")
        except RuntimeError as error:
            raise OSError(f"cannot listen on {host}:{port}: {error}") from error
        self.address = advertised or f"{host}:{bound}"
        presence = self._presence = Presence(
            self._store,
            self._runtime,
            roles=self._roles,
            address=self.address,
            region=self._region,
            session_ttl_ms=self._config.session_ttl_ms,
        )
        if WRITE in self._roles:
            self._writes = WriteProxy(self._store, self._namespaces, presence, self._config)
        if READ in self._roles:
            self._reads = ReadProxy(self._namespaces, presence, self._config)
        self._add_services(server)
        await server.start()
        self._server = server
        await presence.join()
        await self._set_health(health_pb2.HealthCheckResponse.SERVING)

    async def aclose(self) -> None:
        """Hands streams over, ends calls, stops listening. Safe to repeat."""
        if self._stopping.is_set():
            return
        await self._set_health(health_pb2.HealthCheckResponse.NOT_SERVING)
        if self._writes is not None:
            await self._writes.aclose()
        self._stopping.set()
        for wake in self._calls:
            wake.set()
        if self._reads is not None:
            await self._reads.aclose()
        if self._server is not None:
            await self._server.stop(_GRACE_SECONDS)
        if self._presence is not None:
            await self._presence.leave()

    def statistics(self) -> dict[str, Any]:
        """Counters and sizes."""
        presence = self._presence
        return {
            "address": self.address,
            "region": self._region,
            "roles": list(self._roles),
            "registered": presence is not None and presence.session is not None,
            "sessions_lost": presence.lost_count if presence is not None else 0,
            "calls": len(self._calls),
            "write": self._writes.statistics() if self._writes is not None else None,
            "read": self._reads.statistics() if self._reads is not None else None,
        }

    def not_ready(self) -> str | None:
        """Why it should get no new clients; None if it should."""
        if self._stopping.is_set():
            return "stopping"
        if self._presence is None or self._presence.session is None:
            return "not registered in the metadata store"
        return None

    async def _set_health(self, status: int) -> None:
        for service in ("", methods.SERVICE):
            await self._health.set(service, status)

    # --- services -------------------------------------------------------------------------------

    def _add_services(self, server: grpc.aio.Server) -> None:
        assert self._presence is not None
        claims = self._writes.claims if self._writes is not None else Claims(self._store)
        admin = Administration(self._namespaces, self._presence, claims, self._writes)
        served: dict[methods.Method, Any] = {
            methods.APPEND: self._append,
            methods.READ: self._read,
            methods.CREATE_STREAM: admin.create_stream,
            methods.DELETE_STREAM: admin.delete_stream,
            methods.LIST_STREAMS: admin.list_streams,
            methods.DESCRIBE_STREAM: admin.describe_stream,
            methods.TRUNCATE_STREAM: admin.truncate_stream,
            methods.END_STREAM: admin.end_stream,
            methods.SET_POLICY: admin.set_policy,
            methods.SET_HOME_REGION: admin.set_home_region,
            methods.SET_ACCEPTING: admin.set_accepting,
            methods.GET_OWNER: admin.get_owner,
            methods.RELEASE_STREAM: admin.release_stream,
            methods.DESCRIBE_NAMESPACE: admin.describe_namespace,
        }
        handlers = {
            one.name: _stream_handler(one, work) if one.is_stream else _unary_handler(one, work)
            for one, work in served.items()
        }
        server.add_generic_rpc_handlers(
            (grpc.method_handlers_generic_handler(methods.SERVICE, handlers),)
        )
        health_pb2_grpc.add_HealthServicer_to_server(self._health, server)
        reflection.enable_server_reflection(
            (methods.SERVICE, health.SERVICE_NAME, reflection.SERVICE_NAME), server
        )

    # --- append ---------------------------------------------------------------------------------

    async def _append(self, requests: AsyncIterator[pb.AppendRequest]) -> AsyncIterator[Message]:
        if self._writes is None:
            raise self._other_role(WRITE)
        wake = asyncio.Event()
        session = AppendSession(
            self._writes,
            wake.set,
            bytes_max=self._config.session_bytes_max,
            tracer=self._runtime.tracer,
        )
        tasks = Tasks(on_failure=lambda _: wake.set())
        reading = tasks.spawn(_submit_all(requests, session, wake), "append call")
        self._calls[wake] = None
        try:
            while True:
                await wake.wait()
                if session.is_busy:
                    await asyncio.sleep(GATHER_SECONDS)
                wake.clear()
                answers = session.take_answers()
                if answers or session.take_ping():
                    yield encode_answers(answers)
                is_over = self._stopping.is_set() or reading.done()
                if is_over and session.outstanding_bytes == 0 and not session.has_answers:
                    if reading.done() and not reading.cancelled() and reading.exception():
                        reading.result()
                    return
        finally:
            del self._calls[wake]
            await tasks.aclose()

    # --- read -----------------------------------------------------------------------------------

    async def _read(
        self, requests: AsyncIterator[pb.ReadRequest]
    ) -> AsyncIterator[Message | bytes]:
        if self._reads is None:
            raise self._other_role(READ)
        first = await anext(requests, None)
        if first is None:
            raise InvalidArgumentError("a read begins with a request")
        start = decode_start(first)
        opened = await self._reads.open(
            first.namespace,
            first.stream,
            start,
            stops_at_end=first.stops_at_end,
            advances_if_truncated=first.advances_if_truncated,
            tried=tuple(first.tried),
        )
        credit = Credit(first.credit_bytes or _CREDIT_BYTES)
        heartbeat_s = first.heartbeat_ms / 1000 if first.heartbeat_ms > 0 else None
        tasks = Tasks(on_failure=lambda _: credit.end())
        self._calls[credit.wake] = None
        try:
            tasks.spawn(_grant_all(requests, credit), "read call")
            yield _read_start(opened.position, first.txid, opened.truncated)
            while await credit.wait(self._stopping):
                try:
                    block = await opened.cursor.next(heartbeat_s)
                except TimeoutError:
                    yield pb.ReadResponse()
                    continue
                if block is None:
                    yield pb.ReadResponse(is_end=not first.stops_at_end)
                    return
                credit.take(block.size)
                yield block.encoded()
            if self._stopping.is_set():
                raise NotOwnerError("this proxy is stopping")
        except asyncio.CancelledError:
            if self._stopping.is_set():  # its tail was closed below it
                raise NotOwnerError("this proxy is stopping") from None
            raise
        finally:
            del self._calls[credit.wake]
            await tasks.aclose()
            await self._reads.close(opened)

    def _other_role(self, role: str) -> NotOwnerError:
        assert self._presence is not None
        others = [one for one in self._presence.members(role) if one.is_accepting]
        near = [one for one in others if one.region == self._region] or others
        return NotOwnerError(f"this is no {role} proxy", near[0].address if near else "")


async def _submit_all(
    requests: AsyncIterator[pb.AppendRequest], session: AppendSession, wake: asyncio.Event
) -> None:
    async for request in requests:
        if not request.items:
            session.ping()
        for item in request.items:
            try:
                one = decode_item(item)
            except RhumblineError as error:
                session.refuse(item.id, error)
            else:
                session.submit(item.id, one, restarts=item.restarts)
        await session.room()
    wake.set()


def _read_start(position: Any, first_txid: int, truncated: Any) -> pb.ReadResponse:  # noqa: ANN401
    start = pb.ReadStart(position=encode_position(position), first_txid=first_txid)
    if truncated is not None:
        start.truncated.CopyFrom(encode_position(truncated))
    return pb.ReadResponse(start=start)


async def _grant_all(requests: AsyncIterator[pb.ReadRequest], credit: Credit) -> None:
    async for request in requests:
        credit.grant(request.credit_bytes)
    credit.end()


# --- errors to statuses -------------------------------------------------------------------------


async def _abort(context: Context, error: RhumblineError) -> None:
    code = grpc.StatusCode[status_name(error)]
    details = encode_details(error, code.value[0])
    await context.abort(code, str(error), trailing_metadata=((DETAILS_KEY, details),))


def _unary_handler(
    method: methods.Method, work: Callable[[Any], Awaitable[Message]]
) -> "grpc.RpcMethodHandler[Any, Any]":
    async def serve(request: Message, context: Context) -> Message | None:
        try:
            return await work(request)
        except RhumblineError as error:
            await _abort(context, error)
        return None

    return grpc.unary_unary_rpc_method_handler(
        serve,
        request_deserializer=method.request.FromString,
        response_serializer=_serialized,
    )


def _stream_handler(
    method: methods.Method, work: Callable[[Any], AsyncIterator[Message | bytes]]
) -> "grpc.RpcMethodHandler[Any, Any]":
    async def serve(
        requests: AsyncIterator[Message], context: Context
    ) -> AsyncIterator[Message | bytes]:
        try:
            async for response in work(requests):
                yield response
        except RhumblineError as error:
            await _abort(context, error)
        except AssertionError as error:
            await _abort(context, InvariantBrokenError(repr(error)))

    return grpc.stream_stream_rpc_method_handler(
        serve,
        request_deserializer=method.request.FromString,
        response_serializer=_serialized,
    )


def _serialized(message: Message | bytes) -> bytes:
    return message if isinstance(message, bytes) else message.SerializeToString()
