"""Publishes the load of a write proxy, and balances its region while it is elected.

All write proxies of a region publish their load. One of them, the *balancer*, is elected by an
ephemeral node. Each round it reads the reports, decides with ``plan_moves`` and writes the
assignments in a transaction that requires its election to hold (rules PRX-30, PRX-40, PRX-41). It
moves nothing itself: each proxy follows the assignments (``assignment_follower.py``).
"""

import asyncio
from collections.abc import Sequence

from ...core.protocol.errors import ClosedError, RhumblineError
from ...core.runtime.event_log import EventLog, LogLimit
from ...core.runtime.metadata_store import Check
from ..config import ProxyConfig
from ..membership import WRITE
from ..proxy_stores import ProxyStore
from .assignment_store import BalanceNodes, read_reports, read_table, write_table
from .balance_plan import STRAINED_QUEUE_MS, BalanceLimits, imbalance
from .balance_rounds import BalanceRounds
from .believed_reports import BelievedReports
from .deleted_streams import STREAMS_MAX, forget_all_deleted
from .load_meter import ProcessLoad, StreamLoad
from .load_report import LoadReport, hottest, rounded

_LOG = EventLog(__name__)

_RENEWAL_ROUNDS = 4
"""A report that has not changed is published again once in this many rounds."""

_STALE_ROUNDS = 3 * _RENEWAL_ROUNDS

_SWEEP_ROUNDS = 12
"""Once in this many rounds some assignments are examined whose streams may have been deleted."""


def limits_of(config: ProxyConfig) -> BalanceLimits:
    """Return the settings of the decision."""
    return BalanceLimits(
        config.balance_tolerance_percent, config.balance_stay_ms, config.balance_moves_max
    )


class RegionBalancer:
    """The part of one write proxy in the balance of its region, in one metadata store."""

    def __init__(self, store: ProxyStore, config: ProxyConfig) -> None:
        self.is_elected = False
        self.move_count = 0
        """Moves that this process ordered."""
        self.imbalance = 1.0
        """Highest load of the region divided by the mean, when this process was last elected."""
        self._store = store
        self._region = store.membership.own_member.region
        self._nodes = BalanceNodes(store.metadata, self._region)
        self._believed = BelievedReports(_STALE_ROUNDS * config.balance_ms / 1000)
        self._rounds = BalanceRounds(limits_of(config))
        self._round = 0
        self._swept = 0
        """Number of assignments whose streams were examined since the first one."""
        self._published: tuple[LoadReport, int] | None = None
        self._loop = asyncio.get_running_loop()
        self._log_limit = LogLimit()

    async def take_round(self, process: ProcessLoad, streams: Sequence[StreamLoad]) -> None:
        """Publish the load, and balance the region if this proxy is elected. Raises nothing."""
        self._round += 1
        try:
            await self._publish(process, streams)
            await self._balance()
        except ClosedError:
            self.is_elected = False
        except RhumblineError as error:  # the next round tries again
            self.is_elected = False
            dropped = self._log_limit.admit(self._loop.time())
            if dropped is not None:
                _LOG.warning(
                    "load balancing failed",
                    proxy=self._store.membership.own_member.address,
                    error=error,
                    dropped=dropped or None,
                )

    async def _publish(self, process: ProcessLoad, streams: Sequence[StreamLoad]) -> None:
        membership = self._store.membership
        session = membership.session
        if session is None:
            return
        # The balancer of another store moves the other streams, and knows nothing of these moves.
        own = [stream for stream in streams if stream.store is self._store]
        report = LoadReport(
            membership.own_member.id,
            membership.own_member.address,
            self._region,
            rounded(sum(stream.hot.load for stream in own)),
            len(own),
            rounded(sum(stream.records_per_s for stream in own)),
            rounded(sum(stream.bytes_per_s for stream in own)),
            process.cpu_percent,
            process.queue_ms,
            hottest([stream.hot for stream in own]),
        )
        if self._published is not None:
            known, round_ = self._published
            is_recent = self._round - round_ < _RENEWAL_ROUNDS
            if is_recent and _without_times(known) == _without_times(report):
                return
        await self._nodes.publish(report, self._round, session)
        self._published = report, self._round

    # --- the elected balancer -------------------------------------------------------------------

    async def _balance(self) -> None:
        membership = self._store.membership
        election = None
        if membership.session is not None:  # also while it drains: it keeps the election
            election = await self._nodes.elect(membership.own_member.id, membership.session)
        if election is not None and not self.is_elected:
            self._rounds.forget()
            self._believed.forget()
            _LOG.info("balancer elected", region=self._region, proxy=membership.own_member.address)
        self.is_elected = election is not None
        if election is not None:
            await self._assign(election)

    async def _assign(self, election: Check) -> None:
        members = [
            member
            for member in self._store.membership.members(WRITE)
            if member.region == self._region
        ]
        reports = self._believed.update(
            await read_reports(self._store.metadata, self._region),
            {member.id for member in members},
            self._loop.time(),
        )
        if reports:
            self.imbalance = imbalance(report.load for report in reports)
        stored = await read_table(self._store.metadata, self._region)
        if self._round % _SWEEP_ROUNDS == 0 and await self._forget_deleted(
            list(stored.table.addresses())
        ):
            stored = await read_table(self._store.metadata, self._region)
        changed, moves = self._rounds.decide(
            reports,
            stored.table,
            members={member.address for member in members},
            accepting={member.address for member in members if member.is_accepting},
        )
        if changed == stored.table:
            return
        if not await write_table(
            self._store.metadata, self._region, stored, changed, conditions=(election,)
        ):
            return  # another balancer was elected, or an operator pinned a stream
        self._rounds.ordered(moves)
        self.move_count += len(moves)
        if moves:
            _LOG.info(
                "streams assigned",
                region=self._region,
                streams=len(moves),
                first=moves[0].key,
                owner=moves[0].source,
                target=moves[0].target,
                imbalance=round(self.imbalance, 2),
            )

    async def _forget_deleted(self, keys: Sequence[str]) -> int:
        """Remove assignments of deleted streams; each time some others are examined."""
        first = self._swept % max(1, len(keys))
        self._swept = first + STREAMS_MAX
        return await forget_all_deleted(
            self._store.metadata, self._region, keys[first : first + STREAMS_MAX]
        )


def _without_times(report: LoadReport) -> LoadReport:
    """Return a report without what changes although the load is steady."""
    return report._replace(
        hot=tuple(stream._replace(held_ms=0) for stream in report.hot),
        cpu_percent=report.cpu_percent // 10,
        queue_ms=report.queue_ms // STRAINED_QUEUE_MS,
    )
