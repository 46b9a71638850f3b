"""``rhumbline archive``: run, serve, ls, verify, restore."""

from contextlib import suppress

import click
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from ...client.connect import Client
from ...coldstore.archive.manifest import Manifest
from ...coldstore.stores.open_store import open_cold_store
from ...core.log.metadata.stream_store import StreamStore
from ...core.log.namespace import create_namespace
from ...core.log.policy import StreamPolicy
from ...core.protocol.errors import (
    ConfigurationError,
    CorruptionError,
    InvalidArgumentError,
    NamespaceExistsError,
)
from ...core.runtime.cold_store import ColdStore
from ..options import Command, CommandSession, runs, session_options
from ..output import print_rows, say
from ..units import parse_bytes, parse_ms, show_bytes
from .policy_options import default_quorum

try:
    from ...coldstore.archive.archive_service import (
        ArchiveService,
        ArchiveServiceConfig,
        Pass,
        unarchived,
    )
    from ...coldstore.archive.catalog import list_manifests
    from ...coldstore.archive.cold_archives import ColdArchives
    from ...coldstore.archive.rate_limiter import Pace
    from ...coldstore.archive.restore import restore_stream
    from ...coldstore.archive.segment_archiver import SegmentArchiver
    from ...coldstore.archive.verify import verify_next
except ModuleNotFoundError as error:
    raise ConfigurationError(
        f"archives need {error.name}: pip install 'rhumbline[arrow]'"
    ) from error

_LISTED_MAX = 1000


@click.group()
def archive() -> None:
    """The archive is the cold copy of completed segments: open files, chained by digests."""


def _cold_option(command: Command) -> Command:
    return click.option(
        "--cold",
        help="URI of the cold store: file:///path, s3://bucket/prefix, webhdfs://host:port/root "
        "(default: cluster.cold).",
    )(command)


def _opened(session: CommandSession, cold: str | None) -> ColdStore:
    uri = cold or session.settings.cluster.cold
    if not uri:
        raise ConfigurationError("which cold store? give --cold URI, or set cluster.cold")
    return open_cold_store(uri)


def _progress() -> Progress:
    """Bars on stderr, shown on a terminal only."""
    console = Console(stderr=True)
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        console=console,
        disable=not console.is_terminal,
        transient=True,
    )


@archive.command()
@click.argument("streams", nargs=-1)
@_cold_option
@session_options
@runs
async def run(session: CommandSession, streams: tuple[str, ...], cold: str | None) -> None:
    """Archives the completed segments of STREAMS (default: all) that have no archive yet."""
    store = _opened(session, cold)
    done: list[Manifest] = []
    try:
        async with session.client() as client:
            waiting = await _unarchived(client, streams)
            known = StreamStore(client.store, client.namespace().name)
            archiver = SegmentArchiver(client.runtime, store, client.ledgers, known)
            with _progress() as progress:
                task = progress.add_task("archiving", total=len(waiting))
                for stream, lssn in waiting:
                    progress.update(task, description=f"{stream} segment {lssn}")
                    done.append(await archiver.archive(stream, lssn))
                    progress.advance(task)
    finally:
        await store.close()
    say(f"archived {len(done)} segments, {sum(m.record_count for m in done):,} records")
    print_rows([_row(one) for one in done], session.output, empty="nothing was left to archive")


@archive.command()
@_cold_option
@click.option("--every", default="10s", show_default=True, help="Pause between two looks.")
@click.option("--bytes-per-second", help="Bandwidth, reads and writes together; default: no limit.")
@session_options
@runs
async def serve(
    session: CommandSession, cold: str | None, every: str, bytes_per_second: str | None
) -> None:
    """Archives what is completed, for ever; lets hot copies and old segments go by the policies.

    Any number may run at once. Stop it with Ctrl-C or SIGTERM at any time.
    """
    pace = Pace(parse_bytes(bytes_per_second) if bytes_per_second else None)
    config = ArchiveServiceConfig(pause_ms=parse_ms(every))
    store = _opened(session, cold)
    try:
        async with session.client() as client:
            namespace = client.namespace(archives=ColdArchives(store, client.namespace().name))
            known = StreamStore(client.store, namespace.name)
            archiver = SegmentArchiver(client.runtime, store, client.ledgers, known, pace=pace)
            service = ArchiveService(
                client.runtime, client.store, namespace, archiver, config=config, on_pass=_report
            )
            say(f"archiving namespace {namespace.name} to {store.uri}")
            await service.run()
    finally:
        await store.close()


def _report(done: Pass) -> None:
    if done.archived or done.retired or done.purged:
        say(f"archived {done.archived}, retired {done.retired}, purged {done.purged} segments")
    for stream, fault in done.faults.items():
        say(f"{stream or 'metadata store'}: {fault}")


@archive.command()
@click.argument("streams", nargs=-1)
@_cold_option
@session_options
@runs
async def restore(session: CommandSession, streams: tuple[str, ...], cold: str | None) -> None:
    """Makes STREAMS (default: all) of the namespace again from their archive alone.

    For a fresh cluster: the streams must not exist. Every record gets its old DLSN. Read them with
    cluster.cold set; what is appended follows.
    """
    store = _opened(session, cold)
    try:
        async with session.client() as client:
            name = client.namespace().name
            found = await list_manifests(store, name)
            wanted = {one.stream for one in found} if not streams else set(streams)
            if missing := sorted(wanted - {one.stream for one in found}):
                raise InvalidArgumentError(f"no archive of {', '.join(missing)} in {store.uri}")
            quorum = default_quorum(await client.directory.configured())
            with suppress(NamespaceExistsError):  # its policy is somebody's choice
                await create_namespace(client.store, client.runtime, name, StreamPolicy(quorum))
            known = StreamStore(client.store, name)
            rows = []
            with _progress() as progress:
                task = progress.add_task("restoring", total=len(wanted))
                for stream in sorted(wanted):
                    manifests = [one for one in found if one.stream == stream]
                    await restore_stream(client.store, known, manifests)
                    rows.append(
                        {
                            "stream": stream,
                            "segments": len(manifests),
                            "records": sum(one.record_count for one in manifests),
                        }
                    )
                    progress.advance(task)
    finally:
        await store.close()
    print_rows(rows, session.output, empty=f"no archives of {name} in {store.uri}")


@archive.command()
@click.argument("prefix", required=False, default="")
@_cold_option
@session_options
@runs
async def ls(session: CommandSession, prefix: str, cold: str | None) -> None:
    """Lists archived segments below PREFIX (NAMESPACE or NAMESPACE/STREAM). Asks no server."""
    store = _opened(session, cold)
    try:
        found = await list_manifests(store, prefix)
    finally:
        await store.close()
    print_rows([_row(one) for one in found], session.output, empty=f"no archives in {store.uri}")


@archive.command()
@click.argument("prefix", required=False, default="")
@_cold_option
@session_options
@runs
async def verify(session: CommandSession, prefix: str, cold: str | None) -> None:
    """Reads every byte of the archives below PREFIX and walks the chain. Asks no server."""
    store = _opened(session, cold)
    rows, faults = [], 0
    try:
        found = await list_manifests(store, prefix)
        previous: Manifest | None = None
        with _progress() as progress:
            task = progress.add_task("verifying", total=len(found))
            for one in found:
                same = previous is not None and _stream_of(previous) == _stream_of(one)
                verdict = await verify_next(store, one, previous if same else None)
                faults += len(verdict.faults)
                rows.append(_row(one) | {"verdict": "; ".join(verdict.faults) or "ok"})
                previous = one
                progress.advance(task)
    finally:
        await store.close()
    print_rows(rows, session.output, empty=f"no archives in {store.uri}")
    if faults:
        raise CorruptionError(f"{faults} faults in {len(rows)} archived segments")
    records = sum(one.record_count for one in found)
    say(f"{len(rows)} segments, {records:,} records: every byte is right")


async def _unarchived(client: Client, streams: tuple[str, ...]) -> list[tuple[str, int]]:
    namespace = client.namespace()
    names = list(streams)
    while not streams:
        page = await namespace.streams(after=names[-1] if names else None, limit=_LISTED_MAX)
        names.extend(page)
        if len(page) < _LISTED_MAX:
            break
    return [(name, lssn) for name in names for lssn in await unarchived(namespace, name)]


def _stream_of(manifest: Manifest) -> tuple[str, str]:
    return manifest.namespace, manifest.stream


def _row(manifest: Manifest) -> dict[str, object]:
    return {
        "stream": f"{manifest.namespace}/{manifest.stream}",
        "segment": manifest.lssn,
        "records": manifest.record_count,
        "payload": show_bytes(manifest.payload_bytes),
        "files": len(manifest.parts),
        "stored": show_bytes(sum(part.size_bytes for part in manifest.parts)),
        "digest": manifest.content_digest[:16],
    }
