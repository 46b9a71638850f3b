"""Ends a call that lasts longer than the token or certificate of its caller (rule SEC-42)."""

import asyncio
from collections.abc import Coroutine
from typing import Any

from ...core.protocol.errors import UnauthorizedError, UnavailableError
from ...core.runtime.tasks import Tasks
from .call_identity import CallIdentity

CHECK_S = 4.0
"""Interval at which the caller of a call in progress is verified again."""


async def serve_while_identity_is_valid(
    identity: CallIdentity,
    context: Any,  # noqa: ANN401 - grpc's ServicerContext
    serving: Coroutine[Any, Any, None],
) -> None:
    """Serve a streaming call until it ends. Calls of anonymous callers are not watched.

    Raises UnavailableError once the token has expired or was revoked, or the certificate has
    expired. The error is retryable, so a client with a new one continues, and the next call of
    another client is refused. Also raises what the call raises.
    """
    if not identity.can_end(context):
        await serving
        return
    tasks = Tasks(on_failure=lambda _: None)  # the error is that of the call
    task = tasks.spawn(serving, "call with an identity")
    try:
        while not (await asyncio.wait({task}, timeout=CHECK_S))[0]:
            try:
                await identity.principal(context)
            except UnauthorizedError as error:
                raise UnavailableError(
                    f"the call has outlived its caller's identity: {error}"
                ) from error
        task.result()
    finally:
        await tasks.aclose()
