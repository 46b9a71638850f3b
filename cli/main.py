"""The ``rhumbline`` command: its subcommands and its exit codes.

A user's mistake is reported in one line on stderr, without a traceback.
"""

import os
import sys
from importlib import import_module
from typing import Any

import click

from ..core.protocol.errors import ConfigurationError, RhumblineError, UnknownOutcomeError
from ..core.protocol.installation import is_lab_installed, lab_module
from ..server.process_log import PROCESS_LOG
from .build_info import version_lines
from .exit_codes import EXIT_FAILED, EXIT_INTERRUPTED, EXIT_USAGE, exit_code_of
from .output_form import TABLE, print_event, select_form, selected_form

_LAB = "lab:"
"""Marks modules of the distribution rhumbline-lab, which may be missing."""
_COMMANDS = {
    "demo": ("demo.command", "Demonstrate a three-region log with real data and a region outage."),
    "dev": ("servers.dev", "Run a three-region development cluster in one directory."),
    "stream": ("streams.stream", "Create, write and read streams."),
    "topic": ("topics.topic", "Create, write and show topics: streams shared by a key."),
    "group": ("topics.group", "Show consumer groups with their lag, and move their positions."),
    "subscription": ("topics.subscription", "Show and move the stored positions of readers."),
    "segment": ("streams.segment", "Show the log segments of a stream."),
    "apply": ("declared.commands", "Apply what TOML files declare to the cluster."),
    "diff": ("declared.commands", "Show what `apply` would change."),
    "export": ("declared.commands", "Print the state of the cluster as a file for `apply`."),
    "namespace": ("streams.namespace", "Create, show and delete namespaces."),
    "archive": ("streams.archive", "Copy completed segments to cold storage, and verify them."),
    "spark": ("streams.spark", "Archive, verify, copy, convert, profile and replay with Spark."),
    "node": ("operate.node", "Show, drain and decommission bookies."),
    "region": ("operate.region", "Show regions, drain them, take them offline."),
    "repair": ("operate.repair", "Replace lost copies, and move misplaced ones."),
    "rebalance": ("operate.rebalance", "Move copies to bookies that hold less."),
    "durability": (
        "operate.durability.command",
        "Show which data the loss of regions would put at risk.",
    ),
    "bookie": ("servers.bookie", "Format, run and examine a bookie."),
    "write-proxy": ("servers.proxy", "Run a write proxy: many producers, one owner per stream."),
    "read-proxy": ("servers.proxy", "Run a read proxy: many readers, one tail per stream."),
    "proxy": ("servers.proxy_admin", "Show the proxies, and move streams between them."),
    "quota": (
        "operate.protection.quota",
        "Limit principals, namespaces and streams, and show their usage.",
    ),
    "top": ("top.command", "Watch regions, servers, streams, repair and alerts."),
    "console": ("console.command", "Show the cluster live in a browser."),
    "sql": ("sql.command", "Query streams, ledgers, servers and metrics with SQL."),
    "plan": (
        "planning.plan",
        "Show the guarantees of a quorum, and what a load needs, before deployment.",
    ),
    "cluster": ("operate.cluster", "Initialise and describe a cluster."),
    "metadata": ("operate.metadata", "Inspect, migrate, back up and rebuild the metadata store."),
    "chaos": ("lab:chaos.command", "Rehearse outages, in the simulator or with real processes."),
    "security": ("security.command", "Make certificates, and show the one of this process."),
    "access": ("access.command", "Grant and revoke permissions, and explain decisions."),
    "config": ("operate.config", "Check and explain settings."),
    "completion": ("operate.completion", "Print a script that completes commands in a shell."),
    "doctor": ("operate.doctor", "Check the settings and the cluster that they refer to."),
    "bench": ("lab:bench.commands.bench", "Measure throughput and latency."),
}


def failure(error: RhumblineError) -> tuple[int, str]:
    """Return the exit code and the message for an error."""
    text = str(error) or type(error).__name__
    if isinstance(error, UnknownOutcomeError):
        text += "; the outcome is unknown: check the current state before you retry"
    return exit_code_of(error), text


class _AbsentCommand(click.Command):
    """A command of the distribution rhumbline-lab, which is not installed."""

    def make_context(self, *_: Any, **__: Any) -> click.Context:  # noqa: ANN401
        raise ConfigurationError(
            f"`rhumbline {self.name}` needs rhumbline-lab: pip install 'rhumbline[lab]'"
        )


class _Root(click.Group):
    """Imports the module of a command only when it is used, so that ``--help`` is fast."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in _COMMANDS:
            return None
        place = _COMMANDS[cmd_name][0]
        if not place.startswith(_LAB):
            module = import_module(f".{place}", __package__)
        elif is_lab_installed():
            module = lab_module(place.removeprefix(_LAB))
        else:
            return _AbsentCommand(cmd_name)
        command = getattr(module, cmd_name.replace("-", "_"))
        assert isinstance(command, click.Command)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, text) for name, (_, text) in _COMMANDS.items()])

    def main(self, *args: Any, **extra: Any) -> Any:  # noqa: ANN401 - click's own signature
        """Run a command and exit; report every expected failure in one line."""
        exit_code, text, code = 0, "", ""
        select_form(TABLE)
        try:
            with PROCESS_LOG.installed():
                result = super().main(*args, **{**extra, "standalone_mode": False})
            exit_code = result if isinstance(result, int) else 0
        except click.exceptions.NoArgsIsHelpError as error:
            click.echo(error.format_message())
            exit_code = EXIT_USAGE
        except click.UsageError as error:
            help_of = error.ctx.command_path if error.ctx is not None else "rhumbline"
            exit_code, text = EXIT_USAGE, f"{error.format_message()} See `{help_of} --help`."
            code = "usage"
        except click.ClickException as error:
            exit_code, text = EXIT_FAILED, error.format_message()
        except RhumblineError as error:
            exit_code, text = failure(error)
            code = error.code
        except BrokenPipeError:
            # The reader of the output has closed it. Avoids a second error at interpreter exit.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            exit_code = EXIT_FAILED
        except OSError as error:
            exit_code, text = EXIT_FAILED, str(error) or type(error).__name__
            code = "os"
        except (KeyboardInterrupt, click.Abort):
            exit_code, text, code = EXIT_INTERRUPTED, "interrupted", "interrupted"
        if text and selected_form() == TABLE:
            click.echo(f"rhumbline: {text}", err=True)
        elif text:
            print_event("error", code=code or "failed", exit_code=exit_code, text=text)
        sys.exit(exit_code)


@click.command(
    cls=_Root,
    context_settings={"help_option_names": ["-h", "--help"]},
    invoke_without_command=True,
)
@click.option("--version", "is_version", is_flag=True, help="Show the version and exit.")
@click.option(
    "--verbose", "is_verbose", is_flag=True, help="With --version: also show what is installed."
)
@click.pass_context
def main(context: click.Context, *, is_version: bool, is_verbose: bool) -> None:
    """Geo-replicated, strictly ordered logs.

    Start with: rhumbline demo
    """
    if is_version:
        click.echo("\n".join(version_lines(is_verbose=is_verbose)))
        context.exit()
    if is_verbose:
        raise click.UsageError("--verbose needs --version.", context)
    if context.invoked_subcommand is None:
        click.echo(context.get_help())
        context.exit(EXIT_USAGE)
