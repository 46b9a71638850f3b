"""All scopes."""

from .catalog.fences import FENCES
from .catalog.recoveries import RECOVERIES
from .catalog.repairs import REPAIRS
from .catalog.writes import WRITES
from .scope import Scope

SCOPES: tuple[Scope, ...] = (*WRITES, *FENCES, *RECOVERIES, *REPAIRS)


def scope_of(name: str) -> Scope:
    """Return the scope with this name. Raises KeyError."""
    return {scope.name: scope for scope in SCOPES}[name]
