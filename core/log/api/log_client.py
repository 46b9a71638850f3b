"""The interface of a client, which ``connect()`` returns for every kind of URI."""

from contextlib import AbstractAsyncContextManager
from types import TracebackType
from typing import Any, Protocol, Self

from ...protocol.start import EARLIEST, Start
from ...runtime.runtime import Runtime
from ..read.stream_reader import StreamReader
from .log_namespace import LogNamespace
from .log_namespaces import LogNamespaces
from .log_writer import LogWriter
from .topic_calls import TopicCalls


class LogClient(Protocol):
    """The connection of a process to a cluster, directly or through proxies.

    Use it with ``async with``, in one event loop. Code that is written against this type works with
    both kinds of clients. They differ in one respect: opening a direct writer fences the writer
    before it, while writers through proxies share their streams.
    """

    uri: str
    """The URI that the client was made with."""
    runtime: Runtime
    """The clock, the randomness and the tracer of the client."""

    async def __aenter__(self) -> Self:
        """Open the client."""
        ...

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close the client; an error of closing never hides an error of the block."""
        ...

    async def aclose(self) -> None:
        """Close all connections. Safe to repeat."""
        ...

    def namespace(self, name: str | None = None) -> LogNamespace:
        """Return a namespace, by default the client's own; it need not exist yet."""
        ...

    @property
    def namespaces(self) -> LogNamespaces:
        """All namespaces of the cluster."""
        ...

    def topic_calls(self, namespace: str | None = None) -> TopicCalls:
        """Return the metadata of the topics of a namespace, for ``rhumbline.topics.Topics``."""
        ...

    def writer(self, stream: str) -> AbstractAsyncContextManager[LogWriter]:
        """Open a writer of ``stream`` for ``async with``. Raises as ``LogNamespace.open_writer``.

        The end of the block closes the writer and raises what that raises. An error of the block,
        cancellation included, is never replaced: the error of closing is a note on it.
        """
        ...

    def reader(
        self, stream: str, start: Start = EARLIEST
    ) -> AbstractAsyncContextManager[StreamReader]:
        """Open a reader of ``stream`` at ``start`` for ``async with``."""
        ...

    def statistics(self) -> dict[str, Any]:
        """Return the counters and sizes of this client, by layer and name."""
        ...
