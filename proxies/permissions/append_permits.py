"""The streams to which the caller of one append call may append."""

from ...access.access_control import AccessControl
from ...core.protocol.errors import RhumblineError
from ...security.caller import Caller
from ...security.grants import Action, stream_resource

_APPEND = (Action.APPEND,)
_STREAMS_MAX = 4_096


class AppendPermits:
    """The streams to which the caller of one append call may append. One look-up for each item."""

    def __init__(self, access: AccessControl, caller: Caller) -> None:
        self._access = access
        self._caller = caller
        self._generation = access.generation
        self._permitted: dict[tuple[str, str], None] = {}

    def refusal(self, namespace: str, stream: str) -> RhumblineError | None:
        """Return why the caller may not append to a stream now; None if it may."""
        access = self._access
        if self._generation != access.generation or len(self._permitted) > _STREAMS_MAX:
            self._generation = access.generation
            self._permitted.clear()
        if (namespace, stream) in self._permitted and access.is_current:
            return None
        try:
            access.check(self._caller, _APPEND, stream_resource(namespace, stream))
        except RhumblineError as error:
            return error
        self._permitted[namespace, stream] = None
        return None
