"""Probes the proxies that this one watches, and removes the registration of those that are lost.

The decisions are those of ``loss_verdict``; here are the calls. Observations come from three
sources (rule PRX-32):

- direct probes, every ``probe_ms``. When one fails because the connection broke, one plain
  connection tells whether a process still listens.
- indirect probes, through other proxies, of a peer that is silent here.
- reports of clients and of takeovers that wait. They cause a probe at once, and nothing else.
"""

import asyncio
import socket
from collections.abc import Callable, Collection
from contextlib import suppress
from random import Random

from ...core.protocol.errors import DeadlineExceededError, RhumblineError, UnavailableError
from ...core.runtime.event_log import EventLog, LogLimit
from ...core.runtime.tasks import Tasks
from ..config import ProxyConfig
from ..membership import READ, WRITE
from ..proxy_stores import ProxyStores
from ..registration import ProxyMember
from ..rpc import methods
from ..rpc import rhumbline_pb2 as pb
from ..rpc.rpc_transport import RpcTransport
from .cpu_shortage import CpuShortage
from .loop_lateness import LoopLateness
from .loss_budget import LossBudget
from .loss_verdict import (
    LATENESS_FACTOR,
    LossVerdict,
    Observer,
    judge_peer,
    tolerated_silence_s,
)
from .peer_evidence import PeerEvidence
from .watchers import watched_by, watchers_of

_LOG = EventLog(__name__)

_TICKS_PER_PROBE = 4
_IN_FLIGHT_MAX = 8
"""Unanswered probes of one peer; more are not sent."""
_HELPERS_MAX = 2
_OBSERVATION_S = 2.0
"""Maximum time of an indirect probe."""
_CPU_SAMPLE_S = 0.5
_LATENESS_MS_MAX = 60_000
"""Maximum lateness of its own that a peer is believed."""
_REPORT_PAUSE_S = 0.02
"""Minimum time between two probes that reports cause."""
_CHECK_S = 1.0
"""Maximum time to find out whether a reported proxy is alive."""
_CHECKS_MAX = 1_000
_DEPARTED_MAX = 1_000


class _Peer:
    """A watched proxy and the probes of it."""

    __slots__ = ("address", "requested_at_s", "changed", "evidence", "in_flight", "is_removing",
                 "is_withheld", "probed_at_s")  # fmt: skip

    def __init__(self, address: str, now_s: float) -> None:
        self.address = address
        self.evidence = PeerEvidence(now_s)
        self.in_flight = 0
        self.probed_at_s = 0.0
        self.requested_at_s = 0.0
        self.is_removing = False
        self.is_withheld = False
        self.changed = asyncio.Event()
        """Set, and replaced, when the peer was found alive or removed."""

    def notify(self) -> None:
        self.changed.set()
        self.changed = asyncio.Event()


class Prober:
    """The probes of one proxy process, from ``start`` to ``aclose``."""

    def __init__(
        self,
        stores: ProxyStores,
        calls: RpcTransport,
        config: ProxyConfig,
        random: Random,
        cpu_wait_seconds: Callable[[], float] = lambda: 0.0,
    ) -> None:
        """``calls`` is for probes only; the prober closes it.

        ``cpu_wait_seconds`` returns the time for which the process has waited for a CPU.
        """
        self.is_stopping = False
        """Set by the owner when the proxy begins to hand its streams over."""
        self._stores = stores
        self._calls = calls
        self._random = random
        self._own = stores.first.membership.own_member
        self._interval_s = config.probe_ms / 1000
        self._silence_s = config.silence_ms_max / 1000
        self._timeout_s = _IN_FLIGHT_MAX * self._interval_s
        self._peers_max = config.probe_peers_max
        self._loop = asyncio.get_running_loop()
        self._lateness = LoopLateness(self._loop.time())
        self._cpu_wait_seconds = cpu_wait_seconds
        self._shortage = CpuShortage(self._loop.time(), cpu_wait_seconds())
        self._budget = LossBudget(self._loop.time())
        self._members = self._list_members()
        self._departed: dict[str, None] = {}
        """Addresses that were listed once; one that never was may be another name of a proxy."""
        self._peers: dict[str, _Peer] = {}
        self._checks: dict[str, asyncio.Task[None]] = {}
        self._check_count = 0
        self._is_changed = True
        self._tasks = Tasks()
        self._log_limit = LogLimit()
        self._counts = {
            "probes": 0,
            "reports": 0,
            "suspected": 0,
            "withheld": 0,
            "lost_gone": 0,
            "lost_silent": 0,
            "ended": 0,
        }
        for store in stores.all:
            store.membership.on_members.append(self._members_changed)
            store.membership.on_reported.append(self.report)

    def start(self) -> None:
        """Begin to probe, unless the settings disable it."""
        if self._interval_s:
            self._tasks.spawn(self._run(), "probing of proxies")

    async def aclose(self) -> None:
        """Stop probing. Safe to repeat."""
        await self._tasks.aclose()
        await self._calls.aclose()

    def statistics(self) -> dict[str, float]:
        """Return counters and sizes for metrics."""
        return {
            "watched": len(self._peers),
            "lateness_ms": round(self._lateness.worst_s * 1000),
            "cpu_wait": round(self._shortage.share, 3),
            **self._counts,
        }

    # --- members --------------------------------------------------------------------------------

    def _members_changed(self) -> None:
        before, self._members = self._members, self._list_members()
        for address in before.keys() - self._members.keys():
            self._departed[address] = None
            if len(self._departed) > _DEPARTED_MAX:
                del self._departed[next(iter(self._departed))]
        self._is_changed = True

    def _list_members(self) -> dict[str, ProxyMember]:
        """Return the other registered proxies by address, in any store and role."""
        found: dict[str, ProxyMember] = {}
        for store in self._stores.all:
            for role in (WRITE, READ):
                for member in store.membership.members(role):
                    found.setdefault(member.address, member)
        found.pop(self._own.address, None)
        return found

    def _near_members(self) -> list[ProxyMember]:
        """Return the other proxies of this region: those farther away would be late witnesses."""
        return [m for m in self._members.values() if m.region == self._own.region]

    def _connect_address(self, address: str) -> str:
        """Return the host:port at which this proxy's region reaches the proxy of that name."""
        member = self._members.get(address)
        return address if member is None else member.address_for(self._own.region)

    def _update_peers(self) -> None:
        self._is_changed = False
        near = [member.address for member in self._near_members()]
        watched = watched_by(self._own.address, near, self._peers_max)
        now_s = self._lateness.running_s
        for address in [address for address in self._peers if address not in watched]:
            self._peers.pop(address).notify()
        for address in watched:
            if address not in self._peers:
                self._peers[address] = _Peer(address, now_s)

    # --- probing --------------------------------------------------------------------------------

    async def _run(self) -> None:
        tick_s = self._interval_s / _TICKS_PER_PROBE
        sampled_s = self._loop.time()
        while True:
            await asyncio.sleep(tick_s)
            self._lateness.tick(self._loop.time(), tick_s)
            if self._loop.time() - sampled_s >= _CPU_SAMPLE_S:
                sampled_s = self._loop.time()
                self._shortage.sample(sampled_s, self._cpu_wait_seconds())
            if self._is_changed:
                self._update_peers()
            now_s = self._lateness.running_s
            for peer in list(self._peers.values()):
                if now_s - peer.probed_at_s >= self._interval_s * 0.99:
                    self._send(peer)
                self._decide(peer)

    def _send(self, peer: _Peer) -> None:
        if peer.in_flight < _IN_FLIGHT_MAX:
            peer.probed_at_s = self._lateness.running_s
            peer.in_flight += 1
            peer.evidence.on_sent()
            self._counts["probes"] += 1
            self._tasks.spawn(self._probe(peer), "probe")

    async def _probe(self, peer: _Peer) -> None:
        sent_s = self._loop.time()
        try:
            response = await self._call(peer.address, pb.ProbeProxyRequest(), self._timeout_s)
        except DeadlineExceededError:
            return
        except UnavailableError:
            await self._verify_gone(peer)
            return
        except RhumblineError:  # it is alive, and of a version without probes
            peer.evidence.on_alive(self._lateness.running_s)
            peer.notify()
            return
        finally:
            peer.in_flight -= 1
        ended = peer.evidence.on_response(
            self._lateness.running_s,
            sent_s,
            self._loop.time(),
            response.member_ids,
            is_stopping=response.is_stopping,
            lateness_s=min(max(0, response.lateness_ms), _LATENESS_MS_MAX) / 1000,
        )
        peer.is_withheld = False
        peer.notify()
        if ended and not response.is_stopping:
            self._counts["ended"] += 1
            await self._remove(peer.address, ended)

    async def _call(
        self, address: str, request: pb.ProbeProxyRequest, timeout_s: float
    ) -> pb.ProbeProxyResponse:
        response = await self._calls.call_unary(
            self._connect_address(address), methods.PROBE_PROXY, request, timeout_s
        )
        assert isinstance(response, pb.ProbeProxyResponse)
        return response

    async def _verify_gone(self, peer: _Peer) -> None:
        """Note whether the peer's host refuses connections, after a connection broke."""
        host, _, port = self._connect_address(peer.address).rpartition(":")
        try:
            async with asyncio.timeout(self._silence_s):
                is_refused = await self._is_refused(host.strip("[]"), int(port))
        except (OSError, TimeoutError):
            return  # no evidence: the network may be the cause
        if is_refused:
            peer.evidence.is_gone = True
            self._decide(peer)

    async def _is_refused(self, host: str, port: int) -> bool:
        """Return whether each address of a host refuses connections. Raises OSError."""
        found = await self._loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        for address in dict.fromkeys(str(address[0]) for *_, address in found):
            try:
                transport, _ = await self._loop.create_connection(asyncio.Protocol, address, port)
            except ConnectionRefusedError:
                continue
            transport.abort()
            return False
        return True

    # --- deciding -------------------------------------------------------------------------------

    @property
    def _expected_delay_s(self) -> float:
        """Time for which this process may stall, from its past delays and its waiting for a CPU."""
        return max(self._lateness.expected_s, self._shortage.expected_delay_s)

    def _observer(self) -> Observer:
        now_s = self._lateness.running_s
        observer = Observer(
            now_s=now_s,
            silence_s=self._silence_s,
            lateness_s=self._expected_delay_s,
            has_session=any(store.membership.session is not None for store in self._stores.all),
            peers=len(self._peers),
            silent_peers=0,
            gone_peers=sum(peer.evidence.is_gone for peer in self._peers.values()),
            has_helpers=len(self._near_members()) > 1,
        )
        evidence = [peer.evidence for peer in self._peers.values()]
        silent = sum(
            one.silent_s(now_s) >= tolerated_silence_s(one, observer) / 2 for one in evidence
        )
        return observer._replace(silent_peers=silent)

    def _decide(self, peer: _Peer) -> None:
        evidence = peer.evidence
        if peer.is_removing or self._peers.get(peer.address) is not peer:
            return
        if not evidence.is_gone and evidence.silent_s(self._lateness.running_s) < (
            self._silence_s / 2
        ):
            return  # the usual case, without the work below
        verdict = judge_peer(evidence, self._observer())
        if verdict is LossVerdict.ALIVE:
            return
        if verdict is LossVerdict.LOST and not evidence.is_gone:
            verdict = (
                LossVerdict.LOST if self._budget.take(self._loop.time()) else LossVerdict.WITHHELD
            )
        if verdict is LossVerdict.LOST:
            self._declare_lost(peer)
            return
        if verdict is LossVerdict.WITHHELD and not peer.is_withheld:
            peer.is_withheld = True
            self._counts["withheld"] += 1
        self._request_observations(peer)

    def _declare_lost(self, peer: _Peer) -> None:
        evidence = peer.evidence
        silent_s = evidence.silent_s(self._lateness.running_s)
        reason = "gone" if evidence.is_gone else "silent"
        self._counts[f"lost_{reason}"] += 1
        peer.is_removing = True
        self._tasks.spawn(self._remove_peer(peer, evidence.member_ids), "remove a lost proxy")
        _LOG.warning(
            "proxy declared lost",
            proxy=self._own.address,
            lost=peer.address,
            reason=reason,
            silent_ms=round(silent_s * 1000),
            witnesses=tuple(sorted(evidence.witnesses)),
        )

    async def _remove_peer(self, peer: _Peer, member_ids: frozenset[str]) -> None:
        """Remove a lost proxy; repeat it until it is done, or the proxy is found alive."""
        alive_at_s = peer.evidence.alive_at_s
        while self._peers.get(peer.address) is peer and peer.evidence.alive_at_s == alive_at_s:
            if await self._remove(peer.address, member_ids):
                peer.evidence.forget_members()
                break
            await asyncio.sleep(self._interval_s)
        peer.is_removing = False
        peer.notify()

    async def _remove(self, address: str, member_ids: Collection[str]) -> bool:
        """Remove registrations in each store. Returns False if a store could not be reached."""
        is_done = True
        for store in self._stores.all:
            try:
                await store.membership.remove(address, member_ids)
            except RhumblineError as error:
                is_done = False
                dropped = self._log_limit.admit(self._loop.time())
                if dropped is not None:
                    _LOG.warning(
                        "proxy removal failed",
                        proxy=self._own.address,
                        lost=address,
                        error=error,
                        dropped=dropped or None,
                    )
        return is_done

    # --- other observers ------------------------------------------------------------------------

    def _request_observations(self, peer: _Peer) -> None:
        now_s = self._lateness.running_s
        if now_s - peer.requested_at_s < self._interval_s:
            return
        if peer.requested_at_s <= peer.evidence.alive_at_s:
            self._counts["suspected"] += 1
        peer.requested_at_s = now_s
        helpers = [m for m in self._near_members() if m.address != peer.address]
        self._random.shuffle(helpers)
        for member in helpers[:_HELPERS_MAX]:
            self._tasks.spawn(self._request_observation(member.address, peer), "indirect probe")

    async def _request_observation(self, helper: str, peer: _Peer) -> None:
        alive_at_s = peer.evidence.alive_at_s
        request = pb.ProbeProxyRequest(address=peer.address, is_indirect=True)
        try:
            response = await self._call(helper, request, _OBSERVATION_S)
        except RhumblineError:
            return  # a helper that does not respond is no witness
        if peer.evidence.alive_at_s != alive_at_s:
            return
        if response.health == pb.PROXY_HEALTH_ALIVE:
            peer.evidence.on_alive(self._lateness.running_s)
            peer.notify()
        elif response.health == pb.PROXY_HEALTH_SILENT:
            peer.evidence.witnesses.add(helper)
            self._decide(peer)

    async def respond(self, request: pb.ProbeProxyRequest) -> pb.ProbeProxyResponse:
        """Serve a probe: of this proxy, on behalf of another one, or because of a report."""
        if not request.address or request.address == self._own.address:
            memberships = [store.membership for store in self._stores.all]
            return pb.ProbeProxyResponse(
                health=pb.PROXY_HEALTH_ALIVE,
                member_ids=[m.own_member.id for m in memberships if m.session is not None],
                is_stopping=self.is_stopping,
                lateness_ms=round(self._expected_delay_s * 1000),
            )
        if request.is_indirect:
            health = await self._observe(request.address)
        elif self._check_count >= _CHECKS_MAX:
            health = pb.PROXY_HEALTH_UNKNOWN
        else:
            self._check_count += 1
            try:
                health = await self._check(request.address, is_forwarded=request.is_forwarded)
            finally:
                self._check_count -= 1
        return pb.ProbeProxyResponse(health=health)

    async def _observe(self, address: str) -> pb.ProxyHealth:
        """Probe an address once for another proxy, and wait longer if this process is late."""
        if self._tasks.is_closed:  # nothing would close the connection
            return pb.PROXY_HEALTH_UNKNOWN
        wait_s = self._silence_s / 3
        timeout_s = min(wait_s + LATENESS_FACTOR * self._expected_delay_s, _OBSERVATION_S / 2)
        try:
            await self._call(address, pb.ProbeProxyRequest(), timeout_s)
        except (UnavailableError, DeadlineExceededError):
            is_late = self._lateness.worst_s > wait_s / 2
            return pb.PROXY_HEALTH_UNKNOWN if is_late else pb.PROXY_HEALTH_SILENT
        except RhumblineError:
            pass
        return pb.PROXY_HEALTH_ALIVE

    # --- reports --------------------------------------------------------------------------------

    def report(self, address: str) -> None:
        """Probe a proxy at once, because a client could not reach it."""
        if address not in self._checks and len(self._checks) < _CHECKS_MAX and self._interval_s:
            self._checks[address] = self._tasks.spawn(self._run_check(address), "check of a proxy")

    async def _run_check(self, address: str) -> None:
        try:
            if await self._check(address, is_forwarded=False) == pb.PROXY_HEALTH_ALIVE:
                for store in self._stores.all:
                    store.membership.found_alive(address)
        finally:
            del self._checks[address]

    async def _check(self, address: str, *, is_forwarded: bool) -> pb.ProxyHealth:
        """Find out whether a reported proxy is alive or lost, within ``_CHECK_S``."""
        self._counts["reports"] += 1
        if self._is_changed:
            self._update_peers()
        members = self._members
        if address not in members:
            is_lost = address in self._departed
            return pb.PROXY_HEALTH_LOST if is_lost else pb.PROXY_HEALTH_UNKNOWN
        if self._tasks.is_closed:
            return pb.PROXY_HEALTH_UNKNOWN
        peer = self._peers.get(address)
        if peer is None:
            if is_forwarded:
                return pb.PROXY_HEALTH_UNKNOWN
            return await self._forward(address, members)
        began_s = peer.evidence.reported_at_s = self._lateness.running_s
        if began_s - peer.probed_at_s >= _REPORT_PAUSE_S:
            self._send(peer)
        with suppress(TimeoutError):
            async with asyncio.timeout(_CHECK_S):
                while True:
                    await peer.changed.wait()
                    if address not in self._members:
                        return pb.PROXY_HEALTH_LOST
                    if peer.evidence.alive_at_s >= began_s:
                        return pb.PROXY_HEALTH_ALIVE
        return pb.PROXY_HEALTH_UNKNOWN

    async def _forward(self, address: str, members: dict[str, ProxyMember]) -> pb.ProxyHealth:
        """Pass a report on to a proxy that watches the address."""
        region = members[address].region
        near = [member.address for member in members.values() if member.region == region]
        if region == self._own.region:
            near.append(self._own.address)
        request = pb.ProbeProxyRequest(address=address, is_forwarded=True)
        for watcher in watchers_of(address, near, self._peers_max):
            if self._tasks.is_closed:  # this proxy has stopped during an earlier call
                break
            if watcher != self._own.address:
                with suppress(RhumblineError):
                    return (await self._call(watcher, request, _CHECK_S)).health
        return pb.PROXY_HEALTH_UNKNOWN
