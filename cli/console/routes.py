"""The requests that the console answers. Only ``ActionRoutes`` change the cluster."""

import asyncio
import hashlib
from importlib.resources import files
from typing import NamedTuple

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from ...client.connect import Client
from ...core.protocol.dlsn import Dlsn
from ...core.protocol.errors import InvalidArgumentError, RhumblineError
from .chaos.chaos_routes import ChaosRoutes
from .cluster.cluster_watch import ClusterWatch
from .cluster.feed import FOLLOWERS_MAX, SnapshotFeed
from .cluster.snapshot import SNAPSHOT
from .cluster.survey import LOSSES_MAX, LedgerSurvey
from .event_streams import EventStream, StreamSlots
from .operations.action_routes import ActionRoutes
from .operations.actions import Actions
from .operations.operations_view import OperationsView
from .responses import error_response, late_response, unexpected_response
from .streams.live_tail import LiveTail
from .streams.record_trace import trace_record
from .streams.stream_names import StreamName, StreamNames
from .streams.stream_view import StreamView
from .visitors import Visitors

TAILS_MAX = 64
"""Maximum number of live tails at once."""
_ROWS_MAX = 100
_TEXT_MAX = 200
_OFFSET_MAX = 10_000_000
_DEADLINE_S = 30.0
_ASSETS = {
    "html": "text/html", "css": "text/css", "js": "text/javascript", "svg": "image/svg+xml",
    "json": "application/json",
}  # fmt: skip


class ConsoleRoutes:
    """Answers requests about one cluster. ``app`` is the ASGI application."""

    def __init__(
        self, client: Client, visitors: Visitors, interval_s: float, *, allows_actions: bool
    ) -> None:
        survey = LedgerSurvey(client)
        self.feed = SnapshotFeed(ClusterWatch(client, survey).take, interval_s)
        self._client = client
        self._visitors = visitors
        self._survey = survey
        self._names = StreamNames(client)
        self._view = StreamView(client)
        self._operations = OperationsView(client)
        self._allows_actions = allows_actions
        self._pages = StreamSlots(FOLLOWERS_MAX, f"{FOLLOWERS_MAX} pages are open already")
        self._tails = StreamSlots(TAILS_MAX, f"{TAILS_MAX} live tails are open already")
        self._assets = _read_assets()
        self.chaos = ChaosRoutes(visitors)
        self.app = Starlette(
            routes=[
                Route("/", self._page),
                Route("/pages/{name}", self._page),
                Route("/livez", self._alive),
                Route("/api/session", self._session),
                Route("/api/schema", self._schema),
                Route("/api/events", self._events),
                Route("/api/streams", self._streams),
                Route("/api/stream", self._stream),
                Route("/api/tail", self._tail),
                Route("/api/record", self._record),
                Route("/api/operations", self._work),
                Route("/api/durability", self._durability),
                *self.chaos.routes,
                *(self._action_routes() if allows_actions else ()),
            ],
            exception_handlers={
                RhumblineError: error_response,
                TimeoutError: late_response,
                Exception: unexpected_response,
            },
        )

    async def aclose(self) -> None:
        """End everything that is in progress. Safe to repeat."""
        await self.chaos.aclose()
        await self.feed.aclose()
        await self._survey.aclose()
        await self._names.aclose()

    def _action_routes(self) -> tuple[Route, Route]:
        acts = ActionRoutes(Actions(self._client), self._visitors, self._operations)
        return (
            Route("/api/action", acts.plan, methods=["GET"]),
            Route("/api/action", acts.act, methods=["POST"]),
        )

    # --- pages ----------------------------------------------------------------------------------

    async def _page(self, request: Request) -> Response:
        found = self._assets.get(request.path_params.get("name", "index.html"))
        if found is None:
            return JSONResponse({"code": "no-such-page", "error": "no such page"}, 404)
        headers = {"ETag": found.tag, "Cache-Control": "no-cache"}
        if request.headers.get("if-none-match") == found.tag:
            return Response(status_code=304, headers=headers)
        return Response(found.content, media_type=found.kind, headers=headers)

    async def _alive(self, _: Request) -> Response:
        return JSONResponse({"alive": True})

    # --- documents ------------------------------------------------------------------------------

    async def _session(self, request: Request) -> Response:
        caller = await self._visitors.caller(request)
        self._names.refresh()  # the first search need not wait for them
        return JSONResponse(
            {
                "principal": str(caller.principal),
                "sees_cluster": self._visitors.sees_cluster(caller),
                "may_act": self._allows_actions and self._visitors.may_act(caller),
            }
        )

    async def _schema(self, request: Request) -> Response:
        await self._visitors.caller(request)
        return JSONResponse(SNAPSHOT)

    async def _events(self, request: Request) -> Response:
        async def check() -> None:
            self._visitors.check_cluster(await self._visitors.caller(request))

        await check()
        return EventStream(self._pages, self.feed.follow(), check)

    async def _streams(self, request: Request) -> Response:
        visitors = self._visitors
        caller = await visitors.caller(request)
        search = _text(request, "search")
        offset = _number(request, "offset", 0, _OFFSET_MAX)
        limit = _number(request, "limit", 25, _ROWS_MAX)
        async with asyncio.timeout(_DEADLINE_S):
            page = await self._names.page(
                search, offset, limit, lambda name: visitors.may_list(caller, name)
            )
            rows = await self._view.rows(page.names)
        total = page.total if visitors.sees_cluster(caller) else None
        return JSONResponse({"streams": rows, "has_more": page.has_more, "total": total})

    async def _stream(self, request: Request) -> Response:
        caller = await self._visitors.caller(request)
        name = _stream_name(request)
        self._visitors.check_stream(caller, name)
        async with asyncio.timeout(_DEADLINE_S):
            return JSONResponse(await self._view.describe(name))

    async def _record(self, request: Request) -> Response:
        caller = await self._visitors.caller(request)
        name = _stream_name(request)
        self._visitors.check_stream(caller, name)
        position = Dlsn.parse(_text(request, "position"))
        async with asyncio.timeout(_DEADLINE_S):
            return JSONResponse(await trace_record(self._client, name, position))

    async def _work(self, request: Request) -> Response:
        self._visitors.check_cluster(await self._visitors.caller(request))
        async with asyncio.timeout(_DEADLINE_S):
            return JSONResponse(await self._operations.read())

    async def _tail(self, request: Request) -> Response:
        name = _stream_name(request)

        async def check() -> None:
            self._visitors.check_stream(await self._visitors.caller(request), name)

        await check()
        after = _text(request, "after")
        tail = LiveTail(
            await self._view.open(name),
            name.stream,
            after=Dlsn.parse(after) if after else None,
            wanted=_text(request, "filter"),
        )
        return EventStream(self._tails, tail.events(), check)

    async def _durability(self, request: Request) -> Response:
        caller = await self._visitors.caller(request)
        self._visitors.check_cluster(caller)
        names = request.query_params.getlist("lose")
        if len(names) > LOSSES_MAX or any(len(name) > _TEXT_MAX for name in names):
            raise InvalidArgumentError(
                f"more than {LOSSES_MAX} places are lost, or a name is longer than {_TEXT_MAX} "
                "characters"
            )
        async with asyncio.timeout(_DEADLINE_S):
            return JSONResponse(await self._survey.what_if(names))


class _Asset(NamedTuple):
    """A file of the pages, which browsers may keep and have confirmed by its tag."""

    content: bytes
    kind: str
    tag: str


def _read_assets() -> dict[str, _Asset]:
    """Return the files of the pages by name."""
    found = {}
    for item in (files(__package__) / "pages").iterdir():
        kind = _ASSETS.get(item.name.rpartition(".")[2])
        if kind is not None:
            content = item.read_bytes()
            found[item.name] = _Asset(content, kind, f'"{hashlib.sha256(content).hexdigest()}"')
    return found


def _text(request: Request, name: str) -> str:
    found = request.query_params.get(name, "")
    if len(found) > _TEXT_MAX:
        raise InvalidArgumentError(f"{name} is longer than {_TEXT_MAX} characters")
    return found


def _number(request: Request, name: str, default: int, highest: int) -> int:
    found = request.query_params.get(name, str(default))
    if not (found.isascii() and found.isdecimal() and len(found) < 10 and int(found) <= highest):
        raise InvalidArgumentError(f"{name} {found[:20]!r} is not between 0 and {highest}")
    return int(found)


def _stream_name(request: Request) -> StreamName:
    namespace, stream = _text(request, "namespace"), _text(request, "stream")
    if not namespace or not stream:
        raise InvalidArgumentError("namespace and stream are not given")
    return StreamName(namespace, stream)
