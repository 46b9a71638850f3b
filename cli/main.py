"""The entrance of the ``rhumbline`` command: which commands there are, and how they fail.

Exit codes: 0 done; 1 failed; 2 wrong usage (options, arguments, configuration); 3 refused because
it is unsafe. A mistake of the user is one line on stderr and never a traceback.
"""

import os
import sys
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version

import click

from ..core.protocol.errors import InvalidArgumentError, RhumblineError
from .errors import UnsafeError

EXIT_FAILED = 1
EXIT_USAGE = 2
EXIT_UNSAFE = 3
EXIT_INTERRUPTED = 130

_COMMANDS = {
    "demo": ("demo.command", "Shows a three-region log with real data and a region outage."),
    "dev": ("dev", "Keeps a three-region cluster running from one directory."),
    "stream": ("stream", "Creates, writes and reads streams."),
    "segment": ("segment", "Shows the log segments of a stream."),
    "namespace": ("namespace", "Creates and shows namespaces."),
    "node": ("node", "Shows the bookies of the cluster."),
    "bookie": ("bookie", "Formats and runs a bookie."),
    "plan": ("plan", "Says what a quorum promises before anything is deployed."),
    "cluster": ("cluster", "Initialises a cluster."),
    "config": ("config", "Checks and explains settings."),
    "doctor": ("doctor", "Checks the settings and everything they reach."),
    "bench": ("bench", "Measures writing and reading."),
}


def failure(error: RhumblineError) -> tuple[int, str]:
    """Exit code and text for an error."""
    text = str(error) or type(error).__name__
    if isinstance(error, UnsafeError):
        return EXIT_UNSAFE, text
    return (EXIT_USAGE if isinstance(error, InvalidArgumentError) else EXIT_FAILED), text


class _Root(click.Group):
    """Loads a command's module only when it is asked for, so that ``--help`` stays quick."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in _COMMANDS:
            return None
        module = import_module(f".{_COMMANDS[cmd_name][0]}", __package__)
        command = getattr(module, cmd_name)
        assert isinstance(command, click.Command)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, text) for name, (_, text) in _COMMANDS.items()])

    def invoke(self, ctx: click.Context) -> object:
        try:
            return super().invoke(ctx)
        except RhumblineError as error:
            code, text = failure(error)
            click.echo(f"rhumbline: {text}", err=True)
            ctx.exit(code)
        except KeyboardInterrupt:
            click.echo("rhumbline: interrupted", err=True)
            ctx.exit(EXIT_INTERRUPTED)
        except BrokenPipeError:
            # Whoever read our output has enough. The interpreter would complain once more at exit.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            ctx.exit(EXIT_FAILED)


def _version() -> str:
    try:
        return version("rhumbline")
    except PackageNotFoundError:
        return "not installed"


@click.command(cls=_Root, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(_version(), prog_name="rhumbline")
def main() -> None:
    """Geo-replicated, strictly ordered logs.

    Start with: rhumbline demo
    """
