"""The option that selects the cold store."""

import click

from ...coldstore.stores.open_store import open_cold_store
from ...core.protocol.errors import ConfigurationError
from ...core.runtime.cold_store import ColdStore
from ..options import Command, CommandSession


def cold_option(command: Command) -> Command:
    """Add ``--cold``."""
    return click.option(
        "--cold",
        help="URI of the cold store: file:///path, s3://bucket/prefix, webhdfs://host:port/root. "
        "[default: cluster.cold]",
    )(command)


def opened_cold(session: CommandSession, cold: str | None) -> ColdStore:
    """Open the cold store. Raises ConfigurationError if none is selected."""
    uri = cold or session.settings.cluster.cold
    if not uri:
        raise ConfigurationError("no cold store: give --cold URI, or set cluster.cold")
    return open_cold_store(uri)
