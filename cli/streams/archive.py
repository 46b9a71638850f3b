"""``rhumbline archive``: run, serve, ls, verify, restore."""

from contextlib import suppress
from functools import partial
from typing import Any

import click

from ...client.connect import Client
from ...client.units import parse_bytes, parse_ms, show_bytes, show_count
from ...coldstore.archive.manifest import Manifest
from ...coldstore.stores.open_store import open_cold_store
from ...core.log.metadata.stream_store import StreamStore
from ...core.log.policy import StreamPolicy
from ...core.protocol.errors import (
    ConfigurationError,
    CorruptionError,
    InvalidArgumentError,
    NamespaceExistsError,
)
from ...core.protocol.installation import needs_extra
from ...core.runtime.cold_store import ColdStore
from ...core.runtime.primitives.rate_limiter import RateLimiter
from ...server.status_server import StatusServer
from ..options import Command, CommandSession, runs, session_options
from ..output import ProgressBar, print_message, print_rows
from ..waiting import wait_count_options, wait_until
from .policy_options import PolicyOptions, default_quorum, policy_options

with needs_extra("an archive", "arrow"):
    from ...coldstore.archive.archive_service import (
        ArchivePass,
        ArchiveService,
        ArchiveServiceConfig,
        check_archives_exist,
        unarchived_lssns,
    )
    from ...coldstore.archive.catalog import list_manifests, scan_manifests
    from ...coldstore.archive.cold_archives import ColdArchives
    from ...coldstore.archive.copy_archive import copy_archive
    from ...coldstore.archive.restore import (
        archived_policy,
        check_chain,
        check_name_is_free,
        restore_stream,
    )
    from ...coldstore.archive.segment_archiver import SegmentArchiver
    from ...coldstore.archive.verify import verify_next

_LISTED_MAX = 1000
_IDENTITY_BYTES = 16


@click.group()
def archive() -> None:
    """Archive completed segments to cold storage: open file formats, chained by digests."""


def _cold_option(command: Command) -> Command:
    return click.option(
        "--cold",
        help="URI of the cold store: file:///path, s3://bucket/prefix, webhdfs://host:port/root. "
        "[default: cluster.cold]",
    )(command)


def _opened(session: CommandSession, cold: str | None) -> ColdStore:
    uri = cold or session.settings.cluster.cold
    if not uri:
        raise ConfigurationError("no cold store: give --cold URI, or set cluster.cold")
    return open_cold_store(uri)


@archive.command()
@click.argument("streams", nargs=-1)
@_cold_option
@session_options
@runs
async def run(session: CommandSession, streams: tuple[str, ...], cold: str | None) -> None:
    """Archive the completed segments of STREAMS (default: all) that are not archived yet.

    It is an error if the cold store lacks segments that were archived before.
    """
    store = _opened(session, cold)
    done: list[Manifest] = []
    try:
        async with session.client() as client:
            names = list(streams) or await _all_streams(client)
            waiting = await _unarchived(client, names)
            namespace = client.namespace()
            known = StreamStore(namespace.store, namespace.name)
            archiver = SegmentArchiver(client.runtime, store, namespace.ledgers, known)
            with ProgressBar() as progress:
                for stream, lssn in waiting:
                    progress.show(f"{stream} segment {lssn}", len(done), len(waiting))
                    done.append(await archiver.archive(stream, lssn))
            records = sum(manifest.record_count for manifest in done)
            segments = show_count(len(done), "segment")
            print_message(f"archived {segments}, {show_count(records, 'record')}")
            rows = [_row(manifest) for manifest in done]
            print_rows(rows, session.output, empty="no segment to archive")
            await check_archives_exist(client.namespace(), store, names)
    finally:
        await store.close()


@archive.command()
@_cold_option
@click.option("--every", default="10s", show_default=True, help="Interval between two passes.")
@click.option("--bytes-per-second", help="Limit of reads and writes together. [default: no limit]")
@click.option(
    "--host", default="127.0.0.1", show_default=True, help="Address of the status server."
)
@click.option("--status-port", type=click.IntRange(0, 65535), default=0, show_default=True,
              help="Port of the status server; 0 selects a free one.")  # fmt: skip
@session_options
@runs
async def serve(
    session: CommandSession, cold: str | None, every: str, bytes_per_second: str | None,
    host: str, status_port: int,
) -> None:  # fmt: skip
    """Archive completed segments continuously; delete hot copies and old archives by policy.

    It also truncates and purges the namespace's streams, as the repair process does. Several
    processes may run concurrently. Ctrl-C or SIGTERM stops the command at any time. /stat on the
    status port shows the progress and how far it is behind.
    """
    rate = parse_bytes(bytes_per_second) if bytes_per_second else None
    rate_limiter = RateLimiter(rate, burst=rate or 0)
    config = ArchiveServiceConfig(pause_ms=parse_ms(every))
    store = _opened(session, cold)
    with session.server_log("archive"):
        try:
            async with session.client() as client:
                namespace = client.namespace(archives=ColdArchives(store, client.namespace().name))
                known = StreamStore(namespace.store, namespace.name)
                archiver = SegmentArchiver(
                    client.runtime, store, namespace.ledgers, known, rate_limiter=rate_limiter
                )
                service = ArchiveService(
                    client.runtime,
                    namespace.store,
                    namespace,
                    archiver,
                    config=config,
                    on_pass=_report,
                )

                def statistics() -> dict[str, Any]:
                    return {**service.statistics(), "client": client.statistics()}

                status = StatusServer(statistics, lambda: None, service="archive")
                port = await status.start(host, status_port)
                print_message(
                    f"archiving namespace {namespace.name} to {store.uri}; "
                    f"statistics at http://{host}:{port}/stat"
                )
                try:
                    await service.run()
                finally:
                    await status.aclose()
        finally:
            await store.close()


def _report(done: ArchivePass) -> None:
    if done.archived or done.retired or done.purged or done.expired:
        print_message(
            f"archived {done.archived}, retired {done.retired}, "
            f"purged {show_count(done.purged, 'segment')}, "
            f"deleted {show_count(done.expired, 'old archive')}"
        )
    for stream, fault in done.faults.items():
        print_message(f"{stream or 'metadata store'}: {fault}")


@archive.command()
@click.argument("streams", nargs=-1)
@click.option(
    "--as",
    "new_name",
    metavar="NAME",
    help="Name of the new stream, if STREAMS is one stream. Its archive is copied.",
)
@click.option("--segments", "wanted_segments", metavar="FIRST-LAST",
              help="Restore only these segments, for example 3-7.")  # fmt: skip
@_cold_option
@policy_options
@session_options
@runs
async def restore(
    session: CommandSession, streams: tuple[str, ...], new_name: str | None,
    wanted_segments: str | None, cold: str | None, policy: PolicyOptions,
) -> None:  # fmt: skip
    """Create STREAMS (default: all) of the namespace from their archive alone.

    A stream must not exist. With --as NAME, a truncated, purged or deleted range comes back as a
    new stream beside the old one. Every record keeps its DLSN. The policy is that of the stream
    when it was archived, without truncation by age or by subscriptions; options change it. Reading
    needs cluster.cold; records that are appended later follow the archived ones.
    """
    if (new_name or wanted_segments) and len(streams) != 1:
        raise click.UsageError("--as and --segments need one stream")
    store = _opened(session, cold)
    try:
        async with session.client() as client:
            name = client.namespace().name
            found = await list_manifests(store, name)
            wanted = {manifest.stream for manifest in found} if not streams else set(streams)
            if missing := sorted(wanted - {manifest.stream for manifest in found}):
                raise InvalidArgumentError(f"no archive of {', '.join(missing)} in {store.uri}")
            quorum = default_quorum(await client.directory.in_usable_regions())
            with suppress(NamespaceExistsError):  # keep the policy of an existing namespace
                await client.namespaces.create(name, StreamPolicy(quorum))
            metadata = client.namespace().store
            known = StreamStore(metadata, name)
            rows: list[dict[str, object]] = []
            with ProgressBar() as progress:
                for stream in sorted(wanted):
                    progress.show(f"restoring {stream}", len(rows), len(wanted))
                    manifests = _selected(found, stream, wanted_segments)
                    chosen = archived_policy(manifests)
                    if policy.is_any_given:
                        chosen = policy.apply_to(chosen or await client.namespace().policy())
                    if new_name:
                        manifests = await _copied(client, store, manifests, new_name)
                    await restore_stream(metadata, known, manifests, chosen)
                    rows.append(
                        {
                            "stream": new_name or stream,
                            "segments": len(manifests),
                            "records": sum(manifest.record_count for manifest in manifests),
                        }
                    )
    finally:
        await store.close()
    print_rows(rows, session.output, empty=f"no archives of {name} in {store.uri}")


def _selected(found: list[Manifest], stream: str, segments: str | None) -> list[Manifest]:
    """Return the manifests of a stream, in order: all of them, or those of ``FIRST-LAST``."""
    manifests = [manifest for manifest in found if manifest.stream == stream]
    if segments is None:
        return manifests
    first, _, last = segments.partition("-")
    if not first.isdecimal() or not (last or first).isdecimal():
        raise InvalidArgumentError(f"--segments {segments}: write FIRST-LAST, for example 3-7")
    numbers = range(int(first), int(last or first) + 1)
    chosen = [manifest for manifest in manifests if manifest.lssn in numbers]
    if len(chosen) < len(numbers) or not chosen:
        have = ", ".join(str(manifest.lssn) for manifest in manifests)
        raise InvalidArgumentError(f"--segments {segments}: the archive of {stream} has {have}")
    return chosen


async def _copied(
    client: Client, store: ColdStore, manifests: list[Manifest], name: str
) -> list[Manifest]:
    """Copy archives to a new name, unless a stream has it. Repeated: continue."""
    check_chain(manifests)
    await check_name_is_free(StreamStore(client.namespace().store, client.namespace().name), name)
    identity = client.runtime.random_bytes(_IDENTITY_BYTES).hex()
    return await copy_archive(store, manifests, stream=name, identity=identity)


@archive.command()
@click.argument("prefix", required=False, default="")
@wait_count_options("archived segments")
@_cold_option
@session_options
@runs
async def ls(
    session: CommandSession, prefix: str, cold: str | None, wait_count: int | None, timeout_ms: int
) -> None:
    """List the archived segments below PREFIX (NAMESPACE or NAMESPACE/STREAM).

    Reads the cold store only, no server. A damaged manifest is an error after the list.
    """
    store = _opened(session, cold)
    wanted = wait_count or 0
    try:
        found = await wait_until(
            partial(scan_manifests, store, prefix),
            lambda listing: len(listing.manifests) >= wanted,
            timeout_ms=timeout_ms,
            describe=lambda listing: "; ".join(
                [
                    f"{len(listing.manifests)} of {wanted} archived segments",
                    *map(str, listing.faults.values()),
                ]
            ),
        )
    finally:
        await store.close()
    print_rows(
        [_row(manifest) for manifest in found.manifests],
        session.output,
        empty=f"no {'usable manifests' if found.faults else 'archives'} in {store.uri}",
    )
    if found.faults:
        raise CorruptionError("; ".join(map(str, found.faults.values())))


@archive.command()
@click.argument("prefix", required=False, default="")
@_cold_option
@session_options
@runs
async def verify(session: CommandSession, prefix: str, cold: str | None) -> None:
    """Read every byte of the archives below PREFIX and verify the chain of digests.

    Reads the cold store only, no server. Continues after a damaged manifest or part.
    """
    store = _opened(session, cold)
    rows: list[dict[str, object]] = []
    try:
        listing = await scan_manifests(store, prefix)
        found, faults = listing.manifests, len(listing.faults)
        previous: Manifest | None = None
        with ProgressBar() as progress:
            for manifest in found:
                progress.show("verifying", len(rows), len(found))
                same = previous is not None and _stream_of(previous) == _stream_of(manifest)
                verdict = await verify_next(store, manifest, previous if same else None)
                faults += len(verdict.faults)
                rows.append(_row(manifest) | {"verdict": "; ".join(verdict.faults) or "ok"})
                previous = manifest
    finally:
        await store.close()
    nothing = f"no {'usable manifests' if listing.faults else 'archives'} in {store.uri}"
    print_rows(rows, session.output, empty=nothing)
    for error in listing.faults.values():
        print_message(str(error))
    if faults:
        segments = len(rows) + len(listing.faults)
        where = show_count(segments, "archived segment")
        raise CorruptionError(f"{show_count(faults, 'fault')} in {where}")
    records = sum(manifest.record_count for manifest in found)
    segments_read, records_read = show_count(len(rows), "segment"), show_count(records, "record")
    print_message(f"{segments_read}, {records_read}: all bytes are correct")


async def _all_streams(client: Client) -> list[str]:
    names: list[str] = []
    while True:
        after = names[-1] if names else None
        page = await client.namespace().streams(after=after, limit=_LISTED_MAX)
        names.extend(page)
        if len(page) < _LISTED_MAX:
            return names


async def _unarchived(client: Client, names: list[str]) -> list[tuple[str, int]]:
    namespace = client.namespace()
    return [(name, lssn) for name in names for lssn in await unarchived_lssns(namespace, name)]


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
