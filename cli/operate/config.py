"""``rhumbline config``: check, explain."""

from pathlib import Path

import click

from ..config_file import all_keys, load_settings
from ..output import print_message, print_record, print_rows


@click.group()
def config() -> None:
    """Check and explain settings.

    They are read from a TOML file, from RHUMBLINE_SECTION__KEY and from options, in this order.
    """


@config.command()
@click.argument("file", required=False, type=click.Path(path_type=Path))
def check(file: Path | None) -> None:
    """Read FILE (default: the file that other commands read) and report every error."""
    loaded = load_settings(file)
    for name, source in sorted(loaded.sources.items()):
        section, _, key = name.partition(".")
        value = getattr(getattr(loaded.settings, section), key)
        click.echo(f"{name} = {value!r}  ({source})")
    print_message(f"{loaded.file or 'no file'}: {len(loaded.sources)} settings, no errors")


@config.command()
@click.argument("key", required=False)
@click.option("-o", "--output", type=click.Choice(["table", "json"]), default="table")
def explain(key: str | None, output: str) -> None:
    """Describe the setting KEY (section.key); without KEY, list all settings."""
    keys = list(all_keys())
    if key is None:
        rows = [
            {
                "key": f"{setting.section}.{setting.name}",
                "default": setting.default,
                "type": setting.type,
            }
            for setting in keys
        ]
        print_rows(rows, output, empty="no settings")
        return
    found = [
        setting for setting in keys if key in (f"{setting.section}.{setting.name}", setting.name)
    ]
    if not found:
        raise click.UsageError(
            f"unknown setting {key!r}; `rhumbline config explain` lists all settings"
        )
    for setting in found:
        record = {
            "key": f"{setting.section}.{setting.name}",
            "meaning": setting.doc,
            "type": setting.type,
            "default": setting.default,
            "environment": setting.env,
        }
        print_record(record, output)
