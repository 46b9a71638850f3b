"""``rhumbline bookie`` on a stopped bookie: verify, ls, dump, rebuild-index, clear-limbo."""

import time
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path

import click

from ...client.system_runtime import boot_id as running_boot_id
from ...client.units import show_count
from ...core.bookie.log.file_set import file_path
from ...core.bookie.log.replay import Damage
from ...core.bookie.maintenance.limbo_recovery import end_limbo
from ...core.bookie.maintenance.offline_verify import (
    LedgerSummary,
    StorageSummary,
    StoredEntry,
    dump_storage,
    verify_storage,
)
from ...core.protocol.errors import CorruptionError
from ...server.stopped_bookie import opened_storage, stopped_bookie
from ..errors import UnsafeError
from ..options import CommandSession, runs, session_options
from ..output import (
    TABLE,
    DocumentWriter,
    ProgressBar,
    print_done,
    print_message,
    print_record,
    print_rows,
)
from ..output_schema import done, flag, integer, prints, record, rows, text

_DIRECTORY = click.argument("directory", type=click.Path(path_type=Path))
_DAMAGES_SHOWN = 20
_PROGRESS_ENTRIES = 20_000


@click.command()
@_DIRECTORY
@prints(
    record(
        {
            "bookie": text("Id of the bookie."),
            "region": text("Its region."),
            "ledgers": integer("Ledgers."),
            "fenced": integer("Ledgers that are fenced."),
            "in_limbo": integer("Ledgers that are in limbo."),
            "entries": integer("Entries."),
            "size_bytes": integer("Size of the entries."),
            "log_files": integer("Files of the write log."),
            "sorted_files": integer("Sorted files."),
            "index_files": integer("Index files."),
            "unfinished_bytes": integer("Bytes of a torn last write, which were never valid."),
            "damaged_regions": integer("Damaged byte ranges."),
        }
    )
)
@session_options
@runs
async def verify(session: CommandSession, directory: Path) -> None:
    """Read every byte of a stopped bookie's DIRECTORY and verify every checksum.

    Changes nothing. Exits with 1 if anything is damaged. Each index file is compared with its data
    file. A damaged or missing index file is rebuilt at the next start.
    """
    found = await _verified(session, directory)
    shown = {
        "bookie": found.identity.bookie_id,
        "region": found.identity.region,
        "ledgers": len(found.ledgers),
        "fenced": sum(ledger.is_fenced for ledger in found.ledgers),
        "in_limbo": sum(ledger.is_in_limbo for ledger in found.ledgers),
        "entries": found.entry_count,
        "size_bytes": found.entry_bytes,
        "log_files": found.log_count,
        "sorted_files": found.sorted_file_count,
        "index_files": found.index_file_count,
        "unfinished_bytes": found.torn_bytes,
        "damaged_regions": len(found.damages),
    }
    print_record(shown, session.output)
    _fail_if_damaged(directory, found.damages)


@click.command("ls")
@_DIRECTORY
@prints(
    rows(
        record(
            {
                "ledger": integer("Id of the ledger."),
                "entries": integer("Stored entries."),
                "size_bytes": integer("Their size."),
                "last": integer("Highest stored entry."),
                "lac": integer("Highest known LAC."),
                "state": text("open or fenced, and in limbo if it is."),
            }
        )
    )
)
@session_options
@runs
async def ls(session: CommandSession, directory: Path) -> None:
    """List the ledgers in a stopped bookie's DIRECTORY, with the stored entries of each."""
    found = await _verified(session, directory)
    shown = [
        {
            "ledger": ledger.ledger_id,
            "entries": ledger.entry_count,
            "size_bytes": ledger.entry_bytes,
            "last": ledger.last_entry_id,
            "lac": ledger.lac,
            "state": _state_of(ledger),
        }
        for ledger in found.ledgers
    ]
    print_rows(shown, session.output, empty="no ledgers")
    _fail_if_damaged(directory, found.damages)


@click.command()
@_DIRECTORY
@click.option("--ledger", type=click.IntRange(min=0), help="Only entries of this ledger.")
@prints(
    rows(
        record(
            {
                "ledger": integer("Id of the ledger."),
                "entry": integer("Id of the entry."),
                "lac": integer("LAC in its header."),
                "length": integer("Payload of the ledger up to this entry, in bytes."),
                "size_bytes": integer("Size of the entry."),
                "file": text("File that contains it."),
                "offset": integer("Its place in the file."),
            }
        )
    )
)
@session_options
@runs
async def dump(session: CommandSession, directory: Path, ledger: int | None) -> None:
    """Print the header of every entry in a stopped bookie's DIRECTORY, in file order.

    An entry that is stored in several places is printed once for each. Unreadable parts are
    reported on stderr; `verify` explains them.
    """
    writer = None if session.output == TABLE else DocumentWriter(session.output)
    if writer is None:
        click.echo("LEDGER  ENTRY  LAC  LENGTH  SIZE  FILE  OFFSET")

    def show(entry: StoredEntry) -> None:
        if ledger is not None and entry.ledger_id != ledger:
            return
        row = {
            "ledger": entry.ledger_id,
            "entry": entry.entry_id,
            "lac": entry.lac,
            "length": entry.length,
            "size_bytes": entry.size,
            "file": file_path(entry.kind, entry.number),
            "offset": entry.offset,
        }
        if writer is None:
            click.echo("  ".join(map(str, row.values())))
        else:
            writer.write([row])

    async with stopped_bookie(directory) as disk:
        with writer or nullcontext():
            damages = await dump_storage(disk, show)
    _report_damage(damages)


@click.command("rebuild-index")
@_DIRECTORY
@prints(
    done(
        {
            "directory": text("Storage of the bookie."),
            "entries": integer("Entries that were indexed."),
            "took_ms": integer("Time that it took."),
        }
    )
)
@session_options
@runs
async def rebuild_index(session: CommandSession, directory: Path) -> None:
    """Remove the index files in a stopped bookie's DIRECTORY and rebuild them."""
    started = time.monotonic()
    with ProgressBar() as progress:
        async with opened_storage(
            directory,
            session.settings.bookie,
            without_index=True,
            on_progress=lambda count: progress.show(f"{count:,} entries"),
        ) as storage:
            progress.clear()
            count, damages = storage.index.row_count, storage.damages
    entries, took_s = show_count(count, "entry", "entries"), time.monotonic() - started
    print_done(
        {"directory": str(directory), "entries": count, "took_ms": round(took_s * 1000)},
        session.output,
        f"{directory}: {entries} indexed in {took_s:.1f} s",
    )
    _fail_if_damaged(directory, damages)


@click.command("clear-limbo")
@_DIRECTORY
@click.option("--yes", is_flag=True, help="Confirm that this disk lost no acknowledged write.")
@prints(
    done(
        {
            "directory": text("Storage of the bookie."),
            "was_in_limbo": flag("False if there was nothing to do."),
            "ledgers": integer("Ledgers that left limbo."),
        }
    )
)
@session_options
@runs
async def clear_limbo(session: CommandSession, directory: Path, yes: bool) -> None:
    """End limbo: let a stopped bookie trust its DIRECTORY after a crash of the machine.

    After a crash with an unfinished write, a bookie responds "unknown" instead of "no such entry"
    and accepts no adds to older ledgers. A ledger leaves limbo by itself once its end does not
    depend on this bookie any more, and all entries that the bookie should have were fetched from
    other replicas. If all replicas of an open ledger are in limbo, it cannot be closed without this
    command.
    """
    async with opened_storage(directory, session.settings.bookie) as storage:
        limbo = storage.states.limbo
        waiting = sum(map(limbo.covers, storage.states.ledgers))
        if not limbo.is_active:
            print_done(
                {"directory": str(directory), "was_in_limbo": False, "ledgers": 0},
                session.output,
                f"{directory}: not in limbo",
            )
            return
        if not yes:
            ledgers = show_count(waiting, "ledger is", "ledgers are")
            raise UnsafeError(
                f"{directory}: {ledgers} in limbo. If this disk lost any acknowledged "
                "write (a write cache without power protection, a file truncated by hand), the end "
                "of a ledger may be lost permanently although another copy exists. If you are sure "
                "that it did not, give --yes"
            )
        await end_limbo(storage)
    ledgers = show_count(waiting, "ledger is", "ledgers are")
    print_done(
        {"directory": str(directory), "was_in_limbo": True, "ledgers": waiting},
        session.output,
        f"{directory}: no longer in limbo; {ledgers} fully trusted again",
    )


COMMANDS = (verify, ls, dump, rebuild_index, clear_limbo)


async def _verified(session: CommandSession, directory: Path) -> StorageSummary:
    shown = 0
    boot_id = session.settings.bookie.boot_id or running_boot_id()

    def show(count: int) -> None:
        nonlocal shown
        if count >= shown + _PROGRESS_ENTRIES:
            shown = count
            progress.show(f"{count:,} entries")

    with ProgressBar() as progress:
        async with stopped_bookie(directory) as disk:
            return await verify_storage(disk, boot_id, show)


def _state_of(ledger: LedgerSummary) -> str:
    words = ["fenced" if ledger.is_fenced else "open"]
    if ledger.is_in_limbo:
        words.append("in limbo")
    return ", ".join(words)


def _fail_if_damaged(directory: Path, damages: Sequence[Damage]) -> None:
    """Report the damaged regions, and fail if there are any."""
    _report_damage(damages)
    if damages:
        raise CorruptionError(
            f"{directory}: {len(damages)} damaged regions; a running bookie repairs them from the "
            "other replicas"
        )


def _report_damage(damages: Sequence[Damage]) -> None:
    for damage in damages[:_DAMAGES_SHOWN]:
        print_message(
            f"file {damage.number}, bytes {damage.start} to {damage.end}: {damage.reason}"
        )
    if len(damages) > _DAMAGES_SHOWN:
        print_message(f"and {len(damages) - _DAMAGES_SHOWN} more")
