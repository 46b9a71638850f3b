"""Interfaces to the encryption of connections, which core uses without knowing TLS."""

from collections.abc import Callable
from enum import Enum, auto
from typing import Any, NamedTuple, Protocol

Accept = Callable[[], Any]
"""Returns the protocol (see asyncio.Protocol) for an accepted connection."""


class FirstStep(Enum):
    """The treatment of a connection whose first bytes are not encrypted."""

    WAIT = auto()
    """More bytes are needed to decide."""
    PASS = auto()
    """The connection goes on without encryption."""
    UPGRADE = auto()
    """The response is sent, and encryption begins after it."""
    REFUSE = auto()
    """The response is sent, and the connection is closed."""


class FirstVerdict(NamedTuple):
    """The treatment of a connection, and the response that is sent for it."""

    step: FirstStep
    response: bytes = b""


WAIT, PASS = FirstVerdict(FirstStep.WAIT), FirstVerdict(FirstStep.PASS)

JudgeFirstBytes = Callable[[bytes], FirstVerdict]
"""Returns the verdict for all bytes that have been received without encryption."""


class IncomingSecurity(Protocol):
    """Protects the connections that a server accepts."""

    @property
    def is_required(self) -> bool:
        """True if connections without encryption are refused."""
        ...

    def guard(self, accept: Accept, judge: JudgeFirstBytes) -> Any:  # noqa: ANN401 - asyncio.Protocol
        """Return the protocol for a new connection, which gives it to ``accept`` once it is safe.

        ``judge`` decides about a connection that begins without encryption.
        """
        ...


class OutgoingSecurity(Protocol):
    """Protects the connections that a process opens."""

    def protect(self, protocol: Any, host: str, *, upgrades: bool) -> Any:  # noqa: ANN401 - as above
        """Return the protocol for a new connection to ``host``, on which ``protocol`` then speaks.

        ``upgrades`` is True if the server expects a request before encryption begins.
        """
        ...
