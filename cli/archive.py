"""``rhumbline archive``: run, ls, verify."""

import click
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from ..client.connect import Client
from ..coldstore.manifest import Manifest
from ..coldstore.open import open_cold_store
from ..core.log.stream_store import StreamStore
from ..core.protocol.errors import ConfigurationError, CorruptionError
from ..core.protocol.segments import Residence
from .options import Command, Session, runs, session_options
from .output import print_rows, say
from .units import show_bytes

try:
    from ..coldstore.archive import SegmentArchiver
    from ..coldstore.catalog import list_manifests, verify_next
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
        required=True,
        envvar="RHUMBLINE_COLD",
        help="URI of the cold store: file:///path, s3://bucket/prefix, webhdfs://host:port/root.",
    )(command)


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
async def run(session: Session, streams: tuple[str, ...], cold: str) -> None:
    """Archives the completed segments of STREAMS (default: all) that have no archive yet."""
    store = open_cold_store(cold)
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
@click.argument("prefix", required=False, default="")
@_cold_option
@session_options
@runs
async def ls(session: Session, prefix: str, cold: str) -> None:
    """Lists archived segments below PREFIX (NAMESPACE or NAMESPACE/STREAM). Asks no server."""
    store = open_cold_store(cold)
    try:
        found = await list_manifests(store, prefix)
    finally:
        await store.close()
    print_rows([_row(one) for one in found], session.output, empty=f"no archives in {cold}")


@archive.command()
@click.argument("prefix", required=False, default="")
@_cold_option
@session_options
@runs
async def verify(session: Session, prefix: str, cold: str) -> None:
    """Reads every byte of the archives below PREFIX and walks the chain. Asks no server."""
    store = open_cold_store(cold)
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
    print_rows(rows, session.output, empty=f"no archives in {cold}")
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
    return [
        (name, item.lssn)
        for name in names
        for item in (await namespace.describe(name)).segments
        if item.is_completed and item.residence is Residence.HOT
    ]


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
