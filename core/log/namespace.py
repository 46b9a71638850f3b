"""Namespaces: create, list, delete and open streams (rule STR-23)."""

from collections.abc import Callable, Sequence
from dataclasses import replace

from ..protocol.dlsn import Dlsn, check_position
from ..protocol.errors import (
    BadVersionError,
    EndOfStreamError,
    IndeterminateError,
    InvalidArgumentError,
    InvalidPositionError,
    MetadataUnavailableError,
    NamespaceExistsError,
    NodeExistsError,
    NoNodeError,
    NoSuchNamespaceError,
    NotEmptyError,
    TruncatedError,
)
from ..protocol.segments import Segment, SegmentEnd
from ..protocol.start import Start, check_start
from ..runtime.event_log import EventLog
from ..runtime.metadata_store import (
    Check,
    Delete,
    MetadataReads,
    MetadataStore,
    Operation,
    Version,
)
from ..runtime.runtime import Runtime
from .config import ReaderConfig, WriterConfig
from .ledger_interface import ConfirmEnd, LedgerProvider
from .log_context import LogContext
from .metadata.namespace_record import NamespaceRecord, moving_error
from .metadata.oldest_segments import OverdueData, find_overdue
from .metadata.paths import ROOT, check_name, namespace_path
from .metadata.retention import MaintenanceResult, Retention
from .metadata.schema_store import SchemaStore
from .metadata.stream_deletion import StreamDeletion
from .metadata.stream_description import StreamDescription
from .metadata.stream_metadata import StreamHead, StreamRecord
from .metadata.stream_reads import StreamReads
from .metadata.stream_store import CONTENTION_MAX, ClaimPurpose, StreamStore
from .metadata.subscriptions import SubscriptionStore
from .policy import StreamPolicy, check_policy
from .read.positioning import find_end, find_start
from .read.segment_opener import Archives, SegmentOpener
from .read.stream_reader import StreamReader
from .write.segment_chain import SegmentChain
from .write.stream_writer import StreamWriter

_LOG = EventLog(__name__)

_TOKEN_BYTES = 16
LIST_LIMIT = 1000


async def create_namespace(
    store: MetadataStore, runtime: Runtime, name: str, policy: StreamPolicy
) -> None:
    """Create a namespace. Raises NamespaceExistsError, InvalidArgumentError (invalid name)."""
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
        except NoSuchNamespaceError as elsewhere:
            raise NamespaceExistsError(str(elsewhere)) from None
        if found.token != token:
            raise NamespaceExistsError(f"namespace {name} already exists") from error


async def list_namespaces(
    store: MetadataStore, *, after: str | None = None, limit: int = LIST_LIMIT
) -> list[str]:
    """Return a page of namespace names that follow ``after``, in order."""
    try:
        return await store.children(ROOT, after=after, limit=limit)
    except NoNodeError:
        return []


async def delete_namespace(store: MetadataStore, name: str, also: Sequence[Operation] = ()) -> None:
    """Delete an empty namespace, but never another one that is created under its name meanwhile.

    ``also`` is carried out in the same transaction. Raises NoSuchNamespaceError (also when
    repeated), InvalidArgumentError if it still has streams, NamespaceMovingError,
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
        record = NamespaceRecord.decode(name, value.data)
        if record.move is not None:
            raise moving_error(name)
        found = record.token
        token = token or found
        if found != token:
            return
        try:
            await store.txn([*below, Delete(path, expect=value.version), *also])
        except (BadVersionError, NoNodeError, IndeterminateError):
            continue
        except NotEmptyError as error:
            message = f"namespace {name} has streams; delete them first"
            raise InvalidArgumentError(message) from error
        return
    raise MetadataUnavailableError(
        f"namespace {name}: deletion not confirmed after {CONTENTION_MAX} attempts"
    )


class Namespace:
    """An open namespace. It owns no resources: callers close the writers and readers they open."""

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
        context: LogContext | None = None,
        reads: MetadataReads | None = None,
    ) -> None:
        """Readers and descriptions use ``reads``, and may be served old metadata by it.

        Without it they use the store, like everything else.
        """
        self.name = check_name("namespace", name)
        self.store = store
        """The metadata store that the namespace is in."""
        self.ledgers = ledgers
        """The ledgers of that store."""
        self._runtime = runtime
        self._store = store
        self._ledgers = ledgers
        self._streams = StreamStore(store, name)
        self._opener = SegmentOpener(self._streams, ledgers, archives)
        self._read_streams = StreamReads(reads or store, name, stale_ok=reads is not None)
        self._read_opener = SegmentOpener(self._read_streams, ledgers, archives)
        self.subscriptions = SubscriptionStore(store, name)
        """The named reader positions of the streams."""
        self.schemas = SchemaStore(store, name)
        """The schemas of the streams' payloads."""
        self._retention = Retention(
            self._streams, ledgers, self.subscriptions, runtime.clock, archives=archives
        )
        self._writer_config = writer_config or WriterConfig()
        self._reader_config = reader_config or ReaderConfig()
        self._context = context or LogContext()

    async def policy(self) -> StreamPolicy:
        """Return the policy of streams without a policy of their own.

        Raises NoSuchNamespaceError.
        """
        return (await self._record())[0].policy

    async def set_policy(self, policy: StreamPolicy) -> None:
        """Set the policy, effective at the next segment of each stream. The last call wins.

        Raises NoSuchNamespaceError, NamespaceMovingError, MetadataUnavailableError.
        """
        check_policy(policy, is_required=True)
        for _ in range(CONTENTION_MAX):
            record, version = await self._record()
            record.check_in_force(self.name)
            changed = replace(record, policy=policy)
            try:
                await self._store.put(namespace_path(self.name), changed.encode(), expect=version)
            except (BadVersionError, NoNodeError, IndeterminateError):
                continue
            return
        raise MetadataUnavailableError(
            f"namespace {self.name}: not changed in {CONTENTION_MAX} attempts, because other "
            "processes changed it"
        )

    async def check(self) -> Check:
        """Return a transaction check that the namespace exists unchanged.

        Raises NoSuchNamespaceError, NamespaceMovingError.
        """
        record, version = await self._record()
        record.check_in_force(self.name)
        return Check(namespace_path(self.name), version)

    # --- streams --------------------------------------------------------------------------------

    async def create_stream(self, name: str, policy: StreamPolicy | None = None) -> None:
        """Create a stream. Without a policy it uses the policy of the namespace.

        Raises StreamExistsError, NoSuchNamespaceError, InvalidArgumentError (invalid name).
        """
        check_policy(policy)
        identity = self._runtime.random_bytes(_TOKEN_BYTES).hex()
        record = StreamRecord(identity, self._runtime.clock.wall_ms(), policy)
        await self._streams.create(name, record)

    async def set_stream_policy(self, name: str, policy: StreamPolicy | None) -> None:
        """Set a stream's policy, effective at its next segment. Raises NoSuchStreamError."""
        check_policy(policy)
        await self._streams.update(name, lambda record: replace(record, policy=policy))

    async def truncate(self, name: str, position: Dlsn) -> Dlsn:
        """Hide all records below ``position`` from readers and return the resulting start.

        The start does not move back, so a repeat is safe. ``untruncate`` undoes a truncation
        until ``purge_grace_ms`` of the policy has passed (rule STR-21). Raises NoSuchStreamError,
        and InvalidPositionError if the position is of another stream or its segment does not exist.
        """
        before = await self._streams.current(name)
        check_position(position).check_stream(name, before.record.stream_id)
        position = position.in_stream("")
        last_lssn = before.head.last_lssn
        if position.lssn > last_lssn + 1:
            raise InvalidPositionError(
                f"stream {name} has no segment {position.lssn}; its last is {last_lssn}"
            )
        record = await self._streams.update(
            name, lambda record: record.truncated(position), identity=before.record.identity
        )
        return (await self._retention.mark(name, record, before.policy)).first_active

    async def untruncate(self, name: str, position: Dlsn | None = None) -> Dlsn:
        """Make truncated records readable again, and return the resulting start.

        The start moves back to ``position``, or as far as possible if it is None; it never moves
        forward. Records come back as long as their purge has not begun (rule STR-27). Raises
        NoSuchStreamError, TruncatedError if records at ``position`` were purged,
        InvalidPositionError if it is of another stream, and InvalidArgumentError if the policy
        would truncate them again.
        """
        current = await self._streams.current(name)
        record = current.record
        if position is not None:
            check_position(position).check_stream(name, record.stream_id)
            position = position.in_stream("")
        target = record.oldest if position is None else position
        await self._retention.check_untruncation(name, record, current.policy, target)

        def restore(found: StreamRecord) -> StreamRecord:
            if position is not None and position < found.oldest:
                raise TruncatedError(
                    f"stream {name}: what is below {found.oldest} was purged",
                    found.oldest.in_stream(found.stream_id),
                )
            return found.untruncated(max(target, found.oldest))

        after = await self._streams.update(name, restore, identity=record.identity)
        return after.first_active

    async def maintain(self, name: str, *, expires_archives: bool = True) -> MaintenanceResult:
        """Run one pass of retention.

        It truncates by the policy, deletes ledgers of archived segments, purges segments whose
        grace period is over, and deletes old archives of purged segments, for which it lists them.
        The elected repair process calls it for all streams; any process may. Raises
        NoSuchStreamError.
        """
        current = await self._streams.current(name)
        return await self._retention.maintain(
            name, current.record, current.policy, expires_archives=expires_archives
        )

    async def find_overdue(self, name: str) -> OverdueData | None:
        """Return the data of a stream that retention should have deleted first; None if none.

        Raises NoSuchStreamError.
        """
        current = await self._streams.current(name)
        now_ms = self._runtime.clock.wall_ms()
        return await find_overdue(self._streams, name, current.record, current.policy, now_ms)

    async def delete_stream(self, name: str, *, identity: str | None = None) -> None:
        """Delete a stream with all of its ledgers. Its writer loses it; archives are kept.

        No append that is called after it returned is acknowledged (rule STR-31). Raises
        NoSuchStreamError, and DeletionPendingError if too few bookies respond: nothing is deleted
        then. A repeat after an error continues the deletion. With the stream's
        ``identity`` (see ``describe``), it never deletes another stream that was created under the
        same name meanwhile.
        """
        await StreamDeletion(self._store, self._streams, name).run(self._ledgers, identity)

    async def streams(
        self, prefix: str = "", *, after: str | None = None, limit: int = LIST_LIMIT
    ) -> list[str]:
        """Return a page of stream names that begin with ``prefix`` and follow ``after``, in order.

        Only the last page is shorter than ``limit``.
        """
        return await self._streams.names(prefix, after, limit)

    async def describe(self, name: str) -> StreamDescription:
        """Describe a stream from its metadata, which may be old: see ``metadata_age_ms``.

        Raises NoSuchStreamError, MetadataUnavailableError.
        """
        nodes = await self._read_streams.everything(name)
        record = nodes.record
        policy = await self._read_streams.policy_of(record)
        is_marked = record.oldest.lssn < record.marked_lssn
        return StreamDescription(
            name=name,
            created_ms=record.created_ms,
            policy=policy,
            follows_namespace=record.policy is None,
            start=record.first_active,
            epoch=nodes.head.epoch,
            segments=nodes.segments,
            identity=record.identity,
            stream_id=record.stream_id,
            is_sealed=nodes.head.is_sealed,
            grace_ends_ms=record.marked_ms + policy.purge_grace_ms if is_marked else None,
            metadata_age_ms=nodes.age_ms,
        )

    async def open_writer(self, name: str) -> StreamWriter:
        """Take over the stream from its current writer and begin a new segment (rule STR-3).

        Raises NoSuchStreamError, EndOfStreamError, StreamSealedError, StreamLostError (another
        writer took over meanwhile), and transient errors, after which the call may be repeated.
        """
        current = await self._streams.current(name)
        chain = self._chain(name)
        segment, dedup_table = await chain.open(current)
        return StreamWriter(
            self._runtime,
            chain,
            segment,
            stream=name,
            policy=current.policy,
            dedup_table=dedup_table,
            read_policy=lambda: self._policy_of(name),
            config=self._writer_config,
            context=self._context,
            counts=self._context.series.of(self.name, name),
        )

    async def end_stream(self, name: str) -> None:
        """Take the stream from its writer and end it permanently. Safe to repeat.

        Raises as ``open_writer`` and ``StreamWriter.end_stream``.
        """
        try:
            writer = await self.open_writer(name)
        except EndOfStreamError:
            return
        await writer.end_stream()

    async def take_over(
        self, name: str, confirm: ConfirmEnd | None = None, *, expect: StreamHead | None = None
    ) -> None:
        """Take the stream from its writer and complete its segments, without writing a record.

        With ``expect`` the call raises StreamLostError and changes nothing unless that is the head
        of the stream, which says that no writer has claimed or extended the stream since.

        If the end of a ledger cannot be proven, ``confirm`` is awaited with the findings, and the
        ledger is closed at its provable end with the record that it returns (rule REC-19). Without
        ``confirm`` the call then raises RecoveryIncompleteError, as ``open_writer`` does.
        """
        current = await self._streams.current(name)
        await self._chain(name).take_over(confirm, expect=expect, current=current)

    async def read_end(self, name: str, segment: Segment) -> SegmentEnd:
        """Return the end of a segment as its ledger has it, which is closed if it is not yet.

        For repair of segments that disagree with their ledgers. Raises what recovery raises.
        """
        return await self._chain(name).recover_end(segment)

    async def seal(self, name: str) -> None:
        """Take the stream from its writer, complete its segments, and refuse writers from now on.

        When the call returns, no record is acknowledged until ``unseal`` (rule STR-33). After an
        error the stream may be sealed with a segment that is still in progress; a repeat completes
        it. Raises like ``take_over`` without ``confirm``.
        """
        current = await self._streams.current(name)
        await self._chain(name).take_over(purpose=ClaimPurpose.SEAL, current=current)
        _LOG.info("stream sealed", namespace=self.name, stream=name)

    async def unseal(self, name: str) -> bool:
        """Let writers open a sealed stream again. Returns whether it was sealed. Safe to repeat.

        Raises NoSuchStreamError, MetadataUnavailableError.
        """
        token = self._runtime.random_bytes(_TOKEN_BYTES).hex()
        was_sealed = await self._streams.unseal(name, token)
        if was_sealed:
            _LOG.info("stream unsealed", namespace=self.name, stream=name)
        return was_sealed

    def _chain(self, name: str) -> SegmentChain:
        return SegmentChain(
            self._runtime,
            self._streams,
            self._ledgers,
            self._opener,
            stream=name,
            read_policy=lambda: self._policy_of(name),
        )

    async def end(self, name: str, *, fresh: bool = True) -> Dlsn:
        """Return the position after the last visible record.

        If ``fresh``, a quorum of bookies is read, so every record that was visible before the call
        is below the result; raises UnavailableErrors if no quorum responds. Otherwise the first
        responses are used, and the result may be too low. An acknowledged record becomes visible
        shortly after its acknowledgement (rule STR-15). Raises NoSuchStreamError.
        """
        return await find_end(self._read_streams, self._read_opener, name, fresh=fresh)

    async def open_reader(
        self,
        name: str,
        start: Start | Dlsn,
        *,
        on_truncated: Callable[[Dlsn, Dlsn], None] | None = None,
    ) -> StreamReader:
        """Open a reader at ``start``. It holds no resources until it is iterated.

        If ``start`` was truncated, ``on_truncated(start, first_active)`` is called and reading
        begins at the first active position; without the callback, TruncatedError is raised. Raises
        NoSuchStreamError, InvalidArgumentError if ``start`` is not a position, and
        InvalidPositionError if it is one of another stream. A position that this stream cannot have
        is refused when the reader gets there (rule STR-32).

        If the metadata store is out of reach, the reader begins with what this region knows of the
        stream; MetadataUnavailableError is raised if it knows nothing (rules STR-28 and STR-30).
        """
        check_start(start)
        record, _ = await self._read_streams.record(name)
        counts = self._context.series.of(self.name, name)
        return await find_start(
            self._read_streams,
            self._read_opener,
            name,
            record,
            start,
            config=self._reader_config,
            on_truncated=on_truncated,
            lags=self._context.reader_lags if counts is None else counts.lags,
            delivered=self._context.delivered,
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
        return (await self._streams.current(name)).policy
