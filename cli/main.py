"""The entrance of the ``rhumbline`` command: which commands there are, and how they fail.

Exit codes: 0 done; 1 failed; 2 wrong usage (options, arguments, configuration); 3 refused because
it is unsafe. A mistake of the user is one line on stderr and never a traceback.
"""

import os
import sys
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import click

from ..core.protocol.errors import InvalidArgumentError, RhumblineError, UnknownOutcomeError
from .errors import UnsafeError

EXIT_FAILED = 1
EXIT_USAGE = 2
EXIT_UNSAFE = 3
EXIT_INTERRUPTED = 130

_COMMANDS = {
    "demo": ("demo.command", "Shows a three-region log with real data and a region outage."),
    "dev": ("servers.dev", "Keeps a three-region cluster running from one directory."),
    "stream": ("streams.stream", "Creates, writes and reads streams."),
    "segment": ("streams.segment", "Shows the log segments of a stream."),
    "namespace": ("streams.namespace", "Creates and shows namespaces."),
    "archive": ("streams.archive", "Copies completed segments to cold storage and checks them."),
    "spark": ("streams.spark", "Archives, checks and replays with Spark."),
    "node": ("operate.node", "Shows the bookies of the cluster, drains and decommissions them."),
    "region": ("operate.region", "Shows the regions, drains them, takes them offline."),
    "repair": ("operate.repair", "Makes lost copies again and moves misplaced ones."),
    "durability": ("operate.durability", "Says what would not be safe if regions were lost."),
    "bookie": ("servers.bookie", "Formats, runs and examines a bookie."),
    "write-proxy": ("servers.proxy", "Runs a write proxy: many producers, one owner a stream."),
    "read-proxy": ("servers.proxy", "Runs a read proxy: many readers, one tail a stream."),
    "proxy": ("servers.proxy_admin", "Shows the proxies, and moves their streams."),
    "plan": ("operate.plan", "Says what a quorum promises before anything is deployed."),
    "cluster": ("operate.cluster", "Initialises a cluster."),
    "metadata": ("operate.metadata", "Looks into the metadata store, and moves it to another one."),
    "chaos": ("operate.chaos", "Rehearses outages, in the simulator or with real processes."),
    "config": ("operate.config", "Checks and explains settings."),
    "doctor": ("operate.doctor", "Checks the settings and everything they reach."),
    "bench": ("bench.bench", "Measures writing and reading."),
}


def failure(error: RhumblineError) -> tuple[int, str]:
    """Exit code and text for an error."""
    text = str(error) or type(error).__name__
    if isinstance(error, UnknownOutcomeError):
        text += "; it may have happened or not: look before you repeat it"
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
        command = getattr(module, cmd_name.replace("-", "_"))
        assert isinstance(command, click.Command)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, text) for name, (_, text) in _COMMANDS.items()])

    def main(self, *args: Any, **extra: Any) -> Any:  # noqa: ANN401 - click's own signature
        """Runs a command and exits; every failure that is no bug of ours is one line."""
        code, text = 0, ""
        try:
            result = super().main(*args, **{**extra, "standalone_mode": False})
            code = result if isinstance(result, int) else 0
        except click.exceptions.NoArgsIsHelpError as error:
            click.echo(error.format_message())
            code = EXIT_USAGE
        except click.UsageError as error:
            help_of = error.ctx.command_path if error.ctx is not None else "rhumbline"
            code, text = EXIT_USAGE, f"{error.format_message()} See `{help_of} --help`."
        except click.ClickException as error:
            code, text = EXIT_FAILED, error.format_message()
        except RhumblineError as error:
            code, text = failure(error)
        except BrokenPipeError:
            # Whoever read our output has enough. The interpreter would complain once more at exit.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            code = EXIT_FAILED
        except OSError as error:
            code, text = EXIT_FAILED, str(error) or type(error).__name__
        except (KeyboardInterrupt, click.Abort):
            code, text = EXIT_INTERRUPTED, "interrupted"
        if text:
            click.echo(f"rhumbline: {text}", err=True)
        sys.exit(code)


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
