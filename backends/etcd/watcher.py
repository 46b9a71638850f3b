"""One watch stream for all watches of a store handle.

Watches are hints; therefore they are never resumed from a revision. After a failure of the stream,
or if etcd cancels a watch because its history was compacted, the watch is set again from the
current revision and fires once.
"""

import asyncio

import grpc.aio

from ...core.runtime.primitives.wakeup import Wakeup
from ...core.runtime.tasks import Tasks
from ..watches import Watches
from . import etcd_pb2 as pb
from .client import EtcdClient
from .keys import EtcdKeys

_REFUSALS = ("permission denied", "auth")
"""Parts of cancel reasons that mean a refused token.

etcd refuses a watch in a response, not by a status. It does so for the rest of the stream, even
after the token with which the stream began was renewed.
"""


class _RefusedError(Exception):
    """The token does not permit a watch."""


class EtcdWatcher:
    """Keeps the server's watches equal to ``watches``."""

    def __init__(self, client: EtcdClient, keys: EtcdKeys, tasks: Tasks) -> None:
        self.watches = Watches(self._path_changed)
        self._client = client
        self._keys = keys
        self._tasks = tasks
        self._task: asyncio.Task[None] | None = None
        self._stale: dict[str, None] = {}
        self._wakeup = Wakeup()
        self._server_watches: dict[str, tuple[int, ...]] = {}
        self._paths: dict[int, str] = {}
        self._last_id = 0

    def _path_changed(self, path: str) -> None:
        self._stale[path] = None
        self._wakeup.wake()
        if self._task is None and not self._tasks.is_closed:
            self._task = self._tasks.spawn(self._run(), "etcd watches")

    async def _run(self) -> None:
        while True:
            self._server_watches.clear()
            self._paths.clear()
            self._stale.update(dict.fromkeys(self.watches.paths()))
            self._wakeup.wake()
            failure: grpc.aio.AioRpcError | None = None
            is_refused = False
            call = self._client.stream("Watch/Watch", pb.WatchResponse)
            writing = asyncio.create_task(self._write(call), name="etcd watch requests")
            try:
                await self._read(call)
            except grpc.aio.AioRpcError as error:
                failure = error
            except _RefusedError:
                is_refused = True
            finally:
                call.cancel()
                writing.cancel()
                await asyncio.gather(writing, return_exceptions=True)
            await self._client.stream_failed(failure, is_refused=is_refused)

    async def _read(
        self, call: "grpc.aio.StreamStreamCall[pb.WatchRequest, pb.WatchResponse]"
    ) -> None:
        while isinstance(answer := await call.read(), pb.WatchResponse):
            self._client.note_answer()
            if answer.created and not answer.canceled:
                self._fire(answer.watch_id)
            elif any(reason in answer.cancel_reason for reason in _REFUSALS):
                raise _RefusedError
            elif answer.canceled:
                path = self._paths.pop(answer.watch_id, None)
                if path is not None:
                    self._server_watches.pop(path, None)
                    self._path_changed(path)
            self.watches.changed(self._keys.path(event.kv.key) for event in answer.events)

    def _fire(self, watch_id: int) -> None:
        if watch_id in self._paths:
            self.watches.fire_at(self._paths[watch_id])

    async def _write(
        self, call: "grpc.aio.StreamStreamCall[pb.WatchRequest, pb.WatchResponse]"
    ) -> None:
        while True:
            await self._wakeup.wait()
            while self._stale:
                path = next(iter(self._stale))
                del self._stale[path]
                for request in self._requests(path):
                    await call.write(request)

    def _requests(self, path: str) -> list[pb.WatchRequest]:
        """Return the requests that make the server's watches of ``path`` match the local ones."""
        is_prefix = self.watches.is_prefix(path)
        current = self._server_watches.get(path, ())
        ranges = [] if is_prefix is None else self._ranges(path, is_prefix=is_prefix)
        if len(current) == len(ranges):
            if current:
                self.watches.fire_at(path)
            return []
        requests = [
            pb.WatchRequest(cancel_request=pb.WatchCancelRequest(watch_id=known))
            for known in current
        ]
        for known in current:
            del self._paths[known]
        self._server_watches.pop(path, None)
        created = []
        for start, end in ranges:
            self._last_id += 1
            created.append(self._last_id)
            self._paths[self._last_id] = path
            create = pb.WatchCreateRequest(key=start, range_end=end, watch_id=self._last_id)
            requests.append(pb.WatchRequest(create_request=create))
        if created:
            self._server_watches[path] = tuple(created)
        return requests

    def _ranges(self, path: str, *, is_prefix: bool) -> list[tuple[bytes, bytes]]:
        ranges = [] if path == "/" else [(self._keys.node(path), b"")]
        if is_prefix:
            ranges.append(self._keys.subtree(path))
        return ranges
