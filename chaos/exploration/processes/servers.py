"""The servers of a scope: bookies, whose log the explorer syncs, and the metadata store."""

import asyncio
from collections import Counter
from random import Random
from typing import cast

from ....core.bookie.config import BookieConfig
from ....core.bookie.free_space import FreeSpaceMonitor
from ....core.bookie.log.commit_group import CommitGroup
from ....core.bookie.log.log_format import OFFSET_BITS
from ....core.bookie.log.write_log import WriteLog
from ....core.bookie.server.connection import ClientConnection
from ....core.bookie.server.entry_service import EntryService
from ....core.bookie.server.limits.open_connections import OpenConnections
from ....core.bookie.server.limits.partial_frames import PartialFrames
from ....core.bookie.server.limits.unsent_responses import UnsentResponses
from ....core.bookie.storage import Storage
from ....core.metadata.ledger_store import LedgerStore
from ....core.protocol.bookie_id import BookieId
from ....core.protocol.ledger_metadata import LedgerMetadata, LedgerState
from ....core.runtime.disk import Disk
from ....core.runtime.runtime import Runtime
from ....core.runtime.tasks import Tasks
from ....core.wire import bookkeeper_pb2 as pb
from ....core.wire import v2, v3
from ....core.wire.entry import ENTRY_HEADER, master_key
from ....core.wire.frames import LENGTH, FrameSplitter
from ....core.wire.ledger_metadata import decode, encode
from .canonical import Opaque
from .client_process import FixedClock
from .process import (
    DESTROYED,
    FRAME,
    POWER_LOSS,
    REFUSAL,
    STORE,
    ExploredProcess,
    Facts,
    Message,
    Sent,
)
from .store_port import BAD_VERSION, GET, VALUE, WRITTEN, SteppedStore

SYNC = "syncs its log"
_NO_DISK = cast(Disk, None)
_CONFIG = BookieConfig()
_DENIALS = (v3.Status.OK, v3.Status.NO_ENTRY, v3.Status.NO_LEDGER)


class HeldLog(WriteLog):
    """A write log without a file: a group becomes durable when ``sync`` is called."""

    def kick(self) -> None:
        """See WriteLog; the explorer decides when the group is written."""

    def _kick_later(self) -> None:
        pass

    def take_groups(self) -> list[CommitGroup]:
        """Return the groups that are to be made durable."""
        self.next_group()
        return self._queue.take_all()


class _BookieTransport(asyncio.Transport, Opaque):
    """The bookie's end of a connection; passes each frame to ``SteppedBookie.respond``."""

    def __init__(self, process: "SteppedBookie", client: str, number: int) -> None:
        super().__init__()
        self._process = process
        self._splitter = FrameSplitter()
        self.client = client
        self.number = number

    def write(self, data: bytes | bytearray | memoryview) -> None:
        for frame in self._splitter.feed(bytes(data)):
            self._process.respond(self, frame)

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        pass

    def get_write_buffer_size(self) -> int:
        return 0

    def close(self) -> None:
        pass

    abort = close


class SteppedBookie(ExploredProcess):
    """A bookie: the production service and storage, over a log that the explorer syncs.

    With ``syncs_at_once`` each event ends with a sync; otherwise the sync is an action of its own.
    It knows the ledger ``introduced``, as its writer makes sure before the first entry, and holds
    ``entries`` of it, from the first one on. The ledger ``returned`` was fenced here, and then its
    copies were returned, so the bookie has a tombstone (rule BKE-31).
    """

    def __init__(
        self,
        name: str,
        *,
        introduced: LedgerMetadata | None = None,
        returned: LedgerMetadata | None = None,
        syncs_at_once: bool,
        entries: tuple[bytes, ...] = (),
        faults: tuple[str, ...] = (),
    ) -> None:
        super().__init__(name, faults=faults)
        self._syncs_at_once = syncs_at_once
        self._stored: dict[int, bytes] = {}
        self._records: list[bytes] = []
        self._entries: list[tuple[int, bytes]] = []
        self._fencing: dict[tuple[str, int, int], None] = {}
        self._has_fenced = False
        self._is_destroyed = False
        self.store = SteppedStore(self.sent, self.violations)
        self.loop.step(self._start)
        if introduced is not None:
            key = master_key(introduced.password)
            self.loop.step(self._introduce, introduced.ledger_id, key, entries)
            self._sync()
            self.sent.clear()
        if returned is not None:
            key = master_key(returned.password)
            self.loop.step(self._introduce, returned.ledger_id, key, ())
            self.loop.step(self._return, returned.ledger_id)
            self._sync()
            self._has_fenced = True

    def _return(self, ledger_id: int) -> None:
        self.storage.fence(self.service.ledgers[ledger_id], lambda _: None)
        self.storage.delete_ledger(ledger_id)

    def _introduce(self, ledger_id: int, key: bytes, entries: tuple[bytes, ...]) -> None:
        ledger = self.storage.create_ledger(ledger_id, key, is_proven=True)
        self.service.polls.ledger_created(ledger)
        for entry in entries:
            frame = v2.encode_add(key, entry)
            self._connection("", 0).data_received(frame)

    def _start(self) -> None:
        """Start the service on what is durable."""
        bookie = BookieId(self.name)
        runtime = Runtime(FixedClock(), Random(0))
        self.storage = Storage(runtime, _NO_DISK, _CONFIG, bookie)
        self._log = HeldLog(self.storage.files, _CONFIG, bookie, self.storage)
        self.storage.log = self._log
        self._tasks = Tasks()
        self._position = 1 << OFFSET_BITS
        self._connections: dict[tuple[str, int], ClientConnection] = {}
        self._replay()
        ledgers = LedgerStore(self.store)  # type: ignore[arg-type]
        space = FreeSpaceMonitor(_NO_DISK, _CONFIG)
        self.service = EntryService(_CONFIG, self.storage, ledgers, bookie, self._tasks, space)
        self.service.accepts_adds = self.service.accepts_recovery_adds = True

    def _replay(self) -> None:
        storage = self.storage
        for record in self._records:
            storage.states.apply(record)
        for entry_id, entry in self._entries:
            ledger_id, _, lac, _ = ENTRY_HEADER.unpack_from(entry)
            ledger = storage.states.ledgers[ledger_id]
            ledger.lac = max(ledger.lac, lac)
            storage.tail.put(self._position, entry)
            storage.index.recent.entries_of(ledger_id).put(entry_id, self._position, len(entry))
            self._position += len(entry)
        storage.states.finish_replay()

    # --- events ---------------------------------------------------------------------------------

    def on_message(self, source: str, connection: int, message: Message) -> None:
        """See ExploredProcess."""
        if self._is_destroyed:
            return
        if source == STORE:
            self.store.on_reply(message)
            return
        (frame,) = message.data
        assert isinstance(frame, bytes)
        self._note_fence(source, connection, frame)
        self._connection(source, connection).data_received(LENGTH.pack(len(frame)) + frame)

    def deliver(self, source: str, connection: int, message: Message) -> None:
        """See ExploredProcess."""
        super().deliver(source, connection, message)
        if self._syncs_at_once:
            self._sync()
        if not self.service.accepts_adds:
            self.service.accepts_adds = self.service.accepts_recovery_adds = True

    def _connection(self, client: str, number: int) -> ClientConnection:
        found = self._connections.get((client, number))
        if found is None:
            found = ClientConnection(
                self.service,
                self._tasks,
                OpenConnections(1),
                Counter(),
                PartialFrames(1 << 20, 60_000),
                UnsentResponses(1 << 20),
            )
            found.connection_made(_BookieTransport(self, client, number))
            self._connections[client, number] = found
        return found

    def actions(self) -> tuple[str, ...]:
        """See ExploredProcess."""
        return (SYNC,) if self._log.group.count and not self._is_destroyed else ()

    def on_action(self, action: str) -> None:
        """See ExploredProcess."""
        if action == SYNC:
            self._complete_groups()
        elif action == POWER_LOSS:
            self._fencing.clear()
            self.store._pending.clear()
            self._start()
        elif action == DESTROYED:
            self._is_destroyed = True
        elif action == REFUSAL:
            self.service.accepts_adds = self.service.accepts_recovery_adds = False
        else:
            raise AssertionError(f"{self.name} cannot {action}")

    def _sync(self) -> None:
        while self._log.group.count:
            self.loop.step(self._complete_groups)

    def _complete_groups(self) -> None:
        for group in self._log.take_groups():
            body = b"".join(group.buffers)
            self._records += group.states
            for _, entry_id, _, offset, size in group.adds:
                entry = body[offset : offset + size]
                self._entries.append((entry_id, entry))
                self._stored[entry_id] = entry
            self.storage.group_durable(group, self._position, body)
            self._position += max(1, len(body))

    # --- what leaves ----------------------------------------------------------------------------

    def _note_fence(self, client: str, number: int, frame: bytes) -> None:
        if frame[0] != v2.VERSION:
            request = v3.decode_request(frame)
            read = request.read_request
            if read.HasField("flag") and read.flag == pb.ReadRequest.FENCE_LEDGER:
                self._fencing[client, number, request.header.txn_id] = None

    def respond(self, transport: _BookieTransport, frame: bytes) -> None:
        """Send a response, and check what it promises (invariants L9 and L12)."""
        message = Message(FRAME, (frame,))
        self.sent.append(Sent(transport.client, transport.number, message))
        if frame[0] == v2.VERSION:
            response = v2.decode_response(frame)
            if isinstance(response, v2.AddResponse) and response.code == v2.Code.OK:
                self._check_add(response.entry_id)
            return
        answer = v3.decode_response(frame)
        key = transport.client, transport.number, answer.header.txn_id
        if answer.HasField("add_response") and v3.status_of(answer) == v3.Status.OK:
            self._check_durable(answer.add_response.entry_id)
        elif key in self._fencing:
            del self._fencing[key]
            self._has_fenced = self._has_fenced or v3.status_of(answer) in _DENIALS

    def _check_add(self, entry_id: int) -> None:
        if self._has_fenced:
            self.violations.append(
                f"L9: {self.name} confirmed entry {entry_id} after it had confirmed a fence"
            )
        self._check_durable(entry_id)

    def _check_durable(self, entry_id: int) -> None:
        if entry_id not in self._stored:
            self.violations.append(f"L12: {self.name} confirmed entry {entry_id} before its sync")

    # --- the state ------------------------------------------------------------------------------

    @property
    def is_done(self) -> bool:
        """See ExploredProcess."""
        return self._is_destroyed

    def possible_faults(self) -> tuple[str, ...]:
        """See ExploredProcess."""
        return () if self._is_destroyed else tuple(self.faults)

    @property
    def awaited(self) -> frozenset[str]:
        """See ExploredProcess."""
        return frozenset((STORE,)) if self.store.is_waiting else frozenset()

    def roots(self) -> tuple[object, ...]:
        """See ExploredProcess."""
        group = self._log.group
        waiting = [(*self._client_of(sink), outbox.adds) for sink, outbox in group.outboxes.items()]
        return (
            self._is_destroyed,
            self._has_fenced,
            sorted(self._fencing),
            sorted(self._stored.items()),
            list(self.service.ledgers.values()),
            list(self.storage.states.tombstones),
            self.service.accepts_adds,
            [(entry_id, lac) for _, entry_id, lac, _, _ in group.adds],
            waiting,
            group.states,
            group.callbacks,
            self.service.membership._waiting,
            sorted(self.store._pending),
            self._tasks._tasks,
        )

    def _client_of(self, sink: object) -> tuple[str, int]:
        return next(key for key, found in self._connections.items() if found is sink)

    def facts(self) -> Facts:
        """See ExploredProcess."""
        return Facts(self.found_violations(), stored=dict(sorted(self._stored.items())))


_NEXT = {
    LedgerState.OPEN: (LedgerState.OPEN, LedgerState.IN_RECOVERY, LedgerState.CLOSED),
    LedgerState.IN_RECOVERY: (LedgerState.IN_RECOVERY, LedgerState.CLOSED),
    LedgerState.CLOSED: (LedgerState.CLOSED,),
}


class StoreProcess(ExploredProcess):
    """A metadata store with one node: the ledger's metadata, which has ``version`` at first."""

    def __init__(self, metadata: LedgerMetadata, version: int) -> None:
        super().__init__(STORE)
        self._ledger_id = metadata.ledger_id
        self._data = encode(metadata)
        self._version = version

    def on_message(self, source: str, connection: int, message: Message) -> None:
        """See ExploredProcess."""
        number, _, *arguments = message.data
        if message.kind == GET:
            reply = Message(VALUE, (number, self._data, str(self._version)))
        else:
            data, expect = arguments
            assert isinstance(data, bytes)
            if expect is None or expect == str(self._version):
                self._check(decode(self._ledger_id, self._data), decode(self._ledger_id, data))
                self._data = data
                self._version += 1
                reply = Message(WRITTEN, (number, str(self._version)))
            else:
                reply = Message(BAD_VERSION, (number,))
        self.sent.append(Sent(source, 0, reply))

    def _check(self, before: LedgerMetadata, after: LedgerMetadata) -> None:
        if after.state not in _NEXT[before.state]:
            self.violations.append(f"L6: from {before.state.name} to {after.state.name}")
        if before.state is LedgerState.CLOSED and (before.last_entry_id, before.length) != (
            after.last_entry_id,
            after.length,
        ):
            self.violations.append(f"L2: the end moved to {after.last_entry_id}")
        if after.state is LedgerState.IN_RECOVERY and before.last_fragment != after.last_fragment:
            self.violations.append(f"L15: {before.last_fragment} became {after.last_fragment}")

    def on_action(self, action: str) -> None:
        """See ExploredProcess."""
        raise AssertionError(f"the store cannot {action}")

    def roots(self) -> tuple[object, ...]:
        """See ExploredProcess."""
        return self._data, self._version

    def facts(self) -> Facts:
        """See ExploredProcess."""
        return Facts(self.found_violations(), metadata=self._data)
