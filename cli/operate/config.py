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
            {"key": item.name, "default": item.setting.default, "type": item.values}
            for item in keys
        ]
        print_rows(rows, output, empty="no settings")
        return
    found = [item for item in keys if key in (item.name, item.setting.name)]
    if not found:
        raise click.UsageError(
            f"unknown setting {key!r}; `rhumbline config explain` lists all settings"
        )
    for item in found:
        record = {
            "key": item.name,
            "meaning": item.setting.text,
            "type": item.values,
            "default": item.setting.default,
            "environment": item.env,
        }
        print_record(record, output)
