"""Which listener of a proxy serves which call (rule SEC-44). Pure."""

from enum import Enum

from ...security.grants import Action
from ..permissions.call_requirements import REQUIREMENTS, UNRESTRICTED
from ..rpc.methods import Method

ADMINISTRATIVE = frozenset(
    method
    for method, requirement in REQUIREMENTS.items()
    if requirement.actions == (Action.ADMINISTER,) and not requirement.is_internal
)
"""The calls that only the action ``administer`` permits."""

ON_EACH = UNRESTRICTED | frozenset(
    method
    for method, requirement in REQUIREMENTS.items()
    if Action.ADMINISTER in requirement.actions and method not in ADMINISTRATIVE
)
"""The calls of operators that applications need as well, or other proxies."""


class Listener(Enum):
    """A port of a proxy."""

    SHARED = "shared"
    """The only one, which serves everything."""
    DATA = "data"
    """That of applications, if operators have one of their own."""
    OPERATORS = "operators"

    def serves(self, method: Method) -> bool:
        """Return whether calls of a method are served here."""
        if self is Listener.SHARED:
            return True
        is_administrative = method in ADMINISTRATIVE
        if self is Listener.DATA:
            return not is_administrative
        return is_administrative or method in ON_EACH
