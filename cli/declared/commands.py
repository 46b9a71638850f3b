"""``rhumbline apply``, ``diff`` and ``export``."""

import sys
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import click

from ...client.connect import Client
from ...client.units import show_count
from ...core.protocol.errors import ConfigurationError, InvalidArgumentError, RhumblineError
from ..command_audit import record_act
from ..errors import ComparisonError
from ..exit_codes import EXIT_FAILED, exit_code_of
from ..options import Command, CommandSession, runs, session_options
from ..output import (
    TABLE,
    ProgressBar,
    print_document,
    print_done,
    print_message,
    print_rows,
)
from ..output_schema import Schema, done, integer, listing, maybe, prints, record, rows, text
from ..streams.namespace import check_regions
from .apply_changes import apply_change
from .document_reader import read_documents
from .find_changes import find_changes, policy_of
from .read_cluster import read_all, read_compared
from .state_change import ChangeAction, StateChange
from .toml_document import DOCUMENT_BYTES_MAX
from .toml_writer import write_state

FILES_MAX = 100
_NAMES_SHOWN = 5
PLANNED, DONE, FAILED, NOT_TRIED = "planned", "done", "failed", "not tried"
_FIELD = record(
    {
        "field": text("Name of the value."),
        "before": maybe(text("The value now; null: none.")),
        "after": maybe(text("The value that the files declare; null: none.")),
    }
)
_KINDS = ("regions", "namespace", "stream", "subscription", "quota", "grant")
_CHANGE: dict[str, Schema] = {
    "action": text("The action.", *ChangeAction),
    "kind": text("Kind of what changes.", *_KINDS),
    "name": text("Its name."),
    "fields": listing(_FIELD, "The values that change."),
}
_RESULT = text("The result; planned under --dry-run.", PLANNED, DONE, FAILED, NOT_TRIED)


def _files_option(command: Command) -> Command:
    return click.option(
        "-f",
        "--file",
        "files",
        multiple=True,
        required=True,
        metavar="FILE",
        help="TOML file, or - for standard input. Repeatable.",
    )(command)


@click.command()
@_files_option
@click.option("--dry-run", is_flag=True, help="Only show what would change.")
@click.option("--prune", is_flag=True, help="Also delete what the files no longer declare, in the "
              "sections that they have. Asks for confirmation.")  # fmt: skip
@click.option("--yes", is_flag=True, help="Do not ask for confirmation.")
@prints(
    done(
        {
            "changes": listing(record({**_CHANGE, "result": _RESULT}), "In their order."),
            "applied": integer("Number of changes that were carried out."),
        }
    )
)
@session_options
@runs
async def apply(
    session: CommandSession, files: Sequence[str], *, dry_run: bool, prune: bool, yes: bool
) -> None:
    """Apply what files declare to the cluster. Safe to repeat.

    Files declare regions, namespaces with policies, streams and subscriptions, grants, and quotas.
    What they do not mention stays as it is. If a change fails, the output says which ones were
    applied, and the same command continues after the cause is removed.
    """
    async with session.client(moves_data=False) as client:
        changes = await _compare(client, files, prunes=prune)
        if dry_run:
            _print_applied(session, changes, [PLANNED] * len(changes))
            return
        _confirm(changes, yes=yes)
        results, error = await _apply_all(session, client, changes)
        _print_applied(session, changes, results)
        if error is not None:
            failed = changes[results.index(FAILED)]
            where = "" if failed.place is None else f" ({failed.place})"
            print_message(
                f"{results.count(DONE)} of {show_count(len(changes), 'change')} were applied; "
                f"failed: {failed.action} {failed.kind} {failed.name}{where}"
            )
            raise error


@click.command()
@_files_option
@click.option("--prune", is_flag=True, help="Also show what `apply --prune` would delete.")
@prints(rows(record(_CHANGE)))
@session_options
@runs
async def diff(session: CommandSession, files: Sequence[str], *, prune: bool) -> None:
    """Show what `apply` would change. Exit code 0: nothing, 1: something, 2 or more: an error."""
    try:
        async with session.client(moves_data=False) as client:
            changes = await _compare(client, files, prunes=prune)
    except RhumblineError as error:
        if exit_code_of(error) != EXIT_FAILED:
            raise
        raise ComparisonError(str(error)) from error
    print_rows([_row(session, change) for change in changes], session.output, empty="no difference")
    sys.exit(EXIT_FAILED if changes else 0)


@click.command()
@prints(record({"toml": text("The state as a TOML file.")}))
@session_options
@runs
async def export(session: CommandSession) -> None:
    """Print the state of the cluster as a file for `apply`.

    It holds no records and no positions of subscriptions. Topics are not included.
    """
    async with session.client(moves_data=False) as client:
        with ProgressBar() as progress:
            progress.show("reading the cluster")
            written = write_state(await read_all(client), source=f"cluster {client.instance_id}")
    if session.output == TABLE:
        click.echo(written, nl=False)
    else:
        print_document({"toml": written}, session.output)


def read_files(files: Sequence[str], read_input: Callable[[int], bytes]) -> list[tuple[str, bytes]]:
    """Return the content of each file, which may be a little more than a file may hold.

    ``read_input`` reads standard input. Raises ConfigurationError.
    """
    if len(files) > FILES_MAX:
        raise ConfigurationError(f"{len(files)} files, above the limit of {FILES_MAX}")
    if len(set(files)) != len(files):
        raise ConfigurationError("a file is given twice")
    found = []
    for name in files:
        if name == "-":
            found.append((name, read_input(DOCUMENT_BYTES_MAX + 1)))
            continue
        try:
            with Path(name).open("rb") as opened:
                found.append((name, opened.read(DOCUMENT_BYTES_MAX + 1)))
        except OSError as error:
            raise ConfigurationError(f"{name}: cannot be read: {error.strerror}") from error
    return found


async def _compare(client: Client, files: Sequence[str], *, prunes: bool) -> list[StateChange]:
    """Return the changes that the files require, checked as far as that is possible before them."""
    declared = read_documents(read_files(files, sys.stdin.buffer.read))
    with ProgressBar() as progress:
        progress.show("reading the cluster")
        found = await read_compared(client, declared, prunes=prunes)
        changes = find_changes(declared, found, prunes=prunes)
        for change in changes:
            if (known := policy_of(change)) is None or not known[1].regions:
                continue
            store = (await client.namespaces.find(known[0])).directory
            try:
                await check_regions(known[1], client, store)
            except InvalidArgumentError as error:
                raise ConfigurationError(f"{change.place}: {change.name}: {error}") from error
    return changes


def _confirm(changes: Sequence[StateChange], *, yes: bool) -> None:
    """Ask for confirmation of deletions at a terminal; otherwise require --yes."""
    deleted = [change for change in changes if change.action is ChangeAction.DELETE]
    if yes or not deleted:
        return
    kinds = Counter(change.kind for change in deleted)
    counts = ", ".join(show_count(count, kind) for kind, count in kinds.items())
    names = ", ".join(change.name for change in deleted[:_NAMES_SHOWN])
    more = "" if len(deleted) <= _NAMES_SHOWN else ", ..."
    if not sys.stdin.isatty():
        raise click.UsageError(f"this permanently deletes {counts} ({names}{more}); give --yes")
    click.confirm(f"Permanently delete {counts} ({names}{more})?", abort=True, err=True)


async def _apply_all(
    session: CommandSession, client: Client, changes: Sequence[StateChange]
) -> tuple[list[str], RhumblineError | None]:
    """Carry out changes in order until one fails; return the result of each, and the error."""
    results = [NOT_TRIED] * len(changes)
    with ProgressBar() as progress:
        for index, change in enumerate(changes):
            progress.show(f"{change.action} {change.kind} {change.name}", index, len(changes))
            what = f"{change.action} {change.kind}:{change.name}"
            try:
                await apply_change(client, change)
            except RhumblineError as error:
                record_act(session.protection, what, error)
                results[index] = FAILED
                return results, error
            record_act(session.protection, what)
            results[index] = DONE
    return results, None


def _print_applied(
    session: CommandSession, changes: Sequence[StateChange], results: Sequence[str]
) -> None:
    shown = [
        {**_row(session, change), "result": result}
        for change, result in zip(changes, results, strict=True)
    ]
    if session.output == TABLE and changes:
        print_rows(shown, session.output, empty="")
    applied = results.count(DONE)
    text = f"{show_count(applied, 'change')} applied" if applied else "nothing was changed"
    if PLANNED in results:
        text = f"{show_count(len(changes), 'change')} would be applied"
    if FAILED not in results or session.output != TABLE:
        print_done({"changes": shown, "applied": applied}, session.output, text)


def _row(session: CommandSession, change: StateChange) -> dict[str, Any]:
    fields: Any = [item._asdict() for item in change.fields]
    if session.output == TABLE:
        fields = "; ".join(map(str, change.fields)) or None
    return {
        "action": change.action.value,
        "kind": change.kind,
        "name": change.name,
        "fields": fields,
    }
