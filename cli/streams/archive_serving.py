"""``rhumbline archive serve``: the process that archives continuously."""

from contextlib import AsyncExitStack
from typing import Any

import click

from ...client.units import parse_bytes, parse_ms, show_count
from ...core.log.metadata.stream_store import StreamStore
from ...core.protocol.installation import needs_extra
from ...core.runtime.primitives.rate_limiter import RateLimiter
from ...core.runtime.tasks import run_all
from ...server.server_directory import ServerRecord
from ...server.status_server import StatusServer
from ...tls.protection import certificate_statistics
from ..options import CommandSession, runs, session_options
from ..output import print_message
from ..output_schema import prints
from ..servers.serving import (
    SERVING,
    announced,
    host_option,
    start_status,
    status_host_option,
    status_port_option,
)
from .archive_tables import open_tables, table_registrar
from .cold_options import cold_option, opened_cold

with needs_extra("an archive", "arrow"):
    from ...coldstore.archive.archive_service import (
        ArchivePass,
        ArchiveService,
        ArchiveServiceConfig,
    )
    from ...coldstore.archive.cold_archives import ColdArchives
    from ...coldstore.archive.segment_archiver import SegmentArchiver
    from ...coldstore.index.indexer import Indexer


def _report(done: ArchivePass) -> None:
    if done.archived or done.retired or done.purged or done.expired:
        print_message(
            f"archived {done.archived}, retired {done.retired}, "
            f"purged {show_count(done.purged, 'segment')}, "
            f"deleted {show_count(done.expired, 'old archive')}"
        )
    for stream, fault in done.faults.items():
        print_message(f"{stream or 'metadata store'}: {fault}")


@click.command()
@cold_option
@click.option("--every", default="10s", show_default=True, help="Interval between two passes.")
@click.option("--bytes-per-second", help="Limit of reads and writes together. [default: no limit]")
@host_option
@status_host_option
@status_port_option
@prints(SERVING)
@session_options
@runs
async def serve(
    session: CommandSession, cold: str | None, every: str, bytes_per_second: str | None
) -> None:
    """Archive completed segments continuously; delete hot copies and old archives by policy.

    It also truncates and purges the namespace's streams, as the repair process does. Several
    processes may run concurrently. Ctrl-C or SIGTERM stops the command at any time. /stat on the
    status port shows the progress and how far it is behind.
    """
    rate = parse_bytes(bytes_per_second) if bytes_per_second else None
    rate_limiter = RateLimiter(rate, burst=rate or 0)
    config = ArchiveServiceConfig(pause_ms=parse_ms(every))
    store = opened_cold(session, cold)
    with session.server_log("archive"):
        try:
            async with AsyncExitStack() as closing:
                client = await closing.enter_async_context(session.client())
                namespace = client.namespace(archives=ColdArchives(store, client.namespace().name))
                known = StreamStore(namespace.store, namespace.name)
                archiver = SegmentArchiver(
                    client.runtime,
                    store,
                    namespace.ledgers,
                    known,
                    rate_limiter=rate_limiter,
                    config=session.settings.archive,
                )
                service = ArchiveService(
                    client.runtime,
                    namespace.store,
                    namespace,
                    archiver,
                    config=config,
                    on_pass=_report,
                )

                indexer = Indexer(
                    store, namespace.name, pause_ms=session.settings.archive.index_interval_ms
                )
                tables = open_tables(session, cold)
                registrar = None
                if tables is not None:
                    closing.push_async_callback(tables.close)
                    registrar = table_registrar(
                        session, store, namespace.name, tables, client.runtime.clock
                    )

                def statistics() -> dict[str, Any]:
                    return {
                        **service.statistics(),
                        "index": indexer.statistics(),
                        **({} if registrar is None else {"tables": registrar.statistics()}),
                        "client": client.statistics(),
                        "tls": certificate_statistics(session.protection),
                    }

                status = StatusServer(
                    statistics, lambda: None, service="archive", protection=session.protection
                )
                closing.push_async_callback(status.aclose)
                address = await start_status(status, session, "archive")
                message = f"archiving namespace {namespace.name} to {store.uri}"
                server = ServerRecord("archive", "", address, client.region or "")
                await closing.enter_async_context(announced(session, client, message, server))
                works = [service.run(), indexer.run()] + (
                    [] if registrar is None else [registrar.run()]
                )
                await run_all(works, "archiving")
        finally:
            await store.close()
