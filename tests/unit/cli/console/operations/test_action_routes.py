"""Requests for actions are bounded, also before anybody knows what they ask for."""

import asyncio

import pytest
from starlette.requests import Request
from starlette.types import Message

from rhumbline.backends.memory import MemoryStore
from rhumbline.cli.console.operations.action_routes import ActionRoutes
from rhumbline.cli.console.operations.actions import Actions
from rhumbline.cli.console.operations.operations_view import OperationsView
from rhumbline.cli.console.visitors import Visitors
from rhumbline.client.connect import Client
from rhumbline.tests.support.fakes.jumping_loop import run_jumping
from rhumbline.tls.protection import UNPROTECTED

pytestmark = pytest.mark.run_by(runner=run_jumping)


async def test_a_request_whose_body_does_not_arrive_is_given_up() -> None:
    """It held a connection for ever, and a few hundred of them held the console."""

    async def never() -> Message:
        await asyncio.Event().wait()
        raise AssertionError

    store = MemoryStore()
    client = Client("memory://", store=store, moves_data=False)
    visitors = Visitors(store, UNPROTECTED)
    routes = ActionRoutes(Actions(client), visitors, OperationsView(client))
    headers = [(b"host", b"here"), (b"content-type", b"application/json")]
    request = Request({"type": "http", "method": "POST", "headers": headers}, never)
    async with asyncio.timeout(60):
        with pytest.raises(TimeoutError):
            await routes.act(request)
