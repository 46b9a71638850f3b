"""A stream at a write proxy: the state of its ownership, and the items that wait for it."""

import asyncio
from typing import NamedTuple

from ...core.protocol.errors import RhumblineError
from ...core.runtime.state_machine import StateMachine
from ..proxy_stores import ProxyStore
from ..routing import stream_key
from .append_item import AppendItem, OnAppended
from .claims import OwnershipClaim
from .ownership import OWNERSHIP, OwnershipState
from .served_stream import ServedStream


class StreamInService(NamedTuple):
    """A stream that a proxy serves now."""

    namespace: str
    name: str
    store: ProxyStore
    served: ServedStream
    taken_at: float
    """Time of the loop in seconds."""


class OwnedStream:
    """A stream that a proxy takes over, serves or releases, and the items that wait for it."""

    __slots__ = ("changed", "claim", "failure", "home", "is_misplaced", "is_prepared", "name",
                 "namespace", "ownership", "rival_address", "served", "store", "taken_at", "tried",
                 "waiting", "waiting_bytes")  # fmt: skip

    def __init__(self, namespace: str, name: str) -> None:
        self.namespace = namespace
        self.name = name
        self.ownership = StateMachine(
            OWNERSHIP,
            stream_key(namespace, name),
            now=asyncio.get_running_loop().time,
            check=self._check,
        )
        self.changed = asyncio.Event()
        """Set when the takeover has ended."""
        self.failure: RhumblineError | None = None
        """The reason why the takeover failed."""
        self.home: str | None = None
        """The home region; "": it has none; None: it was not read yet."""
        self.is_misplaced = False
        """True if another proxy should have served the stream at the last check."""
        self.is_prepared = False
        """True if the takeover waits for an owner that is to release it, and that no client has
        reported."""
        self.store: ProxyStore | None = None
        """The metadata store of its namespace; None until it is found."""
        self.claim: OwnershipClaim | None = None
        self.rival_address = ""
        """Address of the proxy whose claim the takeover waits for, although clients reported that
        proxy as unreachable."""
        self.served: ServedStream | None = None
        self.taken_at = 0.0
        self.waiting: list[tuple[AppendItem, OnAppended]] = []
        self.waiting_bytes = 0
        self.tried: dict[str, None] = {}

    @property
    def state(self) -> OwnershipState:
        """The state of the ownership."""
        return self.ownership.state

    def _check(self) -> None:
        assert self.state is OwnershipState.TAKING or not self.waiting, "sets wait in vain"
        assert self.state is not OwnershipState.SERVED or self.served is not None, "no writer"

    @property
    def in_service(self) -> StreamInService | None:
        """The stream if it is served now, else None."""
        if self.state is not OwnershipState.SERVED:
            return None
        assert self.store is not None
        assert self.served is not None
        return StreamInService(self.namespace, self.name, self.store, self.served, self.taken_at)

    @property
    def is_elsewhere(self) -> bool:
        """True if another proxy should serve the stream now, as far as this one knows."""
        assert self.store is not None
        assert self.home is not None
        membership = self.store.membership
        if membership.session is None:
            return False  # the member list is outdated
        best = self.store.routing.preferred(stream_key(self.namespace, self.name), self.home)
        return best is not None and best.address != membership.own_member.address
