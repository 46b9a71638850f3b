"""Takes a stream over: claims it and opens the writer that fences the previous one (rule PRX-4)."""

import asyncio
from collections.abc import Callable
from random import Random

from ...core.log.namespace import Namespace
from ...core.protocol.errors import (
    NamespaceMovingError,
    NotOwnerError,
    RhumblineError,
    StreamLostError,
    UnavailableError,
)
from ...core.runtime.primitives.backoff import Backoff
from ...core.runtime.primitives.wakeup import Wakeup
from ..config import ProxyConfig
from ..homes.region_rates import RegionRates
from ..proxy_stores import ProxyStore, ProxyStores
from ..routing import stream_key
from .claims import OwnershipClaim
from .owned_stream import OwnedStream
from .rate_limits import RecordLimits
from .sequence_index import SequenceIndex
from .served_stream import ServedStream

_CLAIM_POLL_MS = 100
"""Interval between reads of a claim that should disappear, in addition to the watch on it."""
_RETRY_MS_MIN = 20
_RETRY_MS_MAX = 500
"""Pauses between attempts to open the writer of a stream, until ``acquire_ms_max``."""


class StreamTakeover:
    """The takeovers of one write proxy, which decides when to take a stream and bounds the time."""

    def __init__(
        self,
        namespaces: Callable[[str], Namespace],
        stores: ProxyStores,
        config: ProxyConfig,
        random: Random,
    ) -> None:
        """``random`` is for the jitter of pauses."""
        self._namespaces = namespaces
        self._stores = stores
        self._config = config
        self._random = random
        self._address = stores.first.membership.own_member.address

    async def take(self, stream: OwnedStream, on_over: Callable[[], None]) -> None:
        """Claim the stream and open its writer. ``on_over`` is called when the writer is lost.

        Raises NotOwnerError if another proxy should serve the stream.
        """
        store = stream.store = await self._stores.of(stream.namespace)
        stream.home = await store.claims.home(stream.namespace, stream.name)
        claim = stream.claim = await self._acquire_claim(stream, store, stream.home)
        namespace = self._namespaces(stream.namespace)
        backoff = Backoff(self._random, _RETRY_MS_MIN, _RETRY_MS_MAX)
        while True:
            try:
                writer = await namespace.open_writer(stream.name)
                break
            except StreamLostError as error:
                raise NotOwnerError(
                    f"another proxy took stream {stream.name} over: {error}"
                ) from error
            except RhumblineError as error:
                if not error.retryable or isinstance(error, NamespaceMovingError):
                    raise  # the claim may have to be in another store
            await backoff.pause()
        if store.membership.session is None or store.membership.own_member.id != claim.member_id:
            await writer.abort()
            raise NotOwnerError(f"the claim on stream {stream.name} was lost")
        limits = RecordLimits(self._config.stream_records_per_s, self._config.stream_bytes_per_s)
        stream.served = ServedStream(
            writer,
            SequenceIndex(namespace, stream.name),
            limits,
            on_over,
            RegionRates(self._config.home_window_ms, asyncio.get_running_loop().time()),
        )

    async def _acquire_claim(
        self, stream: OwnedStream, store: ProxyStore, home: str
    ) -> OwnershipClaim:
        """Return this proxy's claim. Waits for the end of a claim whose owner the clients cannot
        reach, until a probe finds that owner alive."""
        key = stream_key(stream.namespace, stream.name)
        changed = Wakeup()
        claims, membership = store.claims, store.membership
        watch = claims.watch(stream.namespace, stream.name, changed.wake)
        membership.on_members.append(changed.wake)
        alive: set[str] = set()  # found alive since the wait began
        membership.on_alive.append(alive.add)
        try:
            while True:
                own_member, session = membership.own_member, membership.session
                if session is None:
                    raise UnavailableError("this proxy has no session in the metadata store")
                found = await claims.owner(stream.namespace, stream.name)
                if found is not None and not await membership.is_registered(found.member_id):
                    await claims.release(stream.namespace, stream.name, found)  # rule PRX-34
                    found = None
                if found is None:
                    self._check_preferred(stream, store, key, home)
                    found = await claims.acquire(stream.namespace, stream.name, own_member, session)
                if found.member_id == own_member.id:
                    stream.rival_address = ""
                    return found
                if found.address not in stream.tried and found.address != own_member.address:
                    raise NotOwnerError(
                        f"stream {stream.name} is owned by {found.address}", found.address
                    )
                stream.rival_address = found.address if found.address != own_member.address else ""
                if stream.rival_address and not stream.is_prepared:
                    if stream.rival_address in alive:
                        raise NotOwnerError(
                            f"stream {stream.name} is owned by {found.address}, which is alive",
                            found.address,
                        )
                    membership.report(stream.rival_address)
                await changed.wait(_CLAIM_POLL_MS / 1000)
        finally:
            watch.close()
            membership.on_members.remove(changed.wake)
            membership.on_alive.remove(alive.add)

    def _check_preferred(self, stream: OwnedStream, store: ProxyStore, key: str, home: str) -> None:
        without = [address for address in stream.tried if address != self._address]
        best = store.routing.preferred(key, home, without=without)
        if best is not None and best.address != self._address:
            raise NotOwnerError(
                f"stream {stream.name} should be served by {best.address}", best.address
            )
