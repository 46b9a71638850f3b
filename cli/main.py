"""The entrance of the `rhumbline` command."""

from importlib.metadata import version

import click


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(version("rhumbline"), prog_name="rhumbline")
def main() -> None:
    """Geo-replicated, strictly ordered logs."""
