"""The requests that change the cluster: planned, permitted, confirmed and audited (CON-5 to CON-8).

They are only served if the console was started with actions; its other requests read.
"""

import asyncio
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from ....core.protocol.errors import InvalidArgumentError
from ..requests import check_own_page, read_object
from ..visitors import Visitors
from .actions import ActionKind, Actions
from .operations_view import OperationsView

_TARGET_CHARACTERS_MAX = 400
_DEADLINE_S = 30.0


class ActionRoutes:
    """Answers requests about actions."""

    def __init__(self, actions: Actions, visitors: Visitors, view: OperationsView) -> None:
        self._actions = actions
        self._visitors = visitors
        self._view = view

    async def plan(self, request: Request) -> Response:
        """Describe an action without doing it."""
        caller = await self._visitors.caller(request)
        kind, target = _named(dict(request.query_params))
        self._visitors.check_acts(caller, kind, target)
        async with asyncio.timeout(_DEADLINE_S):
            return JSONResponse((await self._actions.plan(kind, target)).as_document())

    async def act(self, request: Request) -> Response:
        """Do an action that the visitor confirmed; whatever its end is, it is audited."""
        check_own_page(request)
        caller = await self._visitors.caller(request)
        given = await read_object(request)
        kind, target = _named(given)
        self._visitors.check_acts(caller, kind, target)
        with self._visitors.audited(caller, kind, target):
            async with asyncio.timeout(_DEADLINE_S):
                message = await self._actions.act(kind, target, str(given.get("basis", "")))
        self._view.forget()
        return JSONResponse({"message": message})


def _named(given: dict[str, Any]) -> tuple[ActionKind, str]:
    kind, target = given.get("kind"), given.get("target")
    if kind not in tuple(ActionKind):
        raise InvalidArgumentError(f"the action is not one of {', '.join(ActionKind)}")
    if not isinstance(target, str) or not 0 < len(target) <= _TARGET_CHARACTERS_MAX:
        bound = f"{_TARGET_CHARACTERS_MAX} characters"
        raise InvalidArgumentError(f"the target is missing, or longer than {bound}")
    return ActionKind(kind), target
