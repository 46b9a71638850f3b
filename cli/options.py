"""Options that many commands share, and the session that they describe."""

from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from typing import Any

import click

from ..client.connect import Client
from ..client.settings import Settings
from ..client.system_runtime import run, system_runtime
from ..core.log.namespace import Namespace
from ..core.protocol.errors import ConfigurationError
from ..core.runtime.tracing import Tracer
from ..telemetry.process_telemetry import Telemetry, running_telemetry
from .config_file import Loaded, load_settings

Command = Callable[..., Any]


@dataclass(frozen=True, slots=True)
class CommandSession:
    """What the shared options say."""

    loaded: Loaded
    output: str

    @property
    def settings(self) -> Settings:
        """The settings with the options applied."""
        return self.loaded.settings

    def metadata_uri(self) -> str:
        """Where the cluster's metadata is. Raises ConfigurationError when nothing says so."""
        uri = self.settings.cluster.metadata
        if not uri:
            raise ConfigurationError(
                "which cluster? give --metadata URI, RHUMBLINE_CLUSTER__METADATA, or a file with "
                "[cluster] metadata; `rhumbline dev` starts a cluster here"
            )
        return uri

    @asynccontextmanager
    async def client(
        self, *, moves_data: bool = True, tracer: Tracer | None = None
    ) -> AsyncIterator[Client]:
        """A client of the cluster. One that moves no data needs no region."""
        settings = self.settings
        client = Client(
            self.metadata_uri(),
            namespace=settings.cluster.namespace,
            region=settings.cluster.region or None,
            ledger=settings.ledger,
            writer=settings.writer,
            reader=settings.reader,
            reads=settings.reads,
            moves_data=moves_data,
            cold=settings.cluster.cold or None,
            metadata_timeout_ms=settings.cluster.metadata_timeout_ms,
            runtime=system_runtime(tracer),
        )
        async with client:
            yield client

    def telemetry(self, service: str) -> AbstractAsyncContextManager[Telemetry]:
        """Exports what this process does, if the settings say so."""
        return running_telemetry(
            self.settings.telemetry, service=service, region=self.settings.cluster.region
        )

    @asynccontextmanager
    async def namespace(self, *, moves_data: bool = True) -> AsyncIterator[Namespace]:
        """The namespace that the command works on."""
        async with self.client(moves_data=moves_data) as client:
            yield client.namespace()


def session_options(command: Command) -> Command:
    """Adds the options of every command; passes a ``CommandSession`` as the first argument."""

    @click.option("--config", "config_file", type=click.Path(path_type=Path), help="TOML file.")
    @click.option("-u", "--metadata", help="URI of the cluster's metadata store.")
    @click.option("-n", "--namespace", help="Namespace (default: default).")
    @click.option("--region", help="Region of this process.")
    @click.option(
        "-o", "--output", type=click.Choice(["table", "json"]), default="table", show_default=True
    )
    @wraps(command)
    def wrapped(
        config_file: Path | None,
        metadata: str | None,
        namespace: str | None,
        region: str | None,
        output: str,
        **arguments: object,
    ) -> object:
        options = {
            "cluster.metadata": metadata,
            "cluster.namespace": namespace,
            "cluster.region": region,
        }
        return command(
            CommandSession(load_settings(config_file, options=options), output), **arguments
        )

    return wrapped


def runs(command: Callable[..., Coroutine[Any, Any, Any]]) -> Command:
    """Turns a coroutine function into a command body on a fresh event loop."""

    @wraps(command)
    def wrapped(*args: object, **arguments: object) -> object:
        return run(command(*args, **arguments))

    return wrapped
