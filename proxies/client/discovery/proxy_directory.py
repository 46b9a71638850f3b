"""The proxies that a client knows, and the order in which it tries them (rules PRX-50 to PRX-52).

A proxy is named by its general address, as in redirects. The client may connect to it at another
one, the address for the region of the client. The addresses that the client was given are *seeds*:
they serve until the first list, and again when no listed proxy responds.
"""

import asyncio
from collections.abc import Callable, Sequence
from hashlib import blake2b
from random import Random

from ....core.protocol.errors import DeadlineExceededError, RhumblineError, UnavailableError
from ....core.runtime.event_log import EventLog, LogLimit
from ...listeners.listener import Listener
from ...membership import READ, WRITE
from ...registration import ProxyMember
from ...routing import Routing, stream_key
from ...rpc.methods import Method
from ...rpc.proxy_listing import ListedProxy
from .config import DiscoveryConfig
from .outliers import Outliers

_LOG = EventLog(__name__)

_LEARNED_MAX = 64
_HOMES_MAX = 100_000


class ProxyDirectory:
    """The known proxies of one client and event loop."""

    def __init__(
        self,
        seeds: Sequence[str],
        random: Random,
        config: DiscoveryConfig | None = None,
        *,
        region: str = "",
    ) -> None:
        """``region`` is that of the client; "" if it is not known."""
        self.region = region
        self.on_doubt: Callable[[], None] = lambda: None
        """Called when the list may be outdated: a proxy failed, or an unknown one was named."""
        self.listed: tuple[ListedProxy, ...] = ()
        self._seeds = tuple(seeds)
        self._learned: dict[str, None] = {}
        self._salt = random.randbytes(8)
        self._outliers = Outliers(config or DiscoveryConfig(), random)
        self._loop = asyncio.get_running_loop()
        self._log_limit = LogLimit()
        self._connect_to: dict[str, str] = {}
        self._names: dict[str, str] = {}
        self._operator_addresses: dict[str, str] = {}
        self._is_operator = False
        """True if the client was given the address for operators of a listed proxy."""
        self._served_at: dict[tuple[str, bool], str] = {}
        self._writers = Routing(())
        self._readers = Routing(())
        self._homes: dict[tuple[str, str], str] = {}

    # --- what is known --------------------------------------------------------------------------

    def set_seeds(self, seeds: Sequence[str]) -> None:
        """Replace the seeds, unless there are none."""
        if seeds:
            self._seeds = tuple(seeds)

    def set_listed(self, listed: Sequence[ListedProxy], region: str) -> None:
        """Replace the list by one that a proxy of ``region`` gave, unless it is empty."""
        if not listed:
            return
        self._connect_to = {proxy.member.address: proxy.connect_address for proxy in listed}
        self._operator_addresses = {
            proxy.member.address: proxy.member.operator_address
            for proxy in listed
            if proxy.member.operator_address
        }
        self._names = {
            **{address: name for name, address in self._operator_addresses.items()},
            **{proxy.connect_address: proxy.member.address for proxy in listed},
        }
        self._is_operator = not set(self._seeds).isdisjoint(self._operator_addresses.values())
        self._served_at.clear()
        self.region = self.region or self._nearest_region(listed) or region
        self.listed = tuple(listed)
        self._learned.clear()
        self._writers, self._readers = (Routing(self._with_role(role)) for role in (WRITE, READ))
        self._outliers.keep(frozenset((*self._connect_to, *self._seeds)))

    def _nearest_region(self, listed: Sequence[ListedProxy]) -> str:
        """Return the region of the first seed that is listed, since the nearest is given first."""
        regions = {proxy.member.address: proxy.member.region for proxy in listed}
        found = (regions.get(self.name_of(seed), "") for seed in self._seeds)
        return next(filter(None, found), "")

    def _with_role(self, role: str) -> list[ProxyMember]:
        return [proxy.member for proxy in self.listed if role in proxy.roles]

    def learn(self, address: str) -> None:
        """Add a proxy that another one named."""
        if address in self._connect_to or address in self._seeds or address in self._learned:
            return
        self._learned[address] = None
        if len(self._learned) > _LEARNED_MAX:
            del self._learned[next(iter(self._learned))]
        self.on_doubt()

    def set_home(self, key: tuple[str, str], region: str) -> None:
        """Note the home region of a stream (namespace, name); "": it has none (rule PRX-3)."""
        self._homes.pop(key, None)
        self._homes[key] = region
        if len(self._homes) > _HOMES_MAX:
            del self._homes[next(iter(self._homes))]

    def connect_address(self, name: str) -> str:
        """Return the host:port to which the client connects to reach a proxy."""
        return self._connect_to.get(name, name)

    def set_served_at(self, name: str, method: Method, address: str) -> bool:
        """Note where a proxy serves a call that it has refused elsewhere, until the next list.

        Returns False if that is the address at which the client called.
        """
        if address in ("", self.address_for(name, method)):
            return False
        self._served_at[name, Listener.DATA.serves(method)] = address
        if len(self._served_at) > _LEARNED_MAX:
            del self._served_at[next(iter(self._served_at))]
        self.on_doubt()
        return True

    def address_for(self, name: str, method: Method) -> str:
        """Return the host:port to which the client connects for a call to a proxy.

        An administrative call goes to the address for operators, if there is one (rule SEC-44). So
        do the calls that are served at both addresses, if the client was given that of operators.
        """
        is_for_data = Listener.DATA.serves(method)
        prefers_operators = self._is_operator and Listener.OPERATORS.serves(method)
        found = self._served_at.get((name, is_for_data), "")
        if not found and (prefers_operators or not is_for_data):
            found = self._operator_addresses.get(name, "")
        return found or self.connect_address(name)

    def name_of(self, address: str) -> str:
        """Return the name of the proxy that the client reaches at an address, if it is known."""
        return self._names.get(address, address)

    # --- order ----------------------------------------------------------------------------------

    def any_proxies(self) -> tuple[str, ...]:
        """Return all proxies for a call that each of them serves.

        Those of the client's region come first, in an order that differs between clients.
        """

        def rank(proxy: ListedProxy) -> tuple[bool, bool, bytes]:
            member = proxy.member
            digest = blake2b(member.address.encode(), key=self._salt, digest_size=8).digest()
            return not member.is_accepting, member.region != self.region, digest

        return self._usable([p.member.address for p in sorted(self.listed, key=rank)])

    def writers_of(self, namespace: str, stream: str) -> tuple[str, ...]:
        """Return all proxies, the likeliest owner of the stream first.

        A stream whose home was not noted is taken for one of the client's region.
        """
        home = self._homes.get((namespace, stream), self.region)
        return self._usable(self._writers.ordered(stream_key(namespace, stream), home))

    def readers_of(self, namespace: str, stream: str) -> tuple[str, ...]:
        """Return all proxies, beginning with the one that reads the stream for this region."""
        return self._usable(self._readers.ordered(stream_key(namespace, stream), self.region))

    def _usable(self, first: Sequence[str]) -> tuple[str, ...]:
        """Return ``first``, then all others that are known; ejected proxies come last."""
        now = self._loop.time()
        listed = (proxy.member.address for proxy in self.listed)
        seeds = map(self.name_of, self._seeds)
        known = dict.fromkeys((*first, *listed, *seeds, *self._learned))
        return tuple(sorted(known, key=lambda name: self._outliers.is_ejected(name, now)))

    # --- failures -------------------------------------------------------------------------------

    def report(self, name: str, error: RhumblineError | None) -> None:
        """Count the outcome of a call to a proxy; None: it worked.

        Errors other than those below are a response, for example a redirect.
        """
        if type(error) not in (UnavailableError, DeadlineExceededError):
            if self._outliers.succeeded(name):
                _LOG.info("proxy returned", proxy=name)
        else:
            now = self._loop.time()
            pause_ms = self._outliers.failed(name, now)
            if pause_ms:
                dropped = self._log_limit.admit(now, name)
                if dropped is not None:
                    _LOG.warning(
                        "proxy ejected",
                        proxy=name,
                        pause_ms=pause_ms,
                        error=error,
                        dropped=dropped or None,
                    )
            self.on_doubt()

    def statistics(self) -> dict[str, int]:
        """Return counters and sizes for metrics."""
        now = self._loop.time()
        names = self.any_proxies()
        return {
            "proxies": len(self.listed),
            "ejected": sum(self._outliers.is_ejected(name, now) for name in names),
            "ejections": self._outliers.ejected_count,
        }
