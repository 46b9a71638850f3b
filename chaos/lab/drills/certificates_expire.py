"""All servers get certificates that have expired, and then new ones, while applications append."""

import asyncio
from contextlib import AsyncExitStack
from pathlib import Path

from ....client.connect import connect
from ....core.ledger.config import LedgerConfig
from ....security.principal import Role
from ....security.settings import TlsSettings
from ....tls.authority import Authority
from ...local_server import LOCAL_REGION, LocalServer
from .drill import DrillOutcome, SteadyAppends, append_once, running

_ROLES = (Role.BOOKIE, Role.PROXY, Role.REPAIR)
_DAYS = 1
_LATE = ("late-proxied", "late-direct")
_PICKED_UP_S = 2.5
"""Servers look at their files once a second."""
_IMPATIENT = LedgerConfig(replacement_wait_ms_max=200, quorum_timeout_ms=1_000)


async def run(folder: Path) -> list[DrillOutcome]:
    """Run the drill below ``folder``, and return its outcomes. Raises UnavailableError."""
    server = LocalServer(folder)
    await asyncio.to_thread(server.start)
    try:
        return await _run(server)
    finally:
        await asyncio.to_thread(server.close)


async def _run(server: LocalServer) -> list[DrillOutcome]:
    tls, metadata = server.client_tls("app", Role.ADMIN), server.metadata_uri
    assert tls is not None
    authority = Authority(Path(tls.ca).parent)
    async with AsyncExitStack() as closing:
        proxied = await closing.enter_async_context(connect(server.uri, tls=tls))
        direct = await closing.enter_async_context(connect(metadata, region=LOCAL_REGION, tls=tls))
        for stream in ("proxied", "direct", *_LATE):
            await proxied.namespace().create_stream(stream)
        loads = [SteadyAppends(proxied, "proxied"), SteadyAppends(direct, "direct")]
        async with running(*loads):
            authority.issue("server", _ROLES, hosts=["127.0.0.1"], days=-_DAYS)
            await asyncio.sleep(_PICKED_UP_S)
            refused = await _append_anew(server, tls, _IMPATIENT)
            for load in loads:
                await load.wait_for(50)
            authority.issue("server", _ROLES, hosts=["127.0.0.1"], days=_DAYS)
            await asyncio.sleep(_PICKED_UP_S)
            served = await _append_anew(server, tls)
            for load in loads:
                await load.wait_for(50)
    return [
        DrillOutcome(
            "new connections are refused while the certificates have expired",
            all(error is not None for error in refused),
            ", ".join(type(error).__name__ for error in refused),
        ),
        DrillOutcome("new connections are served with new certificates", served == [None, None]),
        *(
            DrillOutcome(
                f"no append over an open connection fails ({load.stream})",
                not load.errors,
                f"{len(load.acknowledged)} appends, longest gap {load.longest_gap_ms:.0f} ms",
            )
            for load in loads
        ),
    ]


async def _append_anew(
    server: LocalServer, tls: TlsSettings, ledger: LedgerConfig | None = None
) -> list[Exception | None]:
    """Append with new connections, through the proxy and directly; return the errors."""
    direct = connect(server.metadata_uri, region=LOCAL_REGION, tls=tls, ledger=ledger)
    proxied = connect(server.uri, tls=tls)
    return [await append_once(*one) for one in zip((proxied, direct), _LATE, strict=True)]
