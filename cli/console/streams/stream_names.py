"""The names of all streams, kept in memory so that they can be searched quickly."""

import asyncio
from collections.abc import Callable, Sequence
from typing import NamedTuple

from ....client.connect import Client
from ....core.log.namespace import LIST_LIMIT
from ....core.protocol.errors import RhumblineError

STREAMS_MAX = 1_000_000
"""Maximum number of names that are kept."""
_AGE_S_MIN = 2.0
_READ_SHARE = 10
"""Reading all names takes at most a tenth of the time."""
_SLICE = 1_000
"""Names that are searched before other requests have their turn."""


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


class StreamNames:
    """Reads the names of all streams, at most one reading at a time, and searches them."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._turn = asyncio.Lock()
        self._names: Sequence[StreamName] = ()
        self._read_at: float | None = None
        self._took_s = 0.0

    async def page(
        self, wanted: str, offset: int, limit: int, permits: Callable[[StreamName], bool]
    ) -> NamePage:
        """Return the names that contain ``wanted``, in any case, and that ``permits`` accepts.

        Raises MetadataUnavailableError.
        """
        return await find_names(await self._current(), wanted, offset, limit, permits)

    async def _current(self) -> Sequence[StreamName]:
        async with self._turn:
            clock = asyncio.get_running_loop().time
            began = clock()
            age_s_max = max(_AGE_S_MIN, _READ_SHARE * self._took_s)
            if self._read_at is None or began - self._read_at > age_s_max:
                self._names = await self._read()
                self._read_at, self._took_s = clock(), clock() - began
            return self._names

    async def _read(self) -> list[StreamName]:
        client, found = self._client, list[StreamName]()
        async for name, _ in client.namespaces.all():
            try:
                namespace = client.namespace_of(await client.namespaces.find(name), name)
                after: str | None = None
                while len(found) < STREAMS_MAX:
                    page = await namespace.streams(after=after)
                    found += (StreamName(name, stream) for stream in page)
                    if len(page) < LIST_LIMIT:
                        break
                    after = page[-1]
            except RhumblineError:
                continue  # its store is out of reach; the alerts say so
        return sorted(found[:STREAMS_MAX])


async def find_names(
    names: Sequence[StreamName],
    wanted: str,
    offset: int,
    limit: int,
    permits: Callable[[StreamName], bool],
) -> NamePage:
    """Return a page of the names that contain ``wanted``, in any case, and are permitted."""
    needle = wanted.casefold()
    found: list[StreamName] = []
    passed = 0
    for number, name in enumerate(names, 1):
        if number % _SLICE == 0:
            await asyncio.sleep(0)
        if (needle and needle not in f"{name.namespace}/{name.stream}".casefold()) or not permits(
            name
        ):
            continue
        if passed < offset:
            passed += 1
        elif len(found) == limit:
            return NamePage(found, has_more=True, total=len(names))
        else:
            found.append(name)
    return NamePage(found, has_more=False, total=len(names))
