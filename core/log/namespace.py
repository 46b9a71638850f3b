"""Namespaces: where streams are created, listed, deleted and opened."""

from collections.abc import Callable
from dataclasses import replace

from ..protocol.dlsn import Dlsn
from ..protocol.errors import (
    IndeterminateError,
    InvalidArgumentError,
    NamespaceExistsError,
    NodeExistsError,
    NoNodeError,
    NoSuchLedgerError,
    NoSuchNamespaceError,
    NoSuchStreamError,
    NotEmptyError,
)
from ..protocol.segments import NO_LEDGER, Segment
from ..runtime.metadata_store import Delete, MetadataStore
from ..runtime.runtime import Runtime
from .archives import Archives, SegmentOpener
from .config import ReaderConfig, WriterConfig
from .description import StreamDescription
from .layout import ROOT, check_name, namespace_path
from .ledgers import LedgerClient
from .policy import StreamPolicy
from .positioning import Start, find_end, find_start
from .reader import StreamReader
from .records import NamespaceRecord, StreamRecord
from .retention import Maintained, Retention
from .segment_chain import SegmentChain
from .shared import Shared
from .stream_store import StreamStore
from .subscriptions import SubscriptionStore
from .writer import StreamWriter

_TOKEN_BYTES = 16
LIST_LIMIT = 1000


async def create_namespace(
    store: MetadataStore, runtime: Runtime, name: str, policy: StreamPolicy
) -> None:
    """Makes a namespace. Raises NamespaceExistsError, InvalidArgumentError (a bad name)."""
    path = namespace_path(name)
    token = runtime.random_bytes(_TOKEN_BYTES).hex()
    record = NamespaceRecord(token, runtime.clock.wall_ms(), policy)
    try:
        await store.create(path, record.encode())
    except (NodeExistsError, IndeterminateError) as error:
        try:
            found = NamespaceRecord.decode(name, (await store.get(path)).data)
        except NoNodeError:
            raise error from None
        if found.token != token:
            raise NamespaceExistsError(f"namespace {name} exists already") from error


async def list_namespaces(
    store: MetadataStore, *, after: str | None = None, limit: int = LIST_LIMIT
) -> list[str]:
    """A page of names, in order, from behind ``after``."""
    try:
        return await store.children(ROOT, after=after, limit=limit)
    except NoNodeError:
        return []


async def delete_namespace(store: MetadataStore, name: str) -> None:
    """Deletes an empty namespace. A repeat raises NoSuchNamespaceError.

    Raises InvalidArgumentError when it still has streams.
    """
    path = namespace_path(name)
    try:
        below = [Delete(f"{path}/{child}") for child in await store.children(path)]
        await store.txn([*below, Delete(path)])
    except NoNodeError as error:
        raise NoSuchNamespaceError(f"no namespace {name}") from error
    except NotEmptyError as error:
        raise InvalidArgumentError(f"namespace {name} has streams; delete them first") from error


class Namespace:
    """One namespace, opened. Owns nothing: writers and readers are closed by who opened them."""

    def __init__(
        self,
        runtime: Runtime,
        store: MetadataStore,
        ledgers: LedgerClient,
        name: str,
        *,
        writer_config: WriterConfig | None = None,
        reader_config: ReaderConfig | None = None,
        archives: Archives | None = None,
        shared: Shared | None = None,
    ) -> None:
        self.name = check_name("namespace", name)
        self._runtime = runtime
        self._store = store
        self._ledgers = ledgers
        self._streams = StreamStore(store, name)
        self._opener = SegmentOpener(self._streams, ledgers, archives)
        self.subscriptions = SubscriptionStore(store, name)
        """Stored positions by name."""
        self._retention = Retention(self._streams, ledgers, self.subscriptions, archives=archives)
        self._writer_config = writer_config or WriterConfig()
        self._reader_config = reader_config or ReaderConfig()
        self._shared = shared or Shared()

    async def policy(self) -> StreamPolicy:
        """The policy of streams that have none of their own. Raises NoSuchNamespaceError."""
        return (await self._record()).policy

    async def set_policy(self, policy: StreamPolicy) -> None:
        """Changes it, for the next segment of each stream. The last one who sets it wins."""
        record = await self._record()
        changed = NamespaceRecord(record.token, record.created_ms, policy)
        try:
            await self._store.put(namespace_path(self.name), changed.encode())
        except NoNodeError as error:
            raise NoSuchNamespaceError(f"no namespace {self.name}") from error

    # --- streams --------------------------------------------------------------------------------

    async def create_stream(self, name: str, policy: StreamPolicy | None = None) -> None:
        """Makes a stream; without a policy it follows the namespace's.

        Raises StreamExistsError, NoSuchNamespaceError, InvalidArgumentError (a bad name).
        """
        check_name("stream", name)
        await self._record()
        identity = self._runtime.random_bytes(_TOKEN_BYTES).hex()
        record = StreamRecord(identity, self._runtime.clock.wall_ms(), policy)
        await self._streams.create(name, record)

    async def set_stream_policy(self, name: str, policy: StreamPolicy | None) -> None:
        """Changes a stream's policy, for its next segment. Raises NoSuchStreamError."""
        await self._streams.update(name, lambda record: replace(record, policy=policy))

    async def truncate(self, name: str, position: Dlsn) -> Dlsn:
        """Hides all records below ``position`` from readers; returns the start that holds now.

        It never moves back, so a repeat is safe. Raises NoSuchStreamError, InvalidArgumentError
        when the position is in a segment that does not exist yet.
        """
        head, _ = await self._streams.head(name)
        if position.lssn > head.last_lssn + 1:
            raise InvalidArgumentError(
                f"stream {name} has no segment {position.lssn}; its last is {head.last_lssn}"
            )
        return (await self._streams.update(name, lambda record: record.truncated(position))).start

    async def maintain(self, name: str) -> Maintained:
        """One pass of retention: truncates by the policy, lets hot copies go that are archived,
        purges what was truncated a grace ago.

        Meant to be called now and then by one process or many. Raises NoSuchStreamError.
        """
        policy = await self._policy_of(name)
        return await self._retention.maintain(name, policy, self._runtime.clock.wall_ms())

    async def delete_stream(self, name: str) -> None:
        """Deletes a stream with all of its ledgers; whoever writes it loses it. Archives stay.

        Raises NoSuchStreamError. A repeat after any error goes on where it stopped.
        """
        await self._streams.update(name, lambda record: replace(record, is_deleting=True))
        await self._streams.claim(name, self._runtime.random_bytes(_TOKEN_BYTES).hex())
        for lssn in await self._streams.segment_numbers(name):
            stored = await self._streams.segment(name, lssn)
            if stored is not None:
                await self._delete_ledger(stored.segment)
                await self._streams.remove_segment(name, lssn)
        await self._streams.remove_nodes(name)

    async def streams(
        self, prefix: str = "", *, after: str | None = None, limit: int = LIST_LIMIT
    ) -> list[str]:
        """A page of stream names that begin with ``prefix``, in order, from behind ``after``.

        Shorter than ``limit`` only at the end.
        """
        return await self._streams.names(prefix, after, limit)

    async def describe(self, name: str) -> StreamDescription:
        """What metadata says of a stream. Raises NoSuchStreamError."""
        record, _ = await self._streams.record(name)
        head, _ = await self._streams.head(name)
        segments = []
        for lssn in range(record.first_lssn, head.last_lssn + 1):
            stored = await self._streams.segment(name, lssn)
            if stored is not None:
                segments.append(stored.segment)
        return StreamDescription(
            name=name,
            created_ms=record.created_ms,
            policy=record.policy or await self.policy(),
            follows_namespace=record.policy is None,
            start=record.start,
            epoch=head.epoch,
            segments=tuple(segments),
        )

    async def open_writer(self, name: str) -> StreamWriter:
        """Takes the stream over from whoever writes it, completes its segments, starts a new one.

        Raises NoSuchStreamError, EndOfStreamError, StreamLostError (somebody took it over
        meanwhile), and what may pass: repeat it then.
        """
        policy = await self._policy_of(name)
        chain = SegmentChain(self._runtime, self._streams, self._ledgers, self._opener, stream=name)
        segment = await chain.open(policy)
        producers = await chain.producers()
        return StreamWriter(
            self._runtime,
            chain,
            segment,
            stream=name,
            policy=policy,
            producers=producers,
            read_policy=lambda: self._policy_of(name),
            config=self._writer_config,
            shared=self._shared,
        )

    async def end(self, name: str, *, fresh: bool = True) -> Dlsn:
        """Behind the last record that is visible now.

        ``fresh``: as a quorum of bookies says, so everything that was visible before the call is
        below it (what was acknowledged is visible once a later record follows, or the writer has
        told so, a moment later); raises UnavailableErrors when no quorum can be asked. Otherwise
        as good as it goes: what the first bookies say, which may lag. Raises NoSuchStreamError.
        """
        return await find_end(self._streams, self._opener, name, fresh=fresh)

    async def open_reader(
        self,
        name: str,
        start: Start | Dlsn,
        *,
        on_truncated: Callable[[Dlsn, Dlsn], None] | None = None,
    ) -> StreamReader:
        """Reads the stream from ``start`` on; holds nothing until it is iterated.

        ``on_truncated(wanted, first_active)``: called instead of raising TruncatedError when
        ``start`` was truncated; reading goes on at the first active position. Raises
        NoSuchStreamError, TruncatedError.
        """
        record, _ = await self._streams.record(name)
        return await find_start(
            self._streams,
            self._opener,
            name,
            record,
            start,
            config=self._reader_config,
            on_truncated=on_truncated,
            tracer=self._runtime.tracer,
        )

    # --- parts ----------------------------------------------------------------------------------

    async def _record(self) -> NamespaceRecord:
        try:
            value = await self._store.get(namespace_path(self.name))
        except NoNodeError as error:
            raise NoSuchNamespaceError(f"no namespace {self.name}; create it first") from error
        return NamespaceRecord.decode(self.name, value.data)

    async def _policy_of(self, name: str) -> StreamPolicy:
        record, _ = await self._streams.record(name)
        if record.is_deleting:
            raise NoSuchStreamError(f"stream {name} is being deleted")
        return record.policy or await self.policy()

    async def _delete_ledger(self, segment: Segment) -> None:
        if segment.ledger_id == NO_LEDGER:
            return
        try:
            await self._ledgers.delete(segment.ledger_id)
        except NoSuchLedgerError:
            return
