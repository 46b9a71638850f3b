"""Requests of the page Chaos: list what can be run, start a run, cancel it, and get its replay."""

import asyncio
from functools import cache
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from ....core.protocol.errors import InvalidArgumentError, UnavailableError
from ....core.protocol.installation import is_lab_installed, lab_module
from ..requests import JSON, is_json, read_object
from ..visitors import Visitors
from .chaos_run import RUN_S_MAX, ChaosRun

KINDS = ("scenario", "plan", "bug")
SEED_MAX = 1_000_000


class ChaosRoutes:
    """Answers requests about runs of the simulator. All need the permission to see the cluster."""

    def __init__(self, visitors: Visitors) -> None:
        self._visitors = visitors
        self._run = ChaosRun()
        self.routes = [
            Route("/api/chaos", self._list),
            Route("/api/chaos/run", self._status, methods=["GET"]),
            Route("/api/chaos/run", self._start, methods=["POST"]),
            Route("/api/chaos/run", self._cancel, methods=["DELETE"]),
            Route("/api/chaos/replay", self._replay),
        ]

    async def aclose(self) -> None:
        """End the run that is in progress. Safe to repeat."""
        await self._run.aclose()

    async def _check(self, request: Request) -> None:
        self._visitors.check_cluster(await self._visitors.caller(request))

    async def _list(self, request: Request) -> Response:
        await self._check(request)
        if not is_lab_installed():
            return JSONResponse({"is_installed": False})
        found = await asyncio.to_thread(_catalogue)
        return JSONResponse(
            {"is_installed": True, "seed_max": SEED_MAX, "run_s_max": RUN_S_MAX, "runs": found}
        )

    async def _status(self, request: Request) -> Response:
        await self._check(request)
        return JSONResponse(self._run.status())

    async def _start(self, request: Request) -> Response:
        await self._check(request)
        kind, name, seed = _wanted(await _body(request))
        if not is_lab_installed():
            raise UnavailableError("the simulator (rhumbline-lab) is not installed here")
        found = await asyncio.to_thread(_catalogue)
        if name not in {one["name"] for one in found[kind]}:
            raise InvalidArgumentError(f"there is no {kind} {name[:80]!r}")
        self._run.start(kind, name, seed)
        return JSONResponse(self._run.status(), 202)

    async def _cancel(self, request: Request) -> Response:
        await self._check(request)
        self._run.cancel()
        return JSONResponse(self._run.status())

    async def _replay(self, request: Request) -> Response:
        await self._check(request)
        found = self._run.replay
        if found is None or request.query_params.get("number") != str(self._run.number):
            raise InvalidArgumentError("this run has no replay, or a newer run was started")
        return Response(found, media_type=JSON)


@cache
def _catalogue() -> dict[str, list[dict[str, str]]]:
    found: dict[str, list[dict[str, str]]] = lab_module("chaos.lab.replay.catalogue").catalogue()
    return found


async def _body(request: Request) -> dict[str, Any]:
    """Return the JSON object that a request carries. Raises InvalidArgumentError (rule CON-15)."""
    if not is_json(request):
        raise InvalidArgumentError(f"the content type is not {JSON}")
    return await read_object(request)


def _wanted(body: dict[str, Any]) -> tuple[str, str, int]:
    kind, name, seed = body.get("kind"), body.get("name"), body.get("seed")
    if kind not in KINDS or not isinstance(name, str):
        raise InvalidArgumentError(f"kind is not one of {', '.join(KINDS)}, or name not a string")
    if not isinstance(seed, int) or isinstance(seed, bool) or not 0 <= seed <= SEED_MAX:
        raise InvalidArgumentError(f"seed is not an integer between 0 and {SEED_MAX}")
    return kind, name, seed
