"""The archived segments of the streams of a namespace, from its index or from listings."""

import asyncio
from collections.abc import Callable, Iterable

from ...core.protocol.errors import CorruptionError, ForeignDataError
from ...core.runtime.cold_store import ColdStore
from ...core.runtime.event_log import EventLog, LogLimit
from ...core.runtime.tasks import for_each
from ..archive.catalog import CHAINS_AT_A_TIME, listed_namespace
from ..archive.stream_index import StreamIndex
from .manifest_index import ChainVersion, IndexedNamespace, ManifestIndex

_LOG = EventLog(__name__)

LISTED_ALONE = 16
"""Largest number of streams that are listed one by one; for more, the index is read."""


class NamespaceIndex:
    """Indexes of the streams of a namespace, created on first use."""

    def __init__(self, cold: ColdStore, namespace: str) -> None:
        self._cold = cold
        self._namespace = namespace
        self._streams: dict[str, StreamIndex] = {}
        self._index = ManifestIndex(cold, namespace)
        self._versions: dict[str, tuple[ChainVersion, str]] = {}
        """The versions in the index from which the indexes of streams were made, and which stream
        of the name was asked for."""
        self._current: IndexedNamespace | None = None
        self._is_current = False
        self._log_limit = LogLimit()

    async def refresh(self, streams: Iterable[str]) -> None:
        """Update the indexes of some streams. Raises the errors of ``StreamIndex.refresh``."""
        wanted = list(streams)
        if len(wanted) > LISTED_ALONE:
            await self.refresh_matching(set(wanted).__contains__)
        else:
            await for_each(wanted, lambda stream: self.index(stream).refresh(), CHAINS_AT_A_TIME)

    async def refresh_matching(self, is_wanted: Callable[[str], bool]) -> list[str]:
        """Update the indexes of the streams with wanted names.

        If the namespace has an index that can be used, only the streams that it lacks are listed,
        otherwise the whole namespace. Return those streams that have archived segments, sorted.
        """
        indexed = await self._usable_index()
        if indexed is None:
            self._versions.clear()
            wanted = await self._refresh_listed(is_wanted)
        else:
            known = {*indexed.streams, *self._streams}
            wanted = sorted(filter(is_wanted, known))
            await for_each(
                wanted, lambda stream: self._refresh_indexed(stream, indexed), CHAINS_AT_A_TIME
            )
        return [stream for stream in wanted if self.index(stream).manifests.covered]

    def begin(self) -> None:
        """Make ``refresh_stream`` read the index of the namespace again."""
        self._is_current = False

    async def refresh_stream(self, stream: str, stream_id: str) -> None:
        """Update the index of one of many streams, with what the archive held after ``begin``."""
        if not self._is_current:
            self._current, self._is_current = await self._usable_index(), True
        if self._current is None:
            await self.index(stream).refresh(stream_id)
        else:
            await self._refresh_indexed(stream, self._current, stream_id)

    def index(self, stream: str) -> StreamIndex:
        """Return the index of a stream: the same object for every call."""
        if stream not in self._streams:
            self._streams[stream] = StreamIndex(self._cold, self._namespace, stream)
        return self._streams[stream]

    async def _usable_index(self) -> IndexedNamespace | None:
        try:
            return await self._index.load()
        except (CorruptionError, ForeignDataError) as error:
            dropped = self._log_limit.admit(asyncio.get_running_loop().time(), self._namespace)
            if dropped is not None:
                _LOG.warning(
                    "index ignored", namespace=self._namespace, error=str(error),
                    dropped=dropped or None,
                )  # fmt: skip
            return None

    async def _refresh_listed(self, is_wanted: Callable[[str], bool]) -> list[str]:
        chains = await listed_namespace(self._cold, self._namespace)
        wanted = sorted(filter(is_wanted, {*chains, *self._streams}))
        await for_each(
            wanted,
            lambda stream: self.index(stream).refresh("", chains.get(stream, {})),
            CHAINS_AT_A_TIME,
        )
        return wanted

    async def _refresh_indexed(
        self, stream: str, indexed: IndexedNamespace, stream_id: str = ""
    ) -> None:
        """Update a stream from the index, or from a listing if the index contradicts itself."""
        index, version = self.index(stream), (indexed.version(stream), stream_id)
        is_intact = index.manifests.is_complete and not index.manifests.faults
        if self._versions.get(stream) == version and index.is_read and is_intact:
            return
        self._versions.pop(stream, None)
        try:
            if stream not in indexed.must_be_listed and stream in indexed.streams:
                await index.refresh(stream_id, indexed.chains_of(stream))
                if index.manifests.is_complete and not index.manifests.faults:
                    self._versions[stream] = version
                    return
        except (CorruptionError, ForeignDataError):
            pass  # the listing shows whether the archive itself is damaged
        await index.refresh(stream_id)
