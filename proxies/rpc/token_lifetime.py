"""Ends a call that lasts longer than the token of its caller is valid (rule SEC-42)."""

import asyncio
from collections.abc import Coroutine
from typing import Any

from ...core.protocol.errors import UnauthorizedError, UnavailableError
from ...core.runtime.tasks import Tasks
from .call_identity import CallIdentity

CHECK_S = 4.0
"""Interval at which the token of a call in progress is verified again."""


async def serve_while_token_is_valid(
    identity: CallIdentity,
    context: Any,  # noqa: ANN401 - grpc's ServicerContext
    serving: Coroutine[Any, Any, None],
) -> None:
    """Serve a streaming call until it ends. Calls without a token are not watched.

    Raises UnavailableError once the token has ended or was withdrawn: the error is retryable, so a
    client that has a new token goes on, and the next call of another one is refused. Raises also
    what the call raises.
    """
    if not identity.has_token(context):
        await serving
        return
    tasks = Tasks(on_failure=lambda _: None)  # the error is that of the call
    task = tasks.spawn(serving, "call with a token")
    try:
        while not (await asyncio.wait({task}, timeout=CHECK_S))[0]:
            try:
                await identity.principal(context)
            except UnauthorizedError as error:
                raise UnavailableError(f"the call has outlived its token: {error}") from error
        task.result()
    finally:
        await tasks.aclose()
