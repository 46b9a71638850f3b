"""The ledger client: creates, opens, recovers and deletes ledgers."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from hmac import compare_digest
from random import Random
from types import TracebackType
from typing import Any, Self

from ..metadata.bookie_directory import BookieDirectory
from ..metadata.ledger_store import LedgerStore
from ..protocol.bookie_id import BookieId, Region
from ..protocol.errors import (
    IndeterminateError,
    InvalidArgumentError,
    NodeExistsError,
    NotEnoughBookiesError,
    UnauthorizedError,
    UnavailableError,
)
from ..protocol.ledger_metadata import Fragment, LedgerMetadata, allowed_regions, spread_rule
from ..protocol.placement import NO_RULE, BookieInfo, PlacementPolicy, SpreadRule, in_regions
from ..protocol.quorum import Quorum
from ..protocol.recovery import Evidence
from ..runtime.histogram import Histogram
from ..runtime.metadata_store import Version
from ..runtime.runtime import Runtime
from ..runtime.tasks import Tasks, run_both
from .config import LedgerConfig
from .connection.bookie_pool import BookiePool
from .connection.round_trip import measure_round_trip_ms
from .context import LedgerContext
from .missing_range import MissingRange
from .read.ledger_reader import LedgerReader
from .read.read_order import NearestFirst
from .read_policy import ReadPolicy
from .recovery.ledger_recovery import ConfirmEnd, fence_ledger, recover_ledger
from .recovery.replica_copies import ReplicaCopies
from .slow_departure import SlowDeparture
from .write.ledger_writer import LedgerWriter

PASSWORD_BYTES_MAX = 1024

PasswordOf = Callable[[int, Mapping[str, bytes]], bytes]
"""Returns the password of a new ledger with this id and custom metadata."""


def no_password(ledger_id: int, custom: Mapping[str, bytes]) -> bytes:
    """Return the empty password."""
    return b""


def _ignore(_: object) -> None:
    pass


class LedgerClient:
    """Access to ledgers. A process has one client, as all ledgers share its connections.

    ``on_evidence`` receives every decision of every recovery with the answers that led to it.
    ``on_missing_range`` receives the entries that a writer knows to be missing at a bookie, for
    repair. ``on_slow_departure`` receives each slow bookie that a writer leaves.
    """

    def __init__(
        self,
        runtime: Runtime,
        ledgers: LedgerStore,
        directory: BookieDirectory,
        placement: PlacementPolicy,
        config: LedgerConfig | None = None,
        region: Region | None = None,
        *,
        reads: ReadPolicy | None = None,
        on_evidence: Callable[[Evidence], None] = _ignore,
        on_missing_range: Callable[[MissingRange], None] = _ignore,
        on_slow_departure: Callable[[SlowDeparture], None] = _ignore,
        password_of: PasswordOf = no_password,
    ) -> None:
        """``password_of`` returns the password of a new ledger."""
        self._password_of = password_of
        config = config or LedgerConfig()
        pool = BookiePool(runtime, directory, config=config, region=region)
        self._context = LedgerContext(
            runtime=runtime,
            config=config,
            ledgers=ledgers,
            directory=directory,
            placement=placement,
            region=region,
            pool=pool,
            tasks=Tasks(),
            reads=reads or NearestFirst(region, runtime.random, config, pool.on_failure),
            on_evidence=on_evidence,
            on_missing_range=on_missing_range,
            on_slow_departure=on_slow_departure,
            adds=Histogram(),
            handles={},
        )

    def statistics(self) -> dict[str, Any]:
        """Returns counters and quantiles by name."""
        context = self._context
        traffic = context.pool.traffic()
        adds = context.pool.recent_add_ms(asyncio.get_running_loop().time())
        return {
            "open_handles": len(context.handles),
            "adds": context.adds.summary(),
            "bookies": {
                bookie: {
                    "sent_bytes": sent,
                    "received_bytes": received,
                    **({"add_ms": round(adds[bookie], 3)} if bookie in adds else {}),
                }
                for bookie, (sent, received) in sorted(traffic.items())
            },
            "received": self._received_by_origin(traffic),
            "failed_lately": context.pool.failed_lately(),
            "slow_lately": context.pool.slow_lately(),
            "slow_departures": context.pool.departure_count,
        }

    def _received_by_origin(self, traffic: Mapping[BookieId, tuple[int, int]]) -> dict[str, int]:
        """Returns the bytes received, by whether the bookie is in the region of this process."""
        context = self._context
        found = dict.fromkeys(("own_region", "other_region", "unknown"), 0)
        for bookie, (_, received) in traffic.items():
            region = context.directory.known_region(bookie)
            if region is None or context.region is None:
                origin = "unknown"
            else:
                origin = "own_region" if region == context.region else "other_region"
            found[origin] += received
        return found

    async def create(
        self,
        quorum: Quorum,
        *,
        password: bytes | None = None,
        custom: Mapping[str, bytes] | None = None,
    ) -> LedgerWriter:
        """Creates a ledger on a legal ensemble and returns its only writer.

        Without ``password`` it gets the one that the client's ``password_of`` returns.

        ``custom`` may restrict it to some regions (REGIONS_KEY) and say in how many racks or other
        domains each write set must lie (SPREAD_KEY). Its copies are placed near this
        process, or near the first of those regions if this process is in none of them.

        Not safe to repeat: a second call creates a second ledger. Raises NotEnoughBookiesError, and
        what the metadata store raises if it is unavailable until the deadline.
        """
        if password is not None and len(password) > PASSWORD_BYTES_MAX:
            raise InvalidArgumentError(
                f"the ledger password has {len(password)} bytes; the limit is {PASSWORD_BYTES_MAX}"
            )
        context = self._context
        backoff = context.backoff(context.config.metadata_timeout_ms)
        while True:
            try:
                return await self._create(quorum, password, dict(custom or {}))
            except NodeExistsError:
                if backoff.is_over:
                    raise
            except (UnavailableError, IndeterminateError) as error:
                if backoff.is_over or isinstance(error, NotEnoughBookiesError):
                    raise
            await backoff.pause()

    async def can_create(
        self, quorum: Quorum, allowed: Sequence[str] = (), rule: SpreadRule = NO_RULE
    ) -> bool:
        """Returns whether a ledger could be created now in the ``allowed`` regions (all if empty).

        Raises MetadataUnavailableError.
        """
        context = self._context
        candidates = in_regions(await context.directory.snapshot(), allowed)
        try:
            context.placement.new_ensemble(quorum, candidates, random=Random(0), rule=rule)
        except NotEnoughBookiesError:
            return False
        return True

    async def _create(
        self, quorum: Quorum, password: bytes | None, custom: dict[str, bytes]
    ) -> LedgerWriter:
        context = self._context
        candidates, number = await run_both(
            context.candidates_in(allowed_regions(custom)),
            context.ledgers.new_number(),
            "prepare ledger",
        )
        try:
            bookies = await self._choose_bookies(quorum, custom, candidates)
        except NotEnoughBookiesError:
            await context.ledgers.release(number)
            raise
        regions = await context.regions_of(bookies)
        if password is None:
            password = self._password_of(number.ledger_id, custom)
        metadata = LedgerMetadata(
            ledger_id=number.ledger_id,
            ensemble_size=quorum.ensemble_size,
            write_quorum=quorum.write_quorum,
            ack_quorum=quorum.ack_quorum,
            fragments=(Fragment(0, bookies),),
            password=password,
            custom=custom,
            created_ms=context.runtime.clock.wall_ms(),
            creation_token=context.runtime.random.getrandbits(62) + 1,
        )
        if quorum.min_regions > 1:
            metadata = metadata.with_r(0, quorum.min_regions)
        version = await context.ledgers.create(metadata, number)
        return LedgerWriter(context, metadata, version, regions)

    async def _choose_bookies(
        self, quorum: Quorum, custom: Mapping[str, bytes], candidates: Sequence[BookieInfo]
    ) -> tuple[BookieId, ...]:
        """Returns a legal ensemble, of reachable bookies if there is one."""
        context = self._context
        allowed = allowed_regions(custom)
        near = context.region if not allowed or context.region in allowed else Region(allowed[0])
        tiers = await context.reachable_first(candidates, is_urgent=False)
        for eligible in tiers:
            try:
                return context.placement.new_ensemble(
                    quorum,
                    eligible,
                    random=context.runtime.random,
                    near=near,
                    rule=spread_rule(custom),
                )
            except NotEnoughBookiesError:
                if eligible is tiers[-1]:
                    raise
        raise AssertionError("there is at least one tier")

    async def open(
        self, ledger_id: int, password: bytes | None = None, *, stale_ok: bool = False
    ) -> LedgerReader:
        """Opens a ledger for reading without fencing it: its writer may continue.

        Without ``password`` the one in the ledger's metadata is used (rule SEC-9).

        With ``stale_ok`` its metadata may be old: the reader then returns fewer entries, or raises
        UnavailableError, but never something else (rule LED-26).

        Raises NoSuchLedgerError, UnauthorizedError, and what the metadata store raises if it is
        unavailable until the deadline.
        """
        context = self._context
        backoff = context.backoff(context.config.metadata_timeout_ms)
        while True:
            try:
                metadata, version = await context.ledgers.read(ledger_id, stale_ok=stale_ok)
                break
            except UnavailableError:
                if backoff.is_over:
                    raise
            await backoff.pause()
        if password is not None and not compare_digest(metadata.password, password):
            raise UnauthorizedError(f"ledger {ledger_id}: wrong password")
        return LedgerReader(context, metadata, version)

    async def open_recovered(self, metadata: LedgerMetadata) -> LedgerReader:
        """Opens a ledger for reading with the closed metadata that ``recover`` returned."""
        return LedgerReader(self._context, metadata, None)

    def reader(self, metadata: LedgerMetadata, version: Version) -> LedgerReader:
        """Opens a ledger for reading, as ``open`` does, with metadata that the caller has read."""
        return LedgerReader(self._context, metadata, version)

    async def recover(
        self,
        ledger_id: int,
        password: bytes | None = None,
        *,
        min_regions: int | None = None,
        confirm: ConfirmEnd | None = None,
    ) -> LedgerMetadata:
        """Fences the ledger's writer, closes the ledger and returns its closed metadata.

        Any number of callers may race; all of them see the same end. See ``recover_ledger``.
        """
        return await recover_ledger(
            self._context, ledger_id, password, min_regions=min_regions, confirm=confirm
        )

    async def fence(self, ledger_id: int, password: bytes | None = None) -> None:
        """Fences the ledger's writer without closing the ledger. See ``fence_ledger``."""
        await fence_ledger(self._context, ledger_id, password)

    async def delete(self, ledger_id: int) -> None:
        """Deletes the ledger's metadata; bookies delete its entries later. Safe to repeat.

        Raises NoSuchLedgerError and what the metadata store raises.
        """
        await self._context.ledgers.delete(ledger_id)

    def writers(self) -> list[LedgerWriter]:
        """Returns the open writers, oldest first."""
        return [handle for handle in self._context.handles if isinstance(handle, LedgerWriter)]

    @property
    def copies(self) -> ReplicaCopies:
        """Access to the copies on single bookies, for repair."""
        return ReplicaCopies(self._context)

    def latency_ms(self, bookie: BookieId, now: float) -> float | None:
        """Returns the recent time that the bookie takes to store an entry; None if not known."""
        return self._context.pool.link(bookie).traffic.latency.recent_ms(now)

    async def measure_round_trip_ms(self, bookie: BookieId) -> float:
        """Returns the time of a request without I/O. Raises BookieUnavailableError, and others.

        The caller sets the deadline.
        """
        return await measure_round_trip_ms(self._context.pool, bookie)

    def traffic(self) -> dict[BookieId, tuple[int, int]]:
        """Returns the bytes (sent, received) by bookie since the start, over all requests."""
        return self._context.pool.traffic()

    async def aclose(self) -> None:
        """Closes all connections and tasks; writers fail, and readers raise. Safe to repeat."""
        for handle in list(self._context.handles):
            handle.abandon()
        await self._context.tasks.aclose()
        await self._context.pool.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.aclose()
