"""The interface of a namespace: its streams, their policies and their subscriptions."""

from collections.abc import Callable
from typing import Protocol

from ...protocol.dlsn import Dlsn
from ...protocol.start import Start
from ..metadata.stream_description import StreamDescription
from ..metadata.stream_schema import StreamSchemas
from ..namespace import LIST_LIMIT
from ..policy import StreamPolicy
from ..read.stream_reader import StreamReader
from .log_subscriptions import LogSubscriptions
from .log_writer import LogWriter


class LogNamespace(Protocol):
    """One namespace, of a direct client or of a client of proxies. Holds no resources."""

    name: str
    """The name of the namespace."""

    @property
    def subscriptions(self) -> LogSubscriptions:
        """The named reader positions of the streams."""
        ...

    @property
    def schemas(self) -> StreamSchemas:
        """The schemas of the streams' payloads."""
        ...

    async def policy(self) -> StreamPolicy:
        """Return the policy of streams without one of their own. Raises NoSuchNamespaceError."""
        ...

    async def set_policy(self, policy: StreamPolicy) -> None:
        """Set the namespace's policy, effective with the next segment of each stream."""
        ...

    async def create_stream(self, name: str, policy: StreamPolicy | None = None) -> None:
        """Create a stream; without a policy it follows that of the namespace.

        Raises StreamExistsError, NoSuchNamespaceError, InvalidArgumentError (invalid name).
        """
        ...

    async def delete_stream(self, name: str, *, identity: str | None = None) -> None:
        """Delete a stream with all of its ledgers; nothing is acknowledged afterwards.

        With the stream's ``identity`` (see ``describe``) it never deletes a later stream of the
        name. Raises NoSuchStreamError, DeletionPendingError.
        """
        ...

    async def set_stream_policy(self, name: str, policy: StreamPolicy | None) -> None:
        """Set a stream's policy, effective with its next segment; None: the namespace's policy."""
        ...

    async def truncate(self, name: str, position: Dlsn) -> Dlsn:
        """Hide all records below ``position``; return the start of the stream afterwards."""
        ...

    async def untruncate(self, name: str, position: Dlsn | None = None) -> Dlsn:
        """Make truncated records readable again; return the start of the stream afterwards."""
        ...

    async def end_stream(self, name: str) -> None:
        """End a stream permanently after all acknowledged records. Safe to repeat."""
        ...

    async def seal(self, name: str) -> None:
        """Take the stream from its writer and refuse writers until ``unseal`` (rule STR-33)."""
        ...

    async def take_over(self, name: str) -> None:
        """Take the stream from its writer and complete its segments: a roll by hand.

        A proxy that wrote the stream continues with a new segment. Raises NoSuchStreamError.
        """
        ...

    async def unseal(self, name: str) -> bool:
        """Let writers open a sealed stream again. Return whether it was sealed."""
        ...

    async def streams(
        self, prefix: str = "", *, after: str | None = None, limit: int = LIST_LIMIT
    ) -> list[str]:
        """Return a page of stream names, in order; only the last one is shorter than ``limit``."""
        ...

    async def describe(self, name: str) -> StreamDescription:
        """Return the description of a stream from metadata. Raises NoSuchStreamError."""
        ...

    async def end(self, name: str, *, fresh: bool = True) -> Dlsn:
        """Return the position after the last visible record, see ``Namespace.end``."""
        ...

    async def open_writer(self, name: str) -> LogWriter:
        """Open a writer. Raises NoSuchStreamError, EndOfStreamError, StreamSealedError."""
        ...

    async def open_reader(
        self,
        name: str,
        start: Start,
        *,
        on_truncated: Callable[[Dlsn, Dlsn], None] | None = None,
    ) -> StreamReader:
        """Open a reader at ``start``, see ``Namespace.open_reader``."""
        ...
