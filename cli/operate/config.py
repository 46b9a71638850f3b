"""``rhumbline config``: check, explain."""

from pathlib import Path

import click

from ..config_file import all_keys, load_settings
from ..output import print_record, print_rows, say


@click.group()
def config() -> None:
    """Settings come from a TOML file, RHUMBLINE_SECTION__KEY and options, in this order."""


@config.command()
@click.argument("file", required=False, type=click.Path(path_type=Path))
def check(file: Path | None) -> None:
    """Reads FILE (or the one that commands would read) and reports every fault."""
    loaded = load_settings(file)
    for name, source in sorted(loaded.sources.items()):
        section, _, key = name.partition(".")
        value = getattr(getattr(loaded.settings, section), key)
        click.echo(f"{name} = {value!r}  ({source})")
    say(f"{loaded.file or 'no file'}: {len(loaded.sources)} settings, no fault")


@config.command()
@click.argument("key", required=False)
@click.option("-o", "--output", type=click.Choice(["table", "json"]), default="table")
def explain(key: str | None, output: str) -> None:
    """Says what a setting (section.key) means; without KEY it lists all."""
    keys = list(all_keys())
    if key is None:
        rows = [
            {"key": f"{one.section}.{one.name}", "default": one.default, "type": one.type}
            for one in keys
        ]
        print_rows(rows, output, empty="there are no settings")
        return
    found = [one for one in keys if key in (f"{one.section}.{one.name}", one.name)]
    if not found:
        raise click.UsageError(f"no setting {key!r}; `rhumbline config explain` lists all")
    for one in found:
        record = {
            "key": f"{one.section}.{one.name}",
            "meaning": one.doc,
            "type": one.type,
            "default": one.default,
            "environment": one.env,
        }
        print_record(record, output)
