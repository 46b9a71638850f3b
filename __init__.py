"""Rhumbline is a geo-replicated, strictly ordered log service."""

import logging
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from . import (
        errors,
        plugins,
        policies,
        settings,
        stores,
        sync,
        telemetry,
        topics,
        typed,
    )
    from .client.connect import Client, connect
    from .client.topics import Topics
    from .core.log.api.log_client import LogClient
    from .core.log.api.log_namespace import LogNamespace
    from .core.log.api.log_subscriptions import LogSubscriptions
    from .core.log.api.log_writer import LogWriter
    from .core.log.namespace import Namespace
    from .core.log.policy import StreamPolicy
    from .core.log.read.record_batch import Record, RecordBatch
    from .core.log.read.stream_reader import StreamReader
    from .core.log.write.batch import AppendManyResult, AppendResult
    from .core.log.write.stream_writer import StreamWriter
    from .core.protocol.dlsn import Dlsn
    from .core.protocol.errors import RhumblineError
    from .core.protocol.start import (
        EARLIEST,
        LATEST,
        AtEventTime,
        AtSequenceId,
        AtTime,
        AtTxid,
        Start,
    )

    __version__: str

# An application that does not configure logging gets no lines on its stderr.
logging.getLogger(__name__).addHandler(logging.NullHandler())

__all__ = [
    "__version__",
    "connect",
    "LogClient",
    "LogNamespace",
    "LogSubscriptions",
    "LogWriter",
    "StreamPolicy",
    "Topics",
    "Client",
    "Namespace",
    "StreamWriter",
    "StreamReader",
    "AppendResult",
    "AppendManyResult",
    "Record",
    "RecordBatch",
    "Dlsn",
    "Start",
    "EARLIEST",
    "LATEST",
    "AtTxid",
    "AtSequenceId",
    "AtTime",
    "AtEventTime",
    "RhumblineError",
    "errors",
    "plugins",
    "policies",
    "settings",
    "stores",
    "sync",
    "telemetry",
    "topics",
    "typed",
]

_MODULES = {
    "errors", "plugins", "policies", "settings", "stores", "sync", "telemetry", "topics", "typed",
}  # fmt: skip
_HOMES = {
    "connect": ".client.connect",
    "Client": ".client.connect",
    "LogClient": ".core.log.api.log_client",
    "LogNamespace": ".core.log.api.log_namespace",
    "LogSubscriptions": ".core.log.api.log_subscriptions",
    "LogWriter": ".core.log.api.log_writer",
    "StreamPolicy": ".core.log.policy",
    "Topics": ".client.topics",
    "Namespace": ".core.log.namespace",
    "StreamWriter": ".core.log.write.stream_writer",
    "StreamReader": ".core.log.read.stream_reader",
    "AppendResult": ".core.log.write.batch",
    "AppendManyResult": ".core.log.write.batch",
    "Record": ".core.log.read.record_batch",
    "RecordBatch": ".core.log.read.record_batch",
    "Dlsn": ".core.protocol.dlsn",
    "Start": ".core.protocol.start",
    "EARLIEST": ".core.protocol.start",
    "LATEST": ".core.protocol.start",
    "AtTxid": ".core.protocol.start",
    "AtSequenceId": ".core.protocol.start",
    "AtTime": ".core.protocol.start",
    "AtEventTime": ".core.protocol.start",
    "RhumblineError": ".core.protocol.errors",
}


def __getattr__(name: str) -> Any:  # noqa: ANN401 - any of the names above
    """Imports a public name when it is first used, so that ``import rhumbline`` stays cheap."""
    if name == "__version__":
        return import_module(".core.protocol.installation", __name__).installed_version()
    if name in _MODULES:
        return import_module(f".{name}", __name__)
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOMES[name], __name__), name)


def __dir__() -> list[str]:
    return __all__
