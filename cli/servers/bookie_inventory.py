"""``rhumbline bookie inventory``: what a stopped bookie holds, for a rebuild of the metadata."""

import asyncio
from pathlib import Path

import click

from ...client.system_runtime import system_runtime
from ...core.bookie.identity import read_identity
from ...rebuild.take_inventory import take_inventory
from ...server.stopped_bookie import opened_storage, stopped_bookie
from ..operate.backups.backup_files import write_private
from ..options import CommandSession, runs, session_options
from ..output import ProgressBar, print_done
from ..output_schema import done, flag, integer, prints, text


@click.command("inventory")
@click.argument("directory", type=click.Path(path_type=Path))
@click.option("--to", "target", required=True, type=click.Path(path_type=Path),
              help="File to write.")  # fmt: skip
@prints(
    done(
        {
            "bookie": text("Id of the bookie."),
            "place": text("File of the inventory."),
            "ledgers": integer("Ledgers on the bookie."),
            "entries": integer("Their entries."),
            "without_metadata": integer("Ledgers of which the bookie has no metadata."),
            "is_in_limbo": flag("True if acknowledged entries may be missing on the bookie."),
        }
    )
)
@session_options
@runs
async def inventory(session: CommandSession, directory: Path, target: Path) -> None:
    """Write an inventory of the stopped bookie in DIRECTORY, and fence its open ledgers.

    Needed to rebuild a lost metadata store. Writers begin new segments after it. The file contains
    passwords of ledgers: keep it as secret as the metadata store.
    """
    async with stopped_bookie(directory) as disk:
        identity = await read_identity(disk)
    with ProgressBar() as progress:
        async with opened_storage(directory, session.settings.bookie) as storage:
            found = await take_inventory(
                storage,
                identity,
                system_runtime().clock.wall_ms(),
                lambda count: progress.show("ledgers", count, len(storage.states.ledgers)),
            )
    await asyncio.to_thread(write_private, target, found.encode())
    shown = {
        "bookie": found.bookie_id,
        "place": str(target),
        "ledgers": len(found.ledgers),
        "entries": sum(
            last - first + 1 for ledger in found.ledgers for first, last in ledger.ranges
        ),
        "without_metadata": sum(not ledger.metadata for ledger in found.ledgers),
        "is_in_limbo": found.is_in_limbo,
    }
    print_done(shown, session.output, f"the inventory of {found.bookie_id} is in {target}")
