"""All commands of the program with their paths."""

from collections.abc import Iterator

import click

from ..main import main


def all_commands(command: click.Command = main, path: str = "rhumbline") -> Iterator[
    tuple[str, click.Command]
]:  # fmt: skip
    """Yield each command that is not a group, with its path, in the order of the help texts."""
    if not isinstance(command, click.Group):
        yield path, command
        return
    context = click.Context(command)
    for name in command.list_commands(context):
        below = command.get_command(context, name)
        if below is not None:
            yield from all_commands(below, f"{path} {name}")
