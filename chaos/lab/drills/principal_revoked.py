"""The permission of one of two applications is taken away while both append through a proxy."""

import asyncio
from contextlib import AsyncExitStack
from pathlib import Path

from ....client.connect import connect
from ....core.log.api.log_client import LogClient
from ....core.protocol.errors import AppendOutcomeUnknownError, PermissionDeniedError
from ....core.protocol.start import EARLIEST
from ...local_server import LocalServer
from .drill import DrillOutcome, SteadyAppends, running

BOUND_S = 5.0
_REFUSED_FOR_S = 2.0


async def run(folder: Path) -> list[DrillOutcome]:
    """Run the drill below ``folder``, and return its outcomes. Raises UnavailableError."""
    server = LocalServer(folder, tokens=True, access_control=True)
    await asyncio.to_thread(server.start)
    try:
        return await _run(server)
    finally:
        await asyncio.to_thread(server.close)


async def _run(server: LocalServer) -> list[DrillOutcome]:
    now = asyncio.get_running_loop().time
    async with AsyncExitStack() as closing:

        async def client(name: str, *roles: str) -> LogClient:
            token = server.token(name, *roles)
            found = connect(server.uri, tls=server.client_tls(), token=token)
            return await closing.enter_async_context(found)

        operator = await client("operator", "admin")
        loads = []
        for name in ("revoked", "other"):
            await operator.namespace().create_stream(name)
            await asyncio.to_thread(server.grant, name, ["append"], f"stream:default/{name}")
            loads.append(SteadyAppends(await client(name), name))
        revoked, other = loads
        async with running(*loads):
            began = now()
            await asyncio.to_thread(server.revoke, "revoked", ["append"], "stream:default/revoked")
            in_force = now()
            await asyncio.sleep(_REFUSED_FOR_S)
            last_ms = (max(at for _, at in revoked.acknowledged) - began) * 1000
            errors = [error for error, _ in revoked.errors]
            late = [number for number, at in revoked.acknowledged if at > in_force]
            await other.wait_for(50)
            await asyncio.to_thread(server.grant, "revoked", ["append"], "stream:default/revoked")
            await revoked.wait_for(20)
        stored = await _read(operator, "revoked")
    known = (PermissionDeniedError, AppendOutcomeUnknownError)
    missing = {number for number, _ in revoked.acknowledged} - set(stored)
    return [
        DrillOutcome(
            f"appends end within {BOUND_S:g} s", last_ms < BOUND_S * 1000,
            f"the last acknowledgement came {last_ms:.0f} ms after the command began",
        ),
        DrillOutcome("nothing is acknowledged once that is in force", not late, f"{late}"),
        DrillOutcome(
            "the application learns the reason",
            any(isinstance(error, PermissionDeniedError) for error in errors)
            and all(isinstance(error, known) for error in errors),
            f"{len(errors)} errors",
        ),
        DrillOutcome("all acknowledged records are stored", not missing, f"{len(stored)} records"),
        DrillOutcome(
            "the other application notices nothing", not other.errors,
            f"{len(other.acknowledged)} appends, longest gap {other.longest_gap_ms:.0f} ms",
        ),
        DrillOutcome("the audit log has the refusals", _has_refusal(server)),
    ]  # fmt: skip


async def _read(client: LogClient, stream: str) -> list[int]:
    found: list[int] = []
    end = await client.namespace().end(stream)
    async with client.reader(stream, EARLIEST) as reader:
        while (batch := await reader.next_batch(until=end)) is not None:
            found += map(int, batch.payloads())
    return found


def _has_refusal(server: LocalServer) -> bool:
    lines = server.audit_log.read_text().splitlines()
    return any('"permission-denied"' in line and '"revoked"' in line for line in lines)
