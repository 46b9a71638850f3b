"""Options that many commands share, and the session that they configure."""

from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from functools import wraps
from pathlib import Path
from typing import Any

import click

from ..access.audit_log import audit_log_of
from ..access.token_source import TokenSource, token_source
from ..client.connect import Client
from ..client.settings import LogSettings, Settings
from ..client.system_runtime import run, system_runtime
from ..core.log.namespace import Namespace
from ..core.protocol.errors import ConfigurationError
from ..core.runtime.settings import DeclaredSetting, Unit
from ..core.runtime.tracing import Tracer
from ..server.process_log import PROCESS_LOG, ProcessLog
from ..telemetry.process_telemetry import Telemetry, running_telemetry
from ..tls.protection import UNPROTECTED, Protection, protection_of
from .command_audit import audited_command, source_of_process
from .config_file import Loaded, all_keys, load_settings
from .output_form import output_option
from .overview.status_documents import connect_with
from .server_log import server_log

Command = Callable[..., Any]


@dataclass(frozen=True, slots=True)
class CommandSession:
    """The settings and the output format that the shared options select."""

    loaded: Loaded
    output: str
    options: Mapping[str, str] = field(default_factory=dict)
    """The settings that were given as options, by ``section.key``."""
    protection: Protection = UNPROTECTED
    """TLS of this process, from its settings."""

    @property
    def settings(self) -> Settings:
        """The settings, with the options applied."""
        return self.loaded.settings

    def token(self) -> TokenSource | None:
        """Return the token for proxies; None if none is set. Raises ConfigurationError."""
        return token_source(None, self.settings.security.token_file)

    def regional_uri(self, region: str) -> str:
        """Return the URI of a region's metadata store. Raises ConfigurationError if not set."""
        known = dict(self.settings.cluster.regional_metadata)
        if region not in known:
            raise ConfigurationError(
                f"region {region} has no metadata store in the settings: set "
                f"cluster.regional_metadata (configured regions: "
                f"{', '.join(sorted(known)) or 'none'})"
            )
        return known[region]

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
            metadata_stale_after_ms=settings.cluster.metadata_stale_after_ms,
            runtime=system_runtime(tracer, self.protection.connecting),
            regional_metadata=dict(settings.cluster.regional_metadata),
            telemetry=settings.telemetry,
            ledger_secrets=settings.security.ledger_secrets,
        )
        async with client:
            yield client

    def telemetry(self, service: str) -> AbstractAsyncContextManager[Telemetry]:
        """Export metrics and traces of this process, if the settings enable it."""
        return running_telemetry(
            self.settings.telemetry, service=service, region=self.settings.cluster.region
        )

    @contextmanager
    def server_log(self, source: str) -> Iterator[ProcessLog]:
        """Log as a server until the block ends; ``source`` names the process in its lines."""

        def read_again() -> LogSettings:
            return load_settings(self.loaded.file, options=self.options).settings.log

        with server_log(source, self.settings.log, read_again) as log:
            yield log

    @asynccontextmanager
    async def namespace(self, *, moves_data: bool = True) -> AsyncIterator[Namespace]:
        """Open the namespace that the command works on."""
        async with self.client(moves_data=moves_data) as client:
            yield client.namespace()


def setting_option(key: str, *names: str) -> Callable[[Command], Command]:
    """Add an option for the setting ``section.key``; ``session_options`` must follow below it.

    The setting's declaration is the help text and checks the value.
    """
    (declared,) = (item.setting for item in all_keys() if item.name == key)
    return click.option(*names, _parameter(key), help=declared.text, metavar=metavar_of(declared))


_SESSION_SETTINGS = (
    ("cluster.metadata", "-u", "--metadata"),
    ("cluster.namespace", "-n", "--namespace"),
    ("cluster.region", "--region"),
)


def session_options(command: Command) -> Command:
    """Add the options of every command; pass a ``CommandSession`` as the first argument."""

    @wraps(command)
    def wrapped(
        config_file: Path | None, assignments: Sequence[str], output: str, **arguments: object
    ) -> object:
        options = dict(_assignment(text) for text in assignments)
        for key in (item.name for item in all_keys()):
            value = arguments.pop(_parameter(key), None)
            if value is not None:
                options[key] = str(value)
        loaded = load_settings(config_file, options=options)
        audit = audit_log_of(loaded.settings.audit, source_of_process())
        protection = protection_of(loaded.settings.tls, loaded.settings.security, audit)
        connect_with(protection.connecting)
        session = CommandSession(loaded, output, options, protection)
        if "log.level" in options:
            log = session.settings.log
            PROCESS_LOG.configure(log.level, log.format, log.levels)
        try:
            with audited_command(protection, session.settings.cluster.namespace):
                return command(session, **arguments)
        finally:
            if audit is not None:
                audit.close()

    shared: tuple[Callable[[Command], Command], ...] = (
        click.option(
            "--config",
            "config_file",
            type=click.Path(path_type=Path),
            help="TOML file with settings.",
        ),
        *(setting_option(key, *names) for key, *names in _SESSION_SETTINGS),
        click.option(
            "--set",
            "assignments",
            multiple=True,
            metavar="SECTION.KEY=VALUE",
            help="Any setting, e.g. ledger.request_timeout_ms=2s. May be repeated.",
        ),
        output_option,
    )
    decorated: Command = wrapped
    for option in reversed(shared):
        decorated = option(decorated)
    return decorated


def metavar_of(declared: DeclaredSetting) -> str:
    """Return the placeholder for the value of a setting's option."""
    by_unit = {Unit.MS: "DURATION", Unit.BYTES: "SIZE"}
    return by_unit.get(declared.unit, "NUMBER" if declared.kind in (int, float) else "TEXT")


def _parameter(key: str) -> str:
    return f"setting_{key.replace('.', '_')}"


def _assignment(text: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if not equals:
        raise click.UsageError(f"--set {text}: write it like ledger.request_timeout_ms=2s")
    return key.strip(), value.strip()


def runs(command: Callable[..., Coroutine[Any, Any, Any]]) -> Command:
    """Make a coroutine function a command body that runs in a new event loop."""

    @wraps(command)
    def wrapped(*args: object, **arguments: object) -> object:
        return run(command(*args, **arguments))

    return wrapped
