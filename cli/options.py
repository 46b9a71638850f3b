"""Options that many commands share, and the session that they configure."""

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
    """The settings and the output format that the shared options select."""

    loaded: Loaded
    output: str

    @property
    def settings(self) -> Settings:
        """The settings, with the options applied."""
        return self.loaded.settings

    def metadata_uri(self) -> str:
        """Return the URI of the cluster's metadata. Raises ConfigurationError if it is not set."""
        uri = self.settings.cluster.metadata
        if not uri:
            raise ConfigurationError(
                "no cluster selected: set --metadata URI, RHUMBLINE_CLUSTER__METADATA, or "
                "[cluster] metadata in a settings file; `rhumbline dev` starts a cluster here"
            )
        return uri

    @asynccontextmanager
    async def client(
        self, *, moves_data: bool = True, tracer: Tracer | None = None
    ) -> AsyncIterator[Client]:
        """Open a client of the cluster. With ``moves_data=False`` it needs no region."""
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
        """Export metrics and traces of this process, if the settings enable it."""
        return running_telemetry(
            self.settings.telemetry, service=service, region=self.settings.cluster.region
        )

    @asynccontextmanager
    async def namespace(self, *, moves_data: bool = True) -> AsyncIterator[Namespace]:
        """Open the namespace that the command works on."""
        async with self.client(moves_data=moves_data) as client:
            yield client.namespace()


def session_options(command: Command) -> Command:
    """Add the options of every command; pass a ``CommandSession`` as the first argument."""

    @click.option(
        "--config", "config_file", type=click.Path(path_type=Path), help="TOML file with settings."
    )
    @click.option("-u", "--metadata", help="URI of the cluster's metadata store.")
    @click.option("-n", "--namespace", help="Namespace. [default: default]")
    @click.option("--region", help="Region of this process.")
    @click.option(
        "-o",
        "--output",
        type=click.Choice(["table", "json"]),
        default="table",
        show_default=True,
        help="Output format.",
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
    """Make a coroutine function a command body that runs in a new event loop."""

    @wraps(command)
    def wrapped(*args: object, **arguments: object) -> object:
        return run(command(*args, **arguments))

    return wrapped
