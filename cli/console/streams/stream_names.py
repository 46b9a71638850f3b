"""The names of all streams, kept in memory so that they can be searched quickly."""

import asyncio
from collections.abc import Callable, Sequence
from typing import NamedTuple

from ....client.connect import Client
from ....core.protocol.errors import RhumblineError
from ....core.runtime.tasks import Tasks

STREAMS_MAX = 1_000_000
"""Maximum number of names that are kept."""
_AGE_S_MIN = 2.0
_READ_SHARE = 10
"""Reading all names takes at most a tenth of the time."""
_SLICE = 1_000
"""Names that are searched before other requests have their turn."""
_PAGE = 50_000
"""Names that are read at once: a page costs a round trip, and in ZooKeeper all names."""


class StreamName(NamedTuple):
    """A stream by its namespace and its name."""

    namespace: str
    stream: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.stream}"


class NamePage(NamedTuple):
    """A part of the names that match a search."""

    names: list[StreamName]
    has_more: bool
    total: int
    """Streams that are known, whatever the search is."""


class NameIndex:
    """Names in their order, with the form in which they are searched."""

    def __init__(self, names: Sequence[StreamName] = ()) -> None:
        """``names``: sorted."""
        self.names = names
        self._folded = [str(name).casefold() for name in names]

    async def find(
        self, wanted: str, offset: int, limit: int, permits: Callable[[StreamName], bool]
    ) -> NamePage:
        """Return a page of the names that contain ``wanted``, in any case, and are permitted."""
        needle = wanted.casefold()
        found: list[StreamName] = []
        passed = 0
        for first in range(0, len(self.names), _SLICE):
            for number, folded in enumerate(self._folded[first : first + _SLICE], first):
                if needle not in folded or not permits(self.names[number]):
                    continue
                if passed < offset:
                    passed += 1
                elif len(found) == limit:
                    return NamePage(found, has_more=True, total=len(self.names))
                else:
                    found.append(self.names[number])
            await asyncio.sleep(0)
        return NamePage(found, has_more=False, total=len(self.names))


class StreamNames:
    """Reads the names of all streams, at most one reading at a time, and searches them."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._index: NameIndex | None = None
        self._read_at = 0.0
        self._took_s = 0.0
        self._failure: RhumblineError | None = None
        self._turn = asyncio.Lock()
        self._tasks = Tasks()

    async def aclose(self) -> None:
        """End the reading that is in progress. Safe to repeat."""
        await self._tasks.aclose()

    async def page(
        self, wanted: str, offset: int, limit: int, permits: Callable[[StreamName], bool]
    ) -> NamePage:
        """Return the names that contain ``wanted``, in any case, and that ``permits`` accepts.

        A search uses the last reading, and begins another one if it is old. It waits only while
        there is none. Raises MetadataUnavailableError.
        """
        failure, self._failure = self._failure, None
        if failure is not None:
            raise failure
        if self._index is None:
            async with self._turn:
                if self._index is None:  # nobody else read them meanwhile
                    await self._read()
        self.refresh()
        assert self._index is not None
        return await self._index.find(wanted, offset, limit, permits)

    def refresh(self) -> None:
        """Begin to read the names if they are old or not known, and do not wait for them."""
        age_s = asyncio.get_running_loop().time() - self._read_at
        is_old = self._index is None or age_s > max(_AGE_S_MIN, _READ_SHARE * self._took_s)
        if is_old and not len(self._tasks):
            self._tasks.spawn(self._read_again(), "read the names of streams")

    async def _read_again(self) -> None:
        try:
            async with self._turn:
                await self._read()
        except RhumblineError as error:
            self._failure = error  # for the next search

    async def _read(self) -> None:
        clock = asyncio.get_running_loop().time
        began = clock()
        names = await self._read_names()
        self._index = await asyncio.to_thread(lambda: NameIndex(sorted(names)))
        self._read_at, self._took_s = clock(), clock() - began

    async def _read_names(self) -> list[StreamName]:
        client, found = self._client, list[StreamName]()
        async for name, _ in client.namespaces.all():
            try:
                namespace = client.namespace_of(await client.namespaces.find(name), name)
                after: str | None = None
                while len(found) < STREAMS_MAX:
                    page = await namespace.streams(after=after, limit=_PAGE)
                    found += (StreamName(name, stream) for stream in page)
                    if len(page) < _PAGE:
                        break
                    after = page[-1]
            except RhumblineError:
                continue  # its store is out of reach; the alerts say so
        return found[:STREAMS_MAX]
