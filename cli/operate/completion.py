"""``rhumbline completion``: the script that completes commands and options in a shell."""

import click
from click.shell_completion import get_completion_class

from ..output import TABLE, output_option, print_document
from ..output_schema import prints, record, text

_SHELLS = ("bash", "zsh", "fish")
_VARIABLE = "_RHUMBLINE_COMPLETE"


@click.command()
@click.argument("shell", type=click.Choice(_SHELLS))
@prints(record({"shell": text("The shell.", *_SHELLS), "script": text("Script to source.")}))
@output_option
def completion(shell: str, output: str) -> None:
    """Print a script for SHELL that completes commands, options and their values."""
    root = click.get_current_context().find_root().command
    found = get_completion_class(shell)
    assert found is not None
    script = found(root, {}, "rhumbline", _VARIABLE).source()
    if output == TABLE:
        click.echo(script)
    else:
        print_document({"shell": shell, "script": script}, output)
