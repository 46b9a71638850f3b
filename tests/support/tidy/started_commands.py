"""Checks that a command line in a file of deploy/ is one of the program's."""

from collections.abc import Sequence

import click

from rhumbline.cli.main import main


def check_command(words: Sequence[str]) -> None:
    """Parse ``words``, which follow ``rhumbline``. Raises click.UsageError."""
    command: click.Command = main
    rest = list(words)
    while isinstance(command, click.Group):
        name = rest.pop(0)
        found = command.get_command(click.Context(command), name)
        if found is None:
            raise click.UsageError(f"no command {name!r}")
        command = found
    command.make_context(command.name, rest)
