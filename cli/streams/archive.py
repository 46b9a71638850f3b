"""``rhumbline archive``: run, serve, ls, verify, erasures, reconcile, restore."""

from contextlib import suppress
from functools import partial

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
from .archives.archive_rows import ARCHIVED, archive_row
from .archives.checking import reconcile, verify
from .archives.erasures import erasures
from .archives.indexing import index
from .cold_options import cold_option, opened_cold
from .policy_options import PolicyOptions, default_quorum, policy_options

with needs_extra("an archive", "arrow"):
    from ...coldstore.archive.archive_service import (
        check_archives_exist,
        unarchived_lssns,
    )
    from ...coldstore.archive.catalog import scan_manifests
    from ...coldstore.archive.segment_archiver import SegmentArchiver
    from ...coldstore.compact.permission import has_moved, require_relocations
    from ...coldstore.index.indexed_listing import indexed_listing
    from ...coldstore.index.indexer import Indexer
    from ...coldstore.restore.copy_archive import copy_archive
    from ...coldstore.restore.restore import (
        archived_policy,
        check_chain,
        check_name_is_free,
        restore_stream,
    )
    from ...coldstore.restore.selection import archived_names, select_manifests

_LISTED_MAX = 1000
_IDENTITY_BYTES = 16


@click.group()
def archive() -> None:
    """Archive completed segments to cold storage: open file formats, chained by digests."""


archive.add_command(serve)
archive.add_command(tables)
archive.add_command(verify)
archive.add_command(reconcile)
archive.add_command(index)
archive.add_command(erasures)


@archive.command()
@click.argument("streams", nargs=-1)
@cold_option
@prints(rows(record(ARCHIVED)))
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
            rows = [archive_row(manifest) for manifest in done]
            print_rows(rows, session.output, empty="no segment to archive")
            await check_archives_exist(client.namespace(), store, names)
            await Indexer(store, namespace.name).run_once()
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
@click.option("--stream-id", default="", metavar="ID",
              help="Id of the stream, if several had the name.  [default: the newest]")  # fmt: skip
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
    wanted_segments: str | None, stream_id: str, cold: str | None, policy: PolicyOptions,
) -> None:  # fmt: skip
    """Create STREAMS (default: all) of the namespace from their archive alone.

    A stream must not exist. With --as NAME, a truncated, purged or deleted range comes back as a
    new stream beside the old one. Every record keeps its DLSN. The policy is that of the stream
    when it was archived, without truncation by age or by subscriptions; options change it. Reading
    needs cluster.cold; records that are appended later follow the archived ones.
    """
    if (new_name or wanted_segments or stream_id) and len(streams) != 1:
        raise click.UsageError("--as, --segments and --stream-id need one stream")
    store = opened_cold(session, cold)
    try:
        async with session.client() as client:
            name = client.namespace().name
            found = await scan_manifests(store, name)
            chosen_streams = {
                stream: select_manifests(
                    found, stream, stream_id=stream_id, segments=_segments(wanted_segments)
                )
                for stream in sorted(set(streams) or archived_names(found))
            }
            if has_moved(one for manifests in chosen_streams.values() for one in manifests):
                await require_relocations(client.store, "compacted archives")
            quorum = default_quorum(await client.directory.in_usable_regions())
            with suppress(NamespaceExistsError):  # keep the policy of an existing namespace
                await client.namespaces.create(name, StreamPolicy(quorum))
            metadata = client.namespace().store
            known = StreamStore(metadata, name)
            rows: list[dict[str, object]] = []
            with ProgressBar() as progress:
                for stream, manifests in chosen_streams.items():
                    progress.show(f"restoring {stream}", len(rows), len(chosen_streams))
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


def _segments(given: str | None) -> range | None:
    """Return the segments of ``FIRST-LAST``. Raises InvalidArgumentError."""
    if given is None:
        return None
    first, _, last = given.partition("-")
    if not first.isdecimal() or not (last or first).isdecimal():
        raise InvalidArgumentError(f"--segments {given}: write FIRST-LAST, for example 3-7")
    return range(int(first), int(last or first) + 1)


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
@prints(rows(record(ARCHIVED)))
@session_options
@runs
async def ls(
    session: CommandSession, prefix: str, cold: str | None, wait_count: int | None, timeout_ms: int
) -> None:
    """List the archived segments below PREFIX (NAMESPACE or NAMESPACE/STREAM).

    Reads the cold store only, no server. A missing manifest, or a damaged one that the index of
    the namespace lacks, is an error after the list; verify reads every object.
    """
    store = opened_cold(session, cold)
    wanted = wait_count or 0
    try:
        found = await wait_until(
            partial(indexed_listing, store, prefix),
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
        [archive_row(manifest) for manifest in found.manifests],
        session.output,
        empty=f"no {'usable manifests' if found.faults else 'archives'} in {store.uri}",
    )
    if found.faults:
        raise CorruptionError("; ".join(map(str, found.faults.values())))


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
