"""``rhumbline bookie`` on a stopped one: verify, ls, dump, rebuild-index, clear-limbo."""

import json
import time
from collections.abc import Sequence
from pathlib import Path

import click

from ...client.system_runtime import boot_id as running_boot_id
from ...core.bookie.log.file_set import file_path
from ...core.bookie.log.replay import Damage
from ...core.bookie.maintenance.limbo_recovery import clear_all
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
from ..output import ProgressBar, print_record, print_rows, say

_DIRECTORY = click.argument("directory", type=click.Path(path_type=Path))
_DAMAGES_SHOWN = 20
_PROGRESS_ENTRIES = 20_000


@click.command()
@_DIRECTORY
@session_options
@runs
async def verify(session: CommandSession, directory: Path) -> None:
    """Reads every byte of a stopped bookie's DIRECTORY and compares every checksum.

    Changes nothing. Exit code 1 when anything is damaged. (The index is not looked at: it can be
    built anew.)
    """
    found = await _verified(session, directory)
    record = {
        "bookie": found.identity.bookie_id,
        "region": found.identity.region,
        "ledgers": len(found.ledgers),
        "fenced": sum(ledger.is_fenced for ledger in found.ledgers),
        "in limbo": sum(ledger.is_in_limbo for ledger in found.ledgers),
        "entries": found.entry_count,
        "bytes": found.entry_bytes,
        "log files": found.log_count,
        "sorted files": found.sorted_file_count,
        "unfinished bytes": found.torn_bytes,
        "damaged regions": len(found.damages),
    }
    print_record(record, session.output)
    _refuse_damage(directory, found.damages)


@click.command("ls")
@_DIRECTORY
@session_options
@runs
async def ls(session: CommandSession, directory: Path) -> None:
    """Lists the ledgers in a stopped bookie's DIRECTORY, with what is held of each."""
    found = await _verified(session, directory)
    rows = [
        {
            "ledger": ledger.ledger_id,
            "entries": ledger.entry_count,
            "bytes": ledger.entry_bytes,
            "last": ledger.last_entry_id,
            "lac": ledger.lac,
            "state": _state_of(ledger),
        }
        for ledger in found.ledgers
    ]
    print_rows(rows, session.output, empty="no ledgers")
    _refuse_damage(directory, found.damages)


@click.command()
@_DIRECTORY
@click.option("--ledger", type=click.IntRange(min=0), help="Only entries of this one.")
@session_options
@runs
async def dump(session: CommandSession, directory: Path, ledger: int | None) -> None:
    """Prints the header of every entry in a stopped bookie's DIRECTORY, as the files hold them.

    An entry that was copied or written anew comes up once for each place. What cannot be read is
    named on stderr; `verify` judges it.
    """
    is_json = session.output == "json"
    if not is_json:
        click.echo("LEDGER  ENTRY  LAC  LENGTH  SIZE  FILE  OFFSET")

    def show(entry: StoredEntry) -> None:
        if ledger is not None and entry.ledger_id != ledger:
            return
        row = {
            "ledger": entry.ledger_id,
            "entry": entry.entry_id,
            "lac": entry.lac,
            "length": entry.length,
            "size": entry.size,
            "file": file_path(entry.kind, entry.number),
            "offset": entry.offset,
        }
        click.echo(json.dumps(row) if is_json else "  ".join(map(str, row.values())))

    with stopped_bookie(directory) as disk:
        damages = await dump_storage(disk, show)
    _say_damage(damages)


@click.command("rebuild-index")
@_DIRECTORY
@session_options
@runs
async def rebuild_index(session: CommandSession, directory: Path) -> None:
    """Removes the index in a stopped bookie's DIRECTORY and builds it anew from the files."""
    progress = ProgressBar()
    started = time.monotonic()
    async with opened_storage(
        directory,
        session.settings.bookie,
        without_index=True,
        on_progress=lambda count: progress.show(f"{count:,} entries"),
    ) as storage:
        progress.clear()
        count, damages = storage.index.recent.row_count, storage.damages
    say(f"{directory}: {count:,} entries indexed in {time.monotonic() - started:.1f} s")
    _refuse_damage(directory, damages)


@click.command("clear-limbo")
@_DIRECTORY
@click.option("--yes", is_flag=True, help="Yes, this disk lost nothing that it acknowledged.")
@session_options
@runs
async def clear_limbo(session: CommandSession, directory: Path, yes: bool) -> None:
    """Has a stopped bookie trust its DIRECTORY again after a crash of the machine.

    After such a crash with an unfinished write at the end, a bookie says "unknown" instead of
    "never had it", and takes no adds to the ledgers of before. Each ledger gets out by itself once
    it is closed. When all replicas of an open one are so, nobody can close it without this word.
    """
    async with opened_storage(directory, session.settings.bookie) as storage:
        limbo = storage.states.limbo
        waiting = sum(map(limbo.covers, storage.states.ledgers))
        if not limbo.is_active:
            say(f"{directory}: not in limbo")
            return
        if not yes:
            raise UnsafeError(
                f"{directory}: {waiting} ledgers are in limbo. If this disk lost anything that it "
                "had acknowledged (a write cache without power protection, a file cut by hand), "
                "the end of a ledger may be lost for good, although another copy exists. If you "
                "know that it did not, say --yes"
            )
        await clear_all(storage)
    say(f"{directory}: out of limbo; {waiting} ledgers count in full again")


COMMANDS = (verify, ls, dump, rebuild_index, clear_limbo)


async def _verified(session: CommandSession, directory: Path) -> StorageSummary:
    progress = ProgressBar()
    shown = 0
    boot_id = session.settings.bookie.boot_id or running_boot_id()

    def show(count: int) -> None:
        nonlocal shown
        if count >= shown + _PROGRESS_ENTRIES:
            shown = count
            progress.show(f"{count:,} entries")

    with stopped_bookie(directory) as disk:
        try:
            return await verify_storage(disk, boot_id, show)
        finally:
            progress.clear()


def _state_of(ledger: LedgerSummary) -> str:
    words = ["fenced" if ledger.is_fenced else "open"]
    if ledger.is_in_limbo:
        words.append("in limbo")
    return ", ".join(words)


def _refuse_damage(directory: Path, damages: Sequence[Damage]) -> None:
    """Names the damaged regions, then fails."""
    _say_damage(damages)
    if damages:
        raise CorruptionError(
            f"{directory}: {len(damages)} damaged regions; a running bookie repairs them from the "
            "other replicas"
        )


def _say_damage(damages: Sequence[Damage]) -> None:
    for damage in damages[:_DAMAGES_SHOWN]:
        say(f"file {damage.number}, bytes {damage.start} to {damage.end}: {damage.reason}")
    if len(damages) > _DAMAGES_SHOWN:
        say(f"and {len(damages) - _DAMAGES_SHOWN} more")
