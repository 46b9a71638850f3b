"""Rhumbline is a geo-replicated, strictly ordered log service."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .client import sync_client as sync
    from .client.connect import Client, connect
    from .core.log.read.positioning import EARLIEST, LATEST, AtSequenceId, AtTxid
    from .core.protocol.dlsn import Dlsn
    from .core.protocol.errors import RhumblineError

__all__ = [
    "AtSequenceId",
    "AtTxid",
    "Client",
    "Dlsn",
    "EARLIEST",
    "LATEST",
    "RhumblineError",
    "connect",
    "sync",
]

_HOMES = {
    "AtSequenceId": ".core.log.read.positioning",
    "AtTxid": ".core.log.read.positioning",
    "Client": ".client.connect",
    "Dlsn": ".core.protocol.dlsn",
    "EARLIEST": ".core.log.read.positioning",
    "LATEST": ".core.log.read.positioning",
    "RhumblineError": ".core.protocol.errors",
    "connect": ".client.connect",
}


def __getattr__(name: str) -> Any:  # noqa: ANN401 - any of the names above
    """Imports a public name when it is first asked for: `import rhumbline` alone stays cheap."""
    if name == "sync":  # the module itself
        return import_module(".client.sync_client", __name__)
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOMES[name], __name__), name)


def __dir__() -> list[str]:
    return __all__
