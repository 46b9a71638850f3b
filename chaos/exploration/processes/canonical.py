"""The canonical form of a process: equal forms mean that equal events have equal effects.

The form is computed from the objects that the process consists of: attributes, suspended
coroutines with their local variables, callbacks with what they refer to. Left out is what no
decision depends on: settings, which are equal everywhere, statistics, randomness (it spreads
pauses), digests, and the order in which a tally received its answers.
"""

import asyncio
from collections import deque
from collections.abc import Iterable
from enum import Enum
from functools import partial
from hashlib import blake2b
from itertools import chain
from random import Random
from types import BuiltinMethodType, CellType, CoroutineType, FunctionType, MethodType
from typing import Any

from google.protobuf.message import Message as ProtobufMessage

from ....core.bookie.config import BookieConfig
from ....core.bookie.log.tail_cache import TailCache
from ....core.bookie.server.entry_service import EntryService
from ....core.bookie.server.operation_meter import OperationMeter
from ....core.bookie.storage import Storage
from ....core.ledger.config import LedgerConfig
from ....core.ledger.connection.link_traffic import LinkTraffic
from ....core.ledger.connection.region_round_trips import RegionRoundTrips
from ....core.ledger.write.slow_member_watch import SlowMemberWatch
from ....core.protocol.ledger_metadata import LedgerMetadata
from ....core.protocol.quorum import QuorumView
from ....core.runtime.event_log import EventLog
from ....core.runtime.histogram import Histogram
from ....core.runtime.primitives.rate_limiter import RateLimiter
from ....core.runtime.runtime import Runtime
from ....core.runtime.state_machine import StateMachine
from ....core.wire.entry import EntryDigest
from ....core.wire.frames import FrameSplitter
from ....core.wire.ledger_metadata import encode
from ....placement.region_aware import RegionAwarePlacement
from .step_loop import StepLoop

_PLAIN = frozenset((type(None), bool, int, float, str, bytes))
_OPAQUE: tuple[type, ...] = (
    asyncio.AbstractEventLoop,
    asyncio.Handle,
    BookieConfig,
    BuiltinMethodType,
    EntryDigest,
    EntryService,
    EventLog,
    FrameSplitter,
    Histogram,
    LedgerConfig,
    LinkTraffic,
    OperationMeter,
    Random,
    RateLimiter,
    RegionAwarePlacement,
    RegionRoundTrips,
    Runtime,
    SlowMemberWatch,
    StepLoop,
    Storage,
    TailCache,
    type,
)
_UNORDERED = frozenset(("_answers", "silent"))
"""Attributes whose order has no effect: a verdict depends on the set of answers alone."""


class Opaque:
    """A base of classes whose objects have no state that a decision depends on."""


def digest(*roots: object) -> int:
    """Return 63 bits that stand for the canonical form of these objects."""
    form = _Form()
    for root in roots:
        form.add(root)
    return digest_of(repr(form.parts).encode())


def digest_of(data: bytes) -> int:
    """Return 63 bits of a hash that is equal in every process."""
    return int.from_bytes(blake2b(data, digest_size=8).digest(), "big") >> 1


class _Form:
    """Collects the parts of a canonical form; objects that occur again become back references."""

    def __init__(self) -> None:
        self.parts: list[object] = []
        self._seen: dict[int, int] = {}
        self._kept: list[object] = []  # so that no id is used twice

    def add(self, value: object) -> None:
        """Append the form of a value and of everything that it refers to."""
        kind = type(value)
        if kind in _PLAIN:
            self.parts.append(value)
        elif isinstance(value, Enum):
            self.parts.append(value.name)
        elif isinstance(value, (*_OPAQUE, Opaque)):
            self.parts.append(kind.__name__)
        elif id(value) in self._seen:
            self.parts.append(("again", self._seen[id(value)]))
        else:
            self._seen[id(value)] = len(self._seen)
            self._kept.append(value)
            self._add_new(kind, value)

    def _add_new(self, kind: type, value: object) -> None:
        if isinstance(value, tuple | list | deque):
            self._add_all(kind.__name__, value)
        elif isinstance(value, dict):
            self._add_all("dict", chain.from_iterable(value.items()))
        elif isinstance(value, set | frozenset):
            self._add_all("set", sorted(value, key=repr))
        elif isinstance(value, BaseException):
            self.parts.append((kind.__name__, str(value)))
        elif isinstance(value, LedgerMetadata):
            self.parts.append(encode(value))
        elif isinstance(value, QuorumView):
            self.parts.append(repr((value.quorum, value.regions)))
        elif isinstance(value, StateMachine):
            self.parts.append(value.state.name)
        elif isinstance(value, asyncio.Future):
            self._add_future(value)
        elif isinstance(value, CoroutineType):
            self._add_coroutine(value)
        else:
            self._add_callable_or_object(kind, value)

    def _add_all(self, name: str, values: Iterable[object]) -> None:
        self.parts.append(name)
        for value in list(values):
            self.add(value)
        self.parts.append(")")

    def _add_future(self, value: "asyncio.Future[Any]") -> None:
        if isinstance(value, asyncio.Task) and not value.done():
            self.add(value.get_coro())
        elif not value.done() or value.cancelled():
            self.parts.append("done" if value.done() else "pending")
        else:
            error = value.exception()
            self.add(error if error is not None else value.result())

    def _add_coroutine(self, value: object) -> None:
        """Append the positions and the local variables of a coroutine and of those it awaits."""
        while isinstance(value, CoroutineType):
            frame = value.cr_frame
            if frame is None:
                break
            self.parts.append((value.__qualname__, frame.f_lasti))
            self._add_all("locals", frame.f_locals.values())
            value = value.cr_await

    def _add_callable_or_object(self, kind: type, value: object) -> None:
        if isinstance(value, MethodType):
            self.parts.append(value.__func__.__qualname__)
            self.add(value.__self__)
        elif isinstance(value, FunctionType):
            self.parts.append(value.__qualname__)
            self._add_all("cells", value.__closure__ or ())
        elif isinstance(value, CellType):
            self._add_cell(value)
        elif isinstance(value, partial):
            self._add_all("partial", (value.func, value.args, value.keywords))
        else:
            self._add_object(kind, value)

    def _add_cell(self, cell: CellType) -> None:
        try:
            self.add(cell.cell_contents)
        except ValueError:
            self.parts.append("empty")

    def _add_object(self, kind: type, value: object) -> None:
        self.parts.append(kind.__name__)
        names = _names_of(kind)
        if isinstance(value, ProtobufMessage):
            self.parts.append(value.SerializePartialToString())
            return
        for name in (*names, *getattr(value, "__dict__", ())):
            found = getattr(value, name, None)
            if name in _UNORDERED:
                self.parts.append(sorted(map(repr, found or ())))
            else:
                self.add(found)
        self.parts.append(")")


_NAMES: dict[type, tuple[str, ...]] = {}


def _names_of(kind: type) -> tuple[str, ...]:
    """Return the slots of a class and of its bases."""
    names = _NAMES.get(kind)
    if names is None:
        slots = chain.from_iterable(
            (base.__dict__.get("__slots__", ()),)
            if isinstance(base.__dict__.get("__slots__", ()), str)
            else base.__dict__.get("__slots__", ())
            for base in kind.__mro__
        )
        names = _NAMES[kind] = tuple(
            f"_{kind.__name__.lstrip('_')}{name}" if name.startswith("__") else name
            for name in slots
            if name not in ("__weakref__", "__dict__")
        )
    return names
