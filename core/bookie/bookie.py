"""A bookie: one storage, served on one port and registered in the metadata store.

``Bookie.open`` replays the storage, ``serve`` listens and registers, and ``aclose`` does the
reverse. A full disk makes the bookie read-only, with a reserve for recovery adds (rule BKE-20). A
failed disk makes it read-only until it is started again. Losing the metadata store stops neither
reads nor adds to known ledgers (rule BKE-24).
"""

import asyncio
from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from functools import partial
from typing import Any, Self

from ..metadata.bookie_directory import BookieDirectory
from ..metadata.ledger_store import LedgerStore
from ..metadata.ledger_stores import LedgerStores
from ..metadata.regional_store import RegionalStore
from ..protocol.bookie_id import BookieId, Region
from ..protocol.errors import (
    ClosedError,
    ConfigurationError,
    MetadataError,
    RhumblineError,
    WrongClusterError,
)
from ..runtime.disk import Disk
from ..runtime.event_log import EventLog
from ..runtime.primitives.transport_security import IncomingSecurity
from ..runtime.runtime import Runtime
from ..runtime.state_machine import StateMachine
from ..runtime.tasks import Tasks, wait_until_done
from ..wire import lost_ledgers
from .config import BookieConfig
from .free_space import FreeSpaceMonitor
from .identity import (
    Identity,
    check_identity,
    check_regional_store,
    introduce_to,
    read_identity,
    repair_identity,
)
from .life_cycle import ADMISSIONS, BOOKIE_LIFE, SERVING, BookieEvent, BookieState, admission
from .maintenance.disk_reserve import release_for_start
from .maintenance.garbage_collector import GarbageCollector
from .maintenance.limbo_recovery import LimboRecovery
from .maintenance.maintenance import CollectorOfStore, Maintenance
from .maintenance.metadata_copies import MetadataCopies
from .maintenance.scrubber import Scrubber
from .maintenance.surplus_copies import SurplusCopies
from .registration import BookieRegistrations, registration_of
from .server.connection import ClientConnection
from .server.entry_service import EntryService
from .server.limits.open_connections import OpenConnections, close_idle_connections
from .server.limits.partial_frames import PartialFrames
from .server.limits.unsent_responses import UnsentResponses
from .server.plain_requests import judge_plain_requests
from .space_limits import limits_on_disk
from .start.start_guard import RECORD_MS, StartGuard
from .storage import Storage

_LOG = EventLog(__name__)

_RECORD_PAUSE_MS = 1_000
"""Shortest interval between two records of the end of the log, in milliseconds."""

_LAST_RECORD_S_MAX = 2.0
"""Time limit for recording the end of the log at an orderly shutdown, in seconds."""


class Bookie:
    """A storage server, created by ``open``."""

    def __init__(
        self,
        runtime: Runtime,
        disk: Disk,
        config: BookieConfig,
        ledgers: LedgerStore,
        directory: BookieDirectory,
        *,
        identity: Identity,
        holder: str = "",
        regional: RegionalStore | None = None,
        log_file_bytes: int | None = None,
    ) -> None:
        """``log_file_bytes`` is the size of a log file on this disk, if not that of ``config``."""
        self._config = config
        self._directory = directory
        self._identity = identity
        self._holder = holder
        self._tasks = Tasks()
        on_disk = replace(config, log_file_bytes=log_file_bytes or config.log_file_bytes)
        self.storage = Storage(runtime, disk, on_disk, identity.bookie_id)
        self._guard = StartGuard(disk, directory, identity, runtime.random)
        self._log_began = asyncio.Event()
        self.storage.on_log_began = self._log_began.set
        self._space = FreeSpaceMonitor(disk, config)
        self._space.on_change = self._space_changed
        self._space.on_lowered = self._log_lowered
        stores = LedgerStores(ledgers, None if regional is None else regional.ledgers)
        self.service = EntryService(
            config, self.storage, stores, identity.bookie_id, self._tasks, self._space
        )
        self.service.on_change = self._space_changed
        self.scrubber = Scrubber(self.storage, config.scrub_bytes_per_s)
        self.limbo = LimboRecovery(self.storage, stores, identity.bookie_id, self.scrubber.restore)
        self.collector = self._collector_of(ledgers, stores)
        collectors = [CollectorOfStore(self.collector, directory.global_instance_id)]
        if regional is not None:
            collector = self._collector_of(regional.ledgers, stores)
            collectors.append(CollectorOfStore(collector, regional.instance_id))
        surplus = SurplusCopies(self.service, stores, identity.bookie_id, config)
        self.maintenance = Maintenance(
            self.storage,
            self._space,
            collectors,
            self.limbo,
            surplus,
            MetadataCopies(self.service),
            config,
            identity.instance_id,
        )
        self._regional = regional
        self._is_read_only_by_command = False
        self._connections = OpenConnections(config.connection_count_max)
        self._closed_reasons: Counter[str] = Counter()
        self._partial_frames = PartialFrames(
            config.partial_frame_bytes_max, config.partial_frame_ms_max
        )
        self._unsent = UnsentResponses(config.unsent_bytes_max)
        self._server: asyncio.Server | None = None
        self._registrations = BookieRegistrations(config, self._tasks, runtime.random)
        self._maintenance_task: asyncio.Task[Any] | None = None
        self._is_claimed = False
        self._life = StateMachine(
            BOOKIE_LIFE,
            str(identity.bookie_id),
            now=asyncio.get_running_loop().time,
            check=self._check,
        )

    def _collector_of(self, ledgers: LedgerStore, stores: LedgerStores) -> GarbageCollector:
        """Return the collector of the garbage about which the store of ``ledgers`` is asked."""
        return GarbageCollector(
            self.service,
            ledgers,
            self._config,
            lambda id_: stores.owner_of(id_) is ledgers,
            lambda: stores.listed_elsewhere(ledgers),
            ledgers.is_garbage_held,
        )

    @classmethod
    async def open(
        cls,
        runtime: Runtime,
        disk: Disk,
        config: BookieConfig,
        ledgers: LedgerStore,
        directory: BookieDirectory,
        *,
        holder: str = "",
        regional: RegionalStore | None = None,
    ) -> Self:
        """Opens formatted storage.

        ``ledgers`` and ``directory`` are those of the global store, ``regional`` is the store of
        the bookie's region, if it has one.

        ``holder`` identifies the lock on the storage directory and the boot of the operating
        system in which it is held; empty if there is no lock. A registration with the same holder
        belongs to a dead process that held the lock before, so it is replaced without waiting for
        it to expire.

        Raises ForeignDataError (not a bookie's storage, or another format), WrongClusterError,
        CorruptionError (the write log is missing), DiskFullError, DiskFailedError, MetadataError.
        A storage that is an older copy is opened in limbo (rule BKE-25).
        """
        identity = await read_identity(disk)
        await check_identity(identity, directory)
        if regional is not None:
            await check_regional_store(identity, regional)
        await repair_identity(disk, identity)
        limits = limits_on_disk(config, await disk.total_bytes())
        await release_for_start(disk, limits.maintenance_reserve_bytes)
        bookie = cls(
            runtime,
            disk,
            config,
            ledgers,
            directory,
            identity=identity,
            holder=holder,
            regional=regional,
            log_file_bytes=limits.log_file_bytes,
        )
        await bookie._open_storage()
        return bookie

    async def _open_storage(self) -> None:
        try:
            await self._guard.check()
            await self.storage.open(
                must_exist=self._identity.was_opened, limbo_reason=self._guard.limbo_reason
            )
            await self._space.check()
        except BaseException:
            await self.storage.abandon()
            raise

    @property
    def bookie_id(self) -> BookieId:
        """The id of the bookie in ensembles."""
        return self._identity.bookie_id

    @property
    def region(self) -> Region:
        """The region of the bookie, which never changes."""
        return self._identity.region

    @property
    def port(self) -> int:
        """The listening port. Raises ClosedError before ``serve``."""
        if self._server is None:
            raise ClosedError("the bookie is not listening")
        port: int = self._server.sockets[0].getsockname()[1]
        return port

    @property
    def state(self) -> BookieState:
        """The state in the life cycle of the bookie."""
        return self._life.state

    def story(self) -> str:
        """Return the last changes of the state, one in a line."""
        return self._life.story()

    def __repr__(self) -> str:
        return repr(self._life)

    @property
    def is_read_only(self) -> bool:
        """True if plain adds are refused."""
        return self.state is not BookieState.WRITABLE

    async def serve(
        self, host: str, port: int, *, security: IncomingSecurity | None = None
    ) -> None:
        """Listens on the port (0: any free port), registers the bookie and claims its storage.

        ``security`` protects the connections; without it they are not encrypted (rule BKE-32).

        Connections are closed until then: only the registered process may claim, and what it
        serves before the claim would be unknown to a later start. Raises ConfigurationError if the
        port is in use, NodeExistsError if another process is registered with this id,
        WrongClusterError if one has claimed the storage meanwhile, MetadataError.
        """
        loop = asyncio.get_running_loop()
        try:
            accept = self._accept if security is None else partial(self._guard_of, security)
            self._server = await loop.create_server(accept, host, port)
        except OSError as error:
            raise ConfigurationError(
                f"cannot listen on {host}:{port}: {error.strerror or error}; "
                "choose another address, or stop the process that uses it"
            ) from error
        registration = registration_of(
            self._identity,
            self._config,
            host=host,
            port=self.port,
            holder=self._holder,
            free_bytes=self._space.published_bytes,
            is_in_limbo=self.storage.states.limbo.is_active,
        )
        directories = [self._directory]
        if self._regional is not None:
            await introduce_to(self._regional.directory, self._identity)
            directories.append(self._regional.directory)
        self._space.on_shift = self._registrations.set_free_bytes
        await self._registrations.join(
            directories,
            registration,
            is_read_only=lambda: self._admission() is not BookieEvent.ADMIT_ALL,
        )
        await self._guard.claim(self.storage.log.durable_end, self.limbo_reason)
        self._is_claimed = True
        self._enter(self._admission())
        if self.limbo_reason:
            reason = self.limbo_reason
            _LOG.warning("limbo began", machine=self._life, bookie=self.bookie_id, reason=reason)
        self._tasks.spawn(self._space.run(), "free space")
        self._tasks.spawn(self._scrub(), "scrub")
        if self._config.connection_idle_ms:
            closing = close_idle_connections(self._connections, self._config.connection_idle_ms)
            self._tasks.spawn(closing, "close idle connections")
        self._tasks.spawn(self._record_end(), "end of the log")
        self._maintenance_task = self._tasks.spawn(self.maintenance.run(), "maintenance")

    async def _record_end(self) -> None:
        """Records how far the log is durable, periodically and after each new log file."""
        while True:
            await asyncio.sleep(_RECORD_PAUSE_MS / 1000)
            try:
                async with asyncio.timeout(RECORD_MS / 1000):
                    await self._log_began.wait()
            except TimeoutError:
                pass  # the regular record is due
            self._log_began.clear()
            self._registrations.set_limbo(self.storage.states.limbo.is_active)
            try:
                await self._guard.record(self.storage.log.durable_end, self.limbo_reason)
            except WrongClusterError as error:
                self.service.log_failed(error)  # what this process acknowledges counts no more
                return
            except MetadataError:
                continue  # the next round records a later end

    @property
    def limbo_reason(self) -> str:
        """Why ledgers are in limbo here; empty if none is."""
        if not self.storage.states.limbo.is_active:
            return ""
        damages = self.storage.damages
        known = damages[-1].reason if damages else self._guard.recorded_limbo
        return known or "an earlier start found damage"

    async def _scrub(self) -> None:
        """Scrubs all files periodically until cancelled."""
        while True:
            await asyncio.sleep(self._config.scrub_ms / 1000)
            report = await self.scrubber.walk()
            if report.damages:
                _LOG.error(
                    "damage found",
                    bookie=self.bookie_id,
                    files=[damage.number for damage in report.damages],
                    reason=report.damages[0].reason,
                )
                self.maintenance.retire_files([damage.number for damage in report.damages])

    def _accept(self) -> Any:  # noqa: ANN401 - a compiled class cannot inherit asyncio.Protocol
        if self.state is BookieState.STARTING:
            return _ClosedConnection()
        return ClientConnection(
            self.service,
            self._tasks,
            self._connections,
            self._closed_reasons,
            self._partial_frames,
            self._unsent,
        )

    def _guard_of(self, security: IncomingSecurity) -> Any:  # noqa: ANN401 - as above
        judge = partial(judge_plain_requests, is_tls_required=security.is_required)
        return security.guard(self._accept, judge)

    def set_read_only(self, read_only: bool) -> None:
        """Refuses plain adds, or accepts them again, by an operator's command.

        Recovery adds are not affected.
        """
        self._is_read_only_by_command = read_only
        self._update_mode()

    def publish_lost(self, ledgers: Iterable[int]) -> None:
        """Publishes the ledgers of which copies are lost with a data directory (rule DSK-5)."""
        self._registrations.set_lost(lost_ledgers.encode(ledgers))

    def note_data_space(self, free_bytes: int, total_bytes: int) -> None:
        """Sets the space of the data directories, which counts for placement (rule PLC-15)."""
        self._space.data_free_bytes, self._space.data_total_bytes = free_bytes, total_bytes

    def _space_changed(self) -> None:
        self._update_mode()
        self.maintenance.space_changed()

    def _log_lowered(self, lowered: dict[str, str]) -> None:
        if lowered:
            _LOG.warning(
                "space settings lowered",
                bookie=self.bookie_id,
                disk_bytes=self._space.total_bytes,
                settings=[f"{name} {change}" for name, change in lowered.items()],
            )

    def _admission(self) -> BookieEvent:
        return admission(
            is_failed=self.service.failure is not None,
            has_reserve=self._space.has_reserve,
            has_room=self._space.has_room,
            is_read_only_by_command=self._is_read_only_by_command,
        )

    def _update_mode(self) -> None:
        """Updates the state, and the registration, after a change of what decides on adds."""
        event = self._admission()
        if self.state in SERVING and ADMISSIONS[event] is not self.state:
            self._enter(event)
        self._registrations.set_read_only(event is not BookieEvent.ADMIT_ALL)

    def _enter(self, event: BookieEvent) -> None:
        """Takes a transition and tells the service which adds it accepts from now on."""
        state = self._life.take(event, str(self.service.failure or ""))
        self.service.accepts_adds = state is BookieState.WRITABLE
        self.service.accepts_recovery_adds = state in (BookieState.WRITABLE, BookieState.READ_ONLY)
        self._log_state(state)

    def _log_state(self, state: BookieState) -> None:
        bookie, life, free_bytes = self.bookie_id, self._life, self._space.free_bytes
        if state is BookieState.WRITABLE:
            _LOG.info("bookie writable", bookie=bookie, region=self.region)
        elif state is BookieState.READ_ONLY:
            reason = "by command" if self._is_read_only_by_command else "little free disk space"
            _LOG.warning(
                "bookie read-only",
                machine=life,
                bookie=bookie,
                reason=reason,
                free_bytes=free_bytes,
            )
        elif state is BookieState.FULL:
            _LOG.error("bookie full", machine=life, bookie=bookie, free_bytes=free_bytes)
        elif state is BookieState.FAILED:
            error = self.service.failure
            _LOG.error("bookie failed", machine=life, bookie=bookie, error=error)
        elif state is BookieState.CLOSING:
            _LOG.info("bookie closing", bookie=bookie)
        elif state is BookieState.CLOSED:
            _LOG.info("bookie closed", bookie=bookie)

    def _check(self) -> None:
        if self.state in SERVING:
            assert self._is_claimed, "an unclaimed storage is served"
            has_failed = self.service.failure is not None
            assert (self.state is BookieState.FAILED) == has_failed, "a failed log takes adds"

    async def aclose(self) -> None:
        """Unregisters, completes pending requests and closes everything. Safe to repeat."""
        if self.state in (BookieState.CLOSING, BookieState.CLOSED):
            return
        self._enter(BookieEvent.CLOSE)
        await self._registrations.leave()
        if self._server is not None:
            self._server.close()
        if self._maintenance_task is not None:
            self._maintenance_task.cancel()
            await wait_until_done(self._maintenance_task)
        await self.storage.aclose()
        await self._record_last_end()
        self.service.polls.close()
        for connection in list(self._connections):
            connection.close("shutdown")
        self._partial_frames.close()
        await self._tasks.aclose()
        self._enter(BookieEvent.END)

    async def _record_last_end(self) -> None:
        if not self._is_claimed or self.storage.log.durable_end == 0:
            return
        try:
            async with asyncio.timeout(_LAST_RECORD_S_MAX):
                end, limbo = self.storage.log.durable_end, self.limbo_reason
                is_final = self.service.failure is None
                await self._guard.record(end, limbo, is_final=is_final)
        except (MetadataError, WrongClusterError, TimeoutError):
            return  # the next start compares with the end that was recorded before

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    def statistics(self) -> dict[str, Any]:
        """Return the counters and gauges by name."""
        storage, service = self.storage, self.service
        limits = self._space.limits
        failure: RhumblineError | None = service.failure
        return {
            "bookie": self.bookie_id,
            "entries": storage.entry_count,
            "bytes": storage.entry_bytes,
            "syncs": storage.log.sync_count,
            "log_bytes": storage.log.written_bytes,
            "ledgers": len(service.ledgers),
            "connections": len(self._connections),
            "parked_polls": service.polls.parked_count,
            "pending_bytes": storage.log.pending_bytes,
            "tail_cache_bytes": storage.tail.held_bytes,
            "free_bytes": self._space.free_bytes,
            "disk_bytes": self._space.total_bytes,
            "read_only_below_bytes": limits.read_only_below_bytes,
            "reserve_below_bytes": limits.reserve_below_bytes,
            "maintenance_reserve_bytes": limits.maintenance_reserve_bytes,
            "read_only": self.is_read_only,
            "registered": self._registrations.is_registered,
            "sessions_lost": self._registrations.lost_count,
            "limbo": storage.states.limbo.is_active,
            "limbo_reason": self.limbo_reason or None,
            "restored_entries": self.limbo.restored_count,
            "missing_entries": self.limbo.missing_count,
            "damaged_ranges": len(storage.damages),
            "sealed_logs": len(storage.sealed_logs),
            "sorted_files": len(storage.sorted),
            "repaired_entries": self.scrubber.repaired_count,
            **self.maintenance.statistics(),
            "partial_frame_bytes": self._partial_frames.held_bytes,
            "unsent_bytes": self._unsent.held_bytes,
            "closed": dict(sorted(self._closed_reasons.items())),
            **service.meter.statistics(),
            "failure": None if failure is None else str(failure),
        }


class _ClosedConnection(asyncio.BaseProtocol):
    """A connection that arrives before the bookie serves; it is closed at once."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """See asyncio.BaseProtocol."""
        assert isinstance(transport, asyncio.Transport)
        transport.abort()
