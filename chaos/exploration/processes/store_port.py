"""The metadata store and the directory of bookies as the production classes of a process see them.

Operations of the store are messages, so that the explorer decides when they are carried out and
when their replies arrive. The directory is fixed: no bookie registers or leaves.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence

from ....core.protocol.bookie_id import BookieId, Region
from ....core.protocol.errors import BadVersionError, IndeterminateError
from ....core.protocol.placement import BookieInfo
from ....core.runtime.metadata_store import Value, Version
from ....core.wire.registration import Registration
from .canonical import Opaque
from .process import STORE, Message, Sent

GET, PUT = "get", "put"
VALUE, WRITTEN, BAD_VERSION = "value", "written", "bad version"


class _NoWatch(Opaque):
    def close(self) -> None:
        pass


class SteppedStore:
    """The part of the ``MetadataStore`` interface that ledgers use. ``sent`` takes the requests.

    ``violations`` takes changes that a process begins while another one of it has no answer (L16).
    """

    uri = "explored"

    def __init__(self, sent: list[Sent], violations: list[str]) -> None:
        self._sent = sent
        self._violations = violations
        self._is_changing = False
        self._last_number = 0
        self._pending: dict[int, asyncio.Future[Message]] = {}

    @property
    def is_waiting(self) -> bool:
        """True if a reply is expected."""
        return bool(self._pending)

    async def get(self, path: str, *, stale_ok: bool = False) -> Value:
        """Return the value of a node."""
        reply = await self._request(GET, path)
        data, version = reply.data[1:]
        assert isinstance(data, bytes) and isinstance(version, str)
        return Value(data, Version(version))

    async def put(self, path: str, data: bytes, *, expect: Version | None = None) -> Version:
        """Replace the value of a node that has the version ``expect``. Raises BadVersionError."""
        if self._is_changing:
            self._violations.append("L16: a change began while another one had no answer")
        self._is_changing = True
        try:
            reply = await self._request(PUT, path, data, expect)
        finally:
            self._is_changing = False
        if reply.kind == BAD_VERSION:
            raise BadVersionError(path)
        return Version(str(reply.data[1]))

    async def _request(self, kind: str, *arguments: object) -> Message:
        self._last_number += 1
        number = self._last_number
        self._pending[number] = asyncio.get_running_loop().create_future()
        self._sent.append(Sent(STORE, 0, Message(kind, (number, *arguments))))
        try:
            return await self._pending[number]
        finally:
            self._pending.pop(number, None)

    def watch(self, path: str, callback: Callable[[], None], *, prefix: bool = False) -> _NoWatch:
        """Return a watch that never reports anything: notices may be late by any time."""
        return _NoWatch()

    def on_reply(self, message: Message) -> None:
        """Complete the request to which the reply belongs, if it is still awaited."""
        waiting = self._pending.get(int(str(message.data[0])))
        if waiting is not None and not waiting.done():
            waiting.set_result(message)

    def lose_reply(self) -> None:
        """Fail the oldest request with an unknown outcome; it may still be carried out."""
        for waiting in self._pending.values():
            if not waiting.done():
                waiting.set_exception(IndeterminateError("no reply from the metadata store"))
                return


class FixedDirectory(Opaque):
    """The bookies of a scope with their regions, in order of preference."""

    def __init__(self, regions: Mapping[BookieId, Region]) -> None:
        self._regions = dict(regions)

    async def snapshot(self) -> list[BookieInfo]:
        """Return all bookies."""
        return [self.last_known(bookie, region) for bookie, region in self._regions.items()]

    async def locate(self, bookies: Sequence[BookieId]) -> None:
        """Do nothing: the regions of all bookies are known."""

    async def up(self) -> list[BookieId]:
        """Return all bookies."""
        return list(self._regions)

    async def region_of(self, bookie: BookieId) -> Region | None:
        """Return the region of a bookie."""
        return self._regions[bookie]

    def known_region(self, bookie: BookieId) -> Region | None:
        """Return the region of a bookie."""
        return self._regions[bookie]

    def last_known(self, bookie: BookieId, region: Region | None) -> BookieInfo:
        """Return a bookie with its location."""
        return BookieInfo(bookie, region, "rack", 1 << 40, None, f"host-{bookie}")

    async def registration(self, bookie: BookieId) -> Registration:
        """Return the registration of a bookie, whose host has the bookie's own name."""
        return Registration(bookie, bookie, 1)
