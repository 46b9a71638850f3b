"""Namespaces and subscriptions for programs without asyncio."""

from collections.abc import Iterator

from ...core.log.api.log_namespace import LogNamespace
from ...core.log.api.log_namespaces import ListedNamespace, LogNamespaces
from ...core.log.api.log_subscriptions import LogSubscriptions
from ...core.log.metadata.stream_schema import StreamSchemas
from .facade import Blocking, Facade


class SyncSubscriptions(Facade[LogSubscriptions]):
    """The blocking form of ``LogSubscriptions``."""

    create = Blocking(LogSubscriptions.create)
    read = Blocking(LogSubscriptions.read)
    commit = Blocking(LogSubscriptions.commit)
    reset = Blocking(LogSubscriptions.reset)
    delete = Blocking(LogSubscriptions.delete)
    names = Blocking(LogSubscriptions.names)
    slowest = Blocking(LogSubscriptions.slowest)


class SyncSchemas(Facade[StreamSchemas]):
    """The blocking form of ``StreamSchemas``."""

    read = Blocking(StreamSchemas.read)
    replace = Blocking(StreamSchemas.replace)
    add = Blocking(StreamSchemas.add)
    set_compatibility = Blocking(StreamSchemas.set_compatibility)


class SyncNamespace(Facade[LogNamespace]):
    """The blocking form of ``LogNamespace``; the client opens writers and readers."""

    policy = Blocking(LogNamespace.policy)
    set_policy = Blocking(LogNamespace.set_policy)
    create_stream = Blocking(LogNamespace.create_stream)
    delete_stream = Blocking(LogNamespace.delete_stream)
    set_stream_policy = Blocking(LogNamespace.set_stream_policy)
    truncate = Blocking(LogNamespace.truncate)
    untruncate = Blocking(LogNamespace.untruncate)
    end_stream = Blocking(LogNamespace.end_stream)
    seal = Blocking(LogNamespace.seal)
    take_over = Blocking(LogNamespace.take_over)
    unseal = Blocking(LogNamespace.unseal)
    streams = Blocking(LogNamespace.streams)
    describe = Blocking(LogNamespace.describe)
    end = Blocking(LogNamespace.end)

    @property
    def name(self) -> str:
        """The name of the namespace."""
        return self.inner.name

    @property
    def subscriptions(self) -> SyncSubscriptions:
        """The named reader positions of the streams."""
        return SyncSubscriptions(self._thread, self.inner.subscriptions)

    @property
    def schemas(self) -> SyncSchemas:
        """The schemas of the streams' payloads."""
        return SyncSchemas(self._thread, self.inner.schemas)


class SyncNamespaces(Facade[LogNamespaces]):
    """The blocking form of ``LogNamespaces``."""

    create = Blocking(LogNamespaces.create)
    delete = Blocking(LogNamespaces.delete)

    def all(self, *, after: str | None = None) -> Iterator[ListedNamespace]:
        """Iterate over the namespaces of the cluster that follow ``after``, by name."""

        async def work(namespaces: LogNamespaces) -> list[ListedNamespace]:
            return [listed async for listed in namespaces.all(after=after)]

        yield from self.run(work)
