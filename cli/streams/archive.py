"""``rhumbline archive``: run, serve, ls, verify, restore."""

from contextlib import AbstractContextManager, nullcontext, suppress
from functools import partial
from pathlib import Path

import click

from ...client.connect import Client
from ...client.units import show_count
from ...coldstore.archive.manifest import Manifest
from ...core.log.metadata.stream_store import StreamStore
from ...core.log.policy import StreamPolicy
from ...core.protocol.errors import (
    CorruptionError,
    InvalidArgumentError,
    NamespaceExistsError,
)
from ...core.protocol.installation import needs_extra
from ...core.runtime.cold_store import ColdStore
from ..options import CommandSession, runs, session_options
from ..output import ProgressBar, print_message, print_rows
from ..output_schema import integer, prints, record, rows, text
from ..waiting import wait_count_options, wait_until
from .archive_serving import serve
from .archive_tables import open_tables, table_registrar, tables
from .cold_options import cold_option, opened_cold
from .policy_options import PolicyOptions, default_quorum, policy_options

with needs_extra("an archive", "arrow"):
    from ...coldstore.archive.archive_service import (
        check_archives_exist,
        unarchived_lssns,
    )
    from ...coldstore.archive.catalog import list_manifests, scan_manifests
    from ...coldstore.archive.segment_archiver import SegmentArchiver
    from ...coldstore.proof.verify_run import VerifiedLog, verify_all
    from ...coldstore.restore.copy_archive import copy_archive
    from ...coldstore.restore.restore import (
        archived_policy,
        check_chain,
        check_name_is_free,
        restore_stream,
    )

_LISTED_MAX = 1000
_IDENTITY_BYTES = 16


@click.group()
def archive() -> None:
    """Archive completed segments to cold storage: open file formats, chained by digests."""


_ARCHIVED = {
    "stream": text("NAMESPACE/STREAM."),
    "segment": integer("Number of the segment."),
    "records": integer("Records."),
    "payload_bytes": integer("Their payload."),
    "files": integer("Files in the cold store."),
    "stored_bytes": integer("Their size."),
    "digest": text("First digits of the content's digest."),
}


archive.add_command(serve)
archive.add_command(tables)


@archive.command()
@click.argument("streams", nargs=-1)
@cold_option
@prints(rows(record(_ARCHIVED)))
@session_options
@runs
async def run(session: CommandSession, streams: tuple[str, ...], cold: str | None) -> None:
    """Archive the completed segments of STREAMS (default: all) that are not archived yet.

    It is an error if the cold store lacks segments that were archived before.
    """
    store = opened_cold(session, cold)
    done: list[Manifest] = []
    try:
        async with session.client() as client:
            names = list(streams) or await _all_streams(client)
            waiting = await _unarchived(client, names)
            namespace = client.namespace()
            known = StreamStore(namespace.store, namespace.name)
            archiver = SegmentArchiver(
                client.runtime, store, namespace.ledgers, known, config=session.settings.archive
            )
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
            await _register(session, client, store, cold)
    finally:
        await store.close()


async def _register(
    session: CommandSession, client: Client, store: ColdStore, cold: str | None
) -> None:
    """Register what is archived in the tables, if there is a catalogue."""
    catalog = open_tables(session, cold)
    if catalog is None:
        return
    try:
        name, clock = client.namespace().name, client.runtime.clock
        done = await table_registrar(session, store, name, catalog, clock).run_until_even()
    finally:
        await catalog.close()
    if done.registered:
        print_message(f"registered {show_count(done.registered, 'segment')} in tables")
    if done.faults:
        raise CorruptionError("; ".join(done.faults.values()))


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
@cold_option
@policy_options
@prints(
    rows(
        record(
            {
                "stream": text("Name of the new stream."),
                "segments": integer("Restored segments."),
                "records": integer("Their records."),
            }
        )
    )
)
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
    store = opened_cold(session, cold)
    try:
        async with session.client() as client:
            name = client.namespace().name
            found = await list_manifests(store, name)
            wanted = set(streams) or {manifest.stream for manifest in found}
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
    """Return the manifests of a stream, in order: all of them, or those of ``FIRST-LAST``.

    Of several streams that had the name it is the newest.
    """
    manifests = [manifest for manifest in found if manifest.stream == stream]
    newest = max(manifests, key=lambda manifest: manifest.created_ms).folder
    manifests = [manifest for manifest in manifests if manifest.folder == newest]
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
@cold_option
@prints(rows(record(_ARCHIVED)))
@session_options
@runs
async def ls(
    session: CommandSession, prefix: str, cold: str | None, wait_count: int | None, timeout_ms: int
) -> None:
    """List the archived segments below PREFIX (NAMESPACE or NAMESPACE/STREAM).

    Reads the cold store only, no server. A damaged manifest is an error after the list.
    """
    store = opened_cold(session, cold)
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
@click.option("--tasks", type=click.IntRange(1, 64), default=4, show_default=True,
              help="Number of segments that are read at the same time.")  # fmt: skip
@click.option(
    "--resume",
    type=click.Path(dir_okay=False, path_type=Path),
    help="File that notes intact segments. A repeat with the same file does not read them again.",
)
@cold_option
@prints(rows(record(_ARCHIVED | {"verdict": text("ok, or the faults.")})))
@session_options
@runs
async def verify(
    session: CommandSession, prefix: str, tasks: int, resume: Path | None, cold: str | None
) -> None:
    """Read every byte of the archives below PREFIX and verify their chains.

    Reads the cold store only, no server. Continues after a damaged or missing object.
    """
    store = opened_cold(session, cold)
    try:
        listing = await scan_manifests(store, prefix)
        found = listing.manifests
        with ProgressBar() as progress, _verified_log(resume, store.uri) as log:
            verdicts = await verify_all(
                store,
                listing,
                tasks=tasks,
                log=log,
                on_done=lambda done: progress.show("verifying", done, len(found)),
            )
    finally:
        await store.close()
    faults = len(listing.faults) + sum(len(verdict.faults) for verdict in verdicts)
    rows = [_row(one.manifest) | {"verdict": "; ".join(one.faults) or "ok"} for one in verdicts]
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


def _verified_log(path: Path | None, uri: str) -> AbstractContextManager[VerifiedLog | None]:
    return nullcontext() if path is None else VerifiedLog(path, uri)


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


def _row(manifest: Manifest) -> dict[str, object]:
    return {
        "stream": f"{manifest.namespace}/{manifest.stream}",
        "segment": manifest.lssn,
        "records": manifest.record_count,
        "payload_bytes": manifest.payload_bytes,
        "files": len(manifest.parts),
        "stored_bytes": sum(part.size_bytes for part in manifest.parts),
        "digest": manifest.content_digest[:16],
    }
