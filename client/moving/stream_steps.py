"""The steps of a move for the nodes of streams, topics and home regions (rule STR-34).

``close``, ``complete`` and ``copy`` come before the commit, ``release`` after it in the target, or
in place of it in the source.
"""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from ...backends.migration import MigrationError, NodeCopy, batches, differences
from ...core.log.ledger_interface import LedgerProvider
from ...core.log.metadata.ledger_policies import namespace_policy, own_policy
from ...core.log.metadata.paths import streams_path, topics_path
from ...core.log.metadata.stream_metadata import MOVE, StreamHead, StreamRecord
from ...core.log.metadata.stream_reads import NODES_PER_READ_MAX
from ...core.log.metadata.stream_store import StreamStore
from ...core.log.policy import StreamPolicy
from ...core.log.read.segment_opener import SegmentOpener
from ...core.log.write.segment_chain import SegmentChain
from ...core.protocol.errors import InvalidArgumentError, NoNodeError
from ...core.protocol.segments import NO_LEDGER, Segment, decode_segment
from ...core.runtime.metadata_store import Create, Delete, MetadataStore, Operation, Put, Value
from ...core.runtime.runtime import Runtime
from ...proxies.write.claims import HOMES
from .move_end import MoveEnd

_PAGE = 1_000
_REMOVED_AT_ONCE = 32


class StreamSteps:
    """Moves the nodes of the streams of one namespace from ``source`` to ``target``."""

    def __init__(
        self,
        runtime: Runtime,
        namespace: str,
        source: MoveEnd,
        target: MoveEnd,
        ledgers: LedgerProvider,
    ) -> None:
        """``ledgers`` are those of the source."""
        self._runtime = runtime
        self._namespace = namespace
        self.source = source
        self.target = target
        self._ledgers = ledgers

    async def names(self, end: MoveEnd) -> list[str]:
        """Return the names of all streams in a store."""
        found: list[str] = []
        while page := await children(
            end.store, streams_path(self._namespace), found[-1] if found else None, _PAGE
        ):
            found += page
        return found

    async def segments(self, end: MoveEnd, stream: str) -> list[Segment]:
        """Return the segments of a stream that have a node."""
        paths = StreamStore(end.store, self._namespace).paths(stream)
        names = await children(end.store, paths.segments)
        values = await read_all(end.store, [f"{paths.segments}/{name}" for name in names])
        return [
            decode_segment(int(name), value.data)
            for name, value in zip(names, values, strict=True)
            if value is not None
        ]

    async def ledger_ids(self, end: MoveEnd, stream: str) -> list[int]:
        """Return the ids of the ledgers that the segments of a stream name."""
        found = await self.segments(end, stream)
        return [segment.ledger_id for segment in found if segment.ledger_id != NO_LEDGER]

    async def policy(self, stream: str) -> StreamPolicy:
        """Return the policy of a stream in the source, its own or that of the namespace."""
        policy = await own_policy(self.source.store, self._namespace, stream)
        return policy or await namespace_policy(self.source.store, self._namespace)

    async def close(self, stream: str) -> None:
        """Close a stream of the source for changes: its writer loses it, and nobody claims it.

        Raises InvalidArgumentError if it is being deleted.
        """
        streams = StreamStore(self.source.store, self._namespace)
        paths = streams.paths(stream)

        async def plan() -> Sequence[Operation]:
            record, record_version = await streams.record(stream)
            head, head_version = await streams.head(stream)
            if record.is_deleting:
                raise InvalidArgumentError(
                    f"stream {stream} is being deleted: complete that with `rhumbline stream "
                    f"delete -n {self._namespace} {stream}`"
                )
            if record.is_moving and head.is_moving:
                return ()
            closed = replace(record, is_moving=True).encode()
            return [
                Put(paths.stream, closed, expect=record_version),
                Put(paths.head, head.moving().encode(), expect=head_version),
            ]

        await self.source.change(plan)

    async def complete(self, stream: str) -> None:
        """Complete the segments of a closed stream, as a new writer would (rule STR-3)."""
        streams = StreamStore(self.source.store, self._namespace)
        chain = SegmentChain(
            self._runtime,
            streams,
            self._ledgers,
            SegmentOpener(streams, self._ledgers, None),
            stream=stream,
            read_policy=lambda: self.policy(stream),
            token=MOVE,
        )
        await chain.take_over()

    async def release(self, end: MoveEnd, stream: str) -> None:
        """Open a stream for changes and claims, in the store that has the namespace now."""
        streams = StreamStore(end.store, self._namespace)
        paths = streams.paths(stream)

        async def plan() -> Sequence[Operation]:
            record, head = await read_all(end.store, [paths.stream, paths.head])
            if record is None or head is None:
                return ()  # released and deleted
            opened = StreamRecord.decode(stream, record.data)
            free = StreamHead.decode(stream, head.data)
            if not opened.is_moving:
                return ()
            assert free.is_moving, "record and head are closed together"
            return [
                Put(paths.stream, replace(opened, is_moving=False).encode(), expect=record.version),
                Put(paths.head, free.moved().encode(), expect=head.version),
            ]

        await end.change(plan)

    async def copy(self, stream: str) -> None:
        """Make the nodes of a stream in the target equal to the source, which is closed."""
        await self._copy(*[await self._paths_of(end, stream) for end in self._both])

    async def copy_others(self) -> None:
        """Make the topics and the home regions in the target equal to the source."""
        await self._copy(*[await self._other_paths(end) for end in self._both])

    async def check(self, stream: str) -> None:
        """Verify that the nodes of a stream are equal byte by byte. Raises MigrationError."""
        found = [
            await read_nodes(end.store, await self._paths_of(end, stream)) for end in self._both
        ]
        if found[0] != found[1]:
            first = min(path for path, _ in {*found[0].items()} ^ {*found[1].items()})
            raise MigrationError(f"the copy differs from the source at {first}")

    async def remove(self, end: MoveEnd, stream: str) -> None:
        """Delete the nodes of a stream."""
        await self._remove(end, await self._paths_of(end, stream))

    async def remove_others(self, end: MoveEnd) -> None:
        """Delete everything else below the node of the namespace, and the home regions.

        Members of consumer groups may be there until they notice that their session has ended.
        """
        for root in (topics_path(self._namespace), streams_path(self._namespace)):
            await self._remove(end, await _tree(end.store, root))
        await self._remove(end, await _tree(end.store, self._homes))

    # --- parts ----------------------------------------------------------------------------------

    @property
    def _both(self) -> tuple[MoveEnd, MoveEnd]:
        return self.source, self.target

    @property
    def _homes(self) -> str:
        return f"{HOMES}/{self._namespace}"

    async def _paths_of(self, end: MoveEnd, stream: str) -> list[str]:
        """Return the paths that the nodes of a stream may have, parents first."""
        paths = StreamStore(end.store, self._namespace).paths(stream)
        found = [paths.stream, paths.head, paths.schemas]
        for parent in (paths.segments, paths.subscriptions):
            names = await children(end.store, parent)
            found += [parent, *(f"{parent}/{name}" for name in names)]
        return found

    async def _other_paths(self, end: MoveEnd) -> list[str]:
        """Return the paths of topics and home regions. Groups have only ephemeral nodes."""
        roots = (topics_path(self._namespace), self._homes)
        return [
            path
            for root in roots
            for path in (root, *(f"{root}/{name}" for name in await children(end.store, root)))
        ]

    async def _copy(self, source_paths: Sequence[str], target_paths: Sequence[str]) -> None:
        source = await read_nodes(self.source.store, source_paths)
        target = await read_nodes(self.target.store, target_paths)
        for batch in batches(differences(source, target)):
            await self.target.change(partial(self._left_of, batch))

    async def _left_of(self, batch: Sequence[Operation]) -> list[Operation]:
        """Return the operations of a batch that were not carried out yet, with conditions."""
        values = await read_all(self.target.store, [operation.path for operation in batch])
        left: list[Operation] = []
        for operation, value in zip(batch, values, strict=True):
            if isinstance(operation, Delete):
                if value is not None:
                    left.append(Delete(operation.path, expect=value.version))
                continue
            assert isinstance(operation, Create | Put)
            if value is None:
                left.append(Create(operation.path, operation.data))
            elif value.data != operation.data:
                left.append(Put(operation.path, operation.data, expect=value.version))
        return left

    async def _remove(self, end: MoveEnd, paths: Sequence[str]) -> None:
        """Delete nodes, children first."""
        bottom_up = [*reversed(paths)]
        for start in range(0, len(bottom_up), _REMOVED_AT_ONCE):
            page = bottom_up[start : start + _REMOVED_AT_ONCE]

            async def plan(page: Sequence[str] = page) -> Sequence[Operation]:
                values = await read_all(end.store, page)
                return [
                    Delete(path, expect=value.version)
                    for path, value in zip(page, values, strict=True)
                    if value is not None
                ]

            await end.change(plan)


async def children(
    store: MetadataStore, path: str, after: str | None = None, limit: int | None = None
) -> list[str]:
    """Return the names of the children of a node, none if it does not exist."""
    try:
        return await store.children(path, after=after, limit=limit)
    except NoNodeError:
        return []


async def read_all(store: MetadataStore, paths: Sequence[str]) -> list[Value | None]:
    """Return the values of many nodes, None for each that does not exist."""
    found: list[Value | None] = []
    for start in range(0, len(paths), NODES_PER_READ_MAX):
        found += await store.get_all(paths[start : start + NODES_PER_READ_MAX])
    return found


async def read_nodes(store: MetadataStore, paths: Sequence[str]) -> dict[str, NodeCopy]:
    """Return the nodes that exist, by path."""
    values = await read_all(store, paths)
    return {
        path: NodeCopy(value.data, 0)
        for path, value in zip(paths, values, strict=True)
        if value is not None
    }


async def _tree(store: MetadataStore, root: str) -> list[str]:
    """Return the path of a node and of everything below it, parents first."""
    found = [root]
    for name in await children(store, root):
        found += await _tree(store, f"{root}/{name}")
    return found
