"""The caller of one call, and the observer of decisions about callers."""

from contextvars import ContextVar
from typing import NamedTuple, Protocol

from .grant_table import AccessDecision
from .grants import Action, Resource
from .principal import ANONYMOUS, Principal


class Caller(NamedTuple):
    """The party that made a call."""

    principal: Principal = ANONYMOUS
    peer: str = ""
    """Address from which the call came."""
    request_id: str = ""


NOBODY = Caller()
"""The caller outside calls, and of calls whose caller need not be known."""

CURRENT_CALLER: ContextVar[Caller] = ContextVar("caller", default=NOBODY)
"""The party that made the call being served; set where callers are admitted."""


class AccessObserver(Protocol):
    """Is told of each refusal, at the only place where refusals are made. Returns at once."""

    def refused(
        self, caller: Caller, action: Action, resource: Resource, decision: AccessDecision
    ) -> None:
        """Note that a caller may not do ``action`` to ``resource``."""
        ...
