"""``rhumbline config``: check, explain."""

import json
from pathlib import Path

import click

from ...core.runtime.settings import plain_value
from ..config_file import all_keys, load_settings
from ..output import TABLE, output_option, print_message, print_record, print_rows
from ..output_schema import prints, record, rows, text


@click.group()
def config() -> None:
    """Check and explain settings.

    They are read from a TOML file, from RHUMBLINE_SECTION__KEY and from options, in this order.
    """


_KEY = text("section.key of the setting.")
_VALUE = text("The value as it is written in a file; empty: not set.")


@config.command()
@click.argument("file", required=False, type=click.Path(path_type=Path))
@prints(
    rows(
        record({"key": _KEY, "value": _VALUE, "source": text("option, environment or a file.")}),
    )
)
@output_option
def check(file: Path | None, output: str) -> None:
    """Read FILE (default: the file that other commands read) and report every error."""
    loaded = load_settings(file)
    found = []
    for name, source in sorted(loaded.sources.items()):
        section, _, key = name.partition(".")
        value = getattr(getattr(loaded.settings, section), key)
        if output == TABLE:
            click.echo(f"{name} = {value!r}  ({source})")
        found.append({"key": name, "value": _plain(value), "source": str(source)})
    if output != TABLE:
        print_rows(found, output, empty="")
    print_message(f"{loaded.file or 'no file'}: {len(loaded.sources)} settings, no errors")


@config.command()
@click.argument("key", required=False)
@prints(
    rows(
        record(
            {
                "key": _KEY,
                "meaning": text("Meaning of the setting."),
                "type": text("Valid values."),
                "default": _VALUE,
                "environment": text("Environment variable that sets it."),
            }
        )
    )
)
@output_option
def explain(key: str | None, output: str) -> None:
    """Describe the setting KEY (section.key); without KEY, list all settings."""
    keys = list(all_keys())
    if key is None and output == TABLE:
        shown = [
            {"key": item.name, "default": item.setting.default, "type": item.values}
            for item in keys
        ]
        print_rows(shown, output, empty="no settings")
        return
    found = [item for item in keys if key in (None, item.name, item.setting.name)]
    if not found:
        raise click.UsageError(
            f"unknown setting {key!r}; `rhumbline config explain` lists all settings"
        )
    explained = [
        {
            "key": item.name,
            "meaning": item.setting.text,
            "type": item.values,
            "default": _plain(item.setting.default),
            "environment": item.env,
        }
        for item in found
    ]
    if output != TABLE:
        print_rows(explained, output, empty="")
        return
    for one in explained:
        print_record(one, output)


def _plain(value: object) -> str:
    """Return the value of a setting as text; lists and tables as JSON."""
    plain = plain_value(value)
    if plain in (None, "", []):
        return ""
    return plain if isinstance(plain, str) else json.dumps(plain)
