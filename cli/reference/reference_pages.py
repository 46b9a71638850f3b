"""Generates the reference pages from the code: commands, settings, metrics, gRPC, contracts.

``make reference`` writes them; a test checks that they are up to date.
"""

from collections.abc import Iterator
from pathlib import Path

import click

from ..config_file import all_keys
from ..exit_codes import EXIT_CODES
from .command_tree import all_commands
from .console_runbook import CONSOLE_RUNBOOK, RUNBOOK, runbook_document
from .grpc_reference import grpc_page
from .metrics_reference import METRICS_FILE, metrics_page
from .output_reference import output_page, output_schema
from .policy_reference import POLICIES_FILE, policies_page
from .sql_reference import SQL_FILE, sql_page
from .state_machines import state_machines_page
from .store_comparison import RESULTS_FILE, store_comparison_page
from .store_contract import store_contract_page

COMMANDS_FILE = "cli.md"
SETTINGS_FILE = "config.md"
OUTPUT_FILE = "output.md"
OUTPUT_SCHEMA_FILE = "output-schema.json"
GRPC_FILE = "grpc-api.md"
STATE_MACHINES_FILE = "state-machines.md"
STORE_CONTRACT_FILE = "store-contract.md"
STORE_COMPARISON_FILE = "metadata-stores.md"

_COMMANDS_HEAD = """\
# Commands

Generated from the program; do not edit. Every command has `--help`, and `--output
table|json|jsonl` with documents that are [described by a schema](output.md). Commands that work on
a cluster also have the options `--config`, `--metadata`, `--namespace`, `--region` and `--set
SECTION.KEY=VALUE` for [any setting](config.md). These options are omitted below.

| exit code | meaning |
|---|---|
"""
_SETTINGS_HEAD = """\
# Settings

Generated from the program; do not edit. A setting is read from its option, else from the
environment, else from the TOML file (`--config`, `RHUMBLINE_CONFIG`, `./rhumbline.toml`,
`./rhumbline-dev/rhumbline.toml`, `/etc/rhumbline/rhumbline.toml`), else it has its default. Unknown
keys are errors. Durations are written like `10ms`, `1.5s`, `2h`; sizes like `64MiB`.
"""
_SHARED = {
    "config_file",
    "assignments",
    "output",
    *(f"setting_cluster_{name}" for name in ("metadata", "namespace", "region")),
}


def commands_page() -> str:
    """Return the page of all commands with their arguments and options."""
    codes = [f"| {code} | {meaning} |" for code, meaning in EXIT_CODES.items()]
    head = _COMMANDS_HEAD + "\n".join(codes) + "\n"
    return "\n".join([head, *_describe()])


def settings_page() -> str:
    """Return the page of all settings, with a table for each section."""
    lines = [_SETTINGS_HEAD]
    section = ""
    for key in all_keys():
        if key.section != section:
            section = key.section
            lines += ["", f"## [{section}]", "", "| key | default | meaning |", "|---|---|---|"]
        value = key.setting.default
        default = "" if value in ("", None, ()) else f"`{value}`"
        meaning = f"{key.setting.text} ({key.values})".replace("|", "&#124;")
        lines.append(f"| `{key.setting.name}` | {default} | {meaning} |")
    return "\n".join(lines) + "\n"


def _describe() -> Iterator[str]:
    for path, command in all_commands():
        yield from _describe_command(command, path)


def _describe_command(command: click.Command, path: str) -> Iterator[str]:
    arguments = [p for p in command.params if isinstance(p, click.Argument)]
    shown = " ".join(p.make_metavar(click.Context(command)) for p in arguments)
    yield f"## {f'{path} {shown}'.strip()}\n"
    yield f"{_text(command.help)}\n"
    options = [p for p in command.params if isinstance(p, click.Option) and p.name not in _SHARED]
    for option in options:
        record = option.get_help_record(click.Context(command))
        if record is not None:
            yield f"- `{record[0]}` {_text(record[1])}".rstrip()
    if options:
        yield ""


def _text(help_text: str | None) -> str:
    return " ".join((help_text or "").split()).replace("<", "&lt;")


def write_pages(directory: Path) -> None:
    """Write all pages to ``directory``, which holds the results of the metadata stores."""
    (directory / COMMANDS_FILE).write_text(commands_page(), encoding="utf-8")
    (directory / SETTINGS_FILE).write_text(settings_page(), encoding="utf-8")
    (directory / POLICIES_FILE).write_text(policies_page(), encoding="utf-8")
    (directory / METRICS_FILE).write_text(metrics_page(), encoding="utf-8")
    (directory / SQL_FILE).write_text(sql_page(), encoding="utf-8")
    (directory / OUTPUT_FILE).write_text(output_page(), encoding="utf-8")
    (directory / OUTPUT_SCHEMA_FILE).write_text(output_schema(), encoding="utf-8")
    (directory / GRPC_FILE).write_text(grpc_page(), encoding="utf-8")
    (directory / STATE_MACHINES_FILE).write_text(state_machines_page(), encoding="utf-8")
    (directory / STORE_CONTRACT_FILE).write_text(store_contract_page(), encoding="utf-8")
    runbook = (directory.parent / RUNBOOK).read_text(encoding="utf-8")
    CONSOLE_RUNBOOK.write_text(runbook_document(runbook), encoding="utf-8")
    comparison = store_comparison_page(directory / RESULTS_FILE)
    (directory / STORE_COMPARISON_FILE).write_text(comparison, encoding="utf-8")
