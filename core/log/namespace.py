"""Namespaces: where streams are created, listed, deleted and opened."""

from collections.abc import Callable
from dataclasses import replace

from ..protocol.dlsn import Dlsn
from ..protocol.errors import (
    BadVersionError,
    IndeterminateError,
    InvalidArgumentError,
    MetadataUnavailableError,
    NamespaceExistsError,
    NodeExistsError,
    NoNodeError,
    NoSuchNamespaceError,
    NotEmptyError,
)
from ..runtime.metadata_store import Check, Delete, MetadataStore, Version
from ..runtime.runtime import Runtime
from .config import ReaderConfig, WriterConfig
from .ledger_interface import LedgerProvider
from .log_context import LogContext
from .metadata.paths import ROOT, check_name, namespace_path
from .metadata.retention import Maintained, Retention
from .metadata.stream_deletion import StreamDeletion
from .metadata.stream_description import StreamDescription
from .metadata.stream_metadata import NamespaceRecord, StreamRecord
from .metadata.stream_store import CONTENTION_MAX, StreamStore, being_deleted
from .metadata.subscriptions import SubscriptionStore
from .policy import StreamPolicy
from .read.positioning import Start, find_end, find_start
from .read.segment_opener import Archives, SegmentOpener
from .read.stream_reader import StreamReader
from .write.segment_chain import SegmentChain
from .write.stream_writer import StreamWriter

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
    """Deletes an empty namespace, and none that is made under its name meanwhile.

    Raises NoSuchNamespaceError (also for a repeat), InvalidArgumentError when it still has streams,
    MetadataUnavailableError.
    """
    path = namespace_path(name)
    token: str | None = None
    for _ in range(CONTENTION_MAX):
        try:
            value = await store.get(path)
            below = [Delete(f"{path}/{child}") for child in await store.children(path)]
        except NoNodeError as error:
            if token is not None:
                return
            raise NoSuchNamespaceError(f"no namespace {name}") from error
        found = NamespaceRecord.decode(name, value.data).token
        token = token or found
        if found != token:
            return
        try:
            await store.txn([*below, Delete(path, expect=value.version)])
        except (BadVersionError, NoNodeError, IndeterminateError):
            continue
        except NotEmptyError as error:
            words = f"namespace {name} has streams; delete them first"
            raise InvalidArgumentError(words) from error
        return
    raise MetadataUnavailableError(f"namespace {name}: no answer to its deletion")


class Namespace:
    """One namespace, opened. Owns nothing: writers and readers are closed by who opened them."""

    def __init__(
        self,
        runtime: Runtime,
        store: MetadataStore,
        ledgers: LedgerProvider,
        name: str,
        *,
        writer_config: WriterConfig | None = None,
        reader_config: ReaderConfig | None = None,
        archives: Archives | None = None,
        shared: LogContext | None = None,
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
        self._shared = shared or LogContext()

    async def policy(self) -> StreamPolicy:
        """The policy of streams that have none of their own. Raises NoSuchNamespaceError."""
        return (await self._record())[0].policy

    async def set_policy(self, policy: StreamPolicy) -> None:
        """Changes it, for the next segment of each stream. The last one who sets it wins.

        Raises NoSuchNamespaceError, MetadataUnavailableError.
        """
        for _ in range(CONTENTION_MAX):
            record, version = await self._record()
            changed = replace(record, policy=policy)
            try:
                await self._store.put(namespace_path(self.name), changed.encode(), expect=version)
            except (BadVersionError, NoNodeError, IndeterminateError):
                continue
            return
        raise MetadataUnavailableError(f"namespace {self.name} changes all the time")

    async def check(self) -> Check:
        """For transactions: that the namespace is there, as it is now. Raises
        NoSuchNamespaceError."""
        return Check(namespace_path(self.name), (await self._record())[1])

    # --- streams --------------------------------------------------------------------------------

    async def create_stream(self, name: str, policy: StreamPolicy | None = None) -> None:
        """Makes a stream; without a policy it follows the namespace's.

        Raises StreamExistsError, NoSuchNamespaceError, InvalidArgumentError (a bad name).
        """
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
        identity = (await self._streams.record(name))[0].identity
        head, _ = await self._streams.head(name)
        if position.lssn > head.last_lssn + 1:
            raise InvalidArgumentError(
                f"stream {name} has no segment {position.lssn}; its last is {head.last_lssn}"
            )
        record = await self._streams.update(
            name, lambda record: record.truncated(position), identity=identity
        )
        return record.start

    async def maintain(self, name: str) -> Maintained:
        """One pass of retention: truncates by the policy, lets hot copies go that are archived,
        purges what was truncated a grace ago.

        Meant to be called now and then by one process or many. Raises NoSuchStreamError.
        """
        policy = await self._policy_of(name)
        return await self._retention.maintain(name, policy, self._runtime.clock.wall_ms())

    async def delete_stream(self, name: str, *, identity: str | None = None) -> None:
        """Deletes a stream with all of its ledgers; whoever writes it loses it. Archives stay.

        Raises NoSuchStreamError. A repeat after any error goes on where it stopped. One that names
        the stream's ``identity`` (see ``describe``) never deletes another stream that was made
        under the name meanwhile.
        """
        await StreamDeletion(self._store, self._streams, name).run(self._ledgers, identity)

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
            identity=record.identity,
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

    async def _record(self) -> tuple[NamespaceRecord, Version]:
        try:
            value = await self._store.get(namespace_path(self.name))
        except NoNodeError as error:
            raise NoSuchNamespaceError(f"no namespace {self.name}; create it first") from error
        return NamespaceRecord.decode(self.name, value.data), value.version

    async def _policy_of(self, name: str) -> StreamPolicy:
        record, _ = await self._streams.record(name)
        if record.is_deleting:
            raise being_deleted(name)
        return record.policy or await self.policy()
