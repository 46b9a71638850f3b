"""Finds out that a bookie hangs while long polls wait at it, though their ledgers have no news."""

import asyncio
from typing import Protocol

from ...protocol.errors import RhumblineError
from ...wire import bookkeeper_pb2 as pb
from ...wire import v3
from ..read_policy import ReplicaChoice
from .bookie_connection import BookieConnection
from .link_traffic import LinkTraffic

_INTERVAL_S = 0.25


class WaitingPoll(Protocol):
    """A long poll that may wait at several replicas."""

    def on_silent(self, choice: ReplicaChoice) -> None:
        """The replica seems to hang. Its response may still come."""
        ...


class HangDetector:
    """Watches the link to one bookie while long polls wait at it (rule PLC-21).

    After an interval without a byte from the bookie it gets a request without I/O. If nothing has
    arrived an interval later either, or after twice the last round trip if that is longer, the
    bookie seems to hang. So all streams of a process share one small request, however many they
    are, and a link without polls has no timer.
    """

    __slots__ = (
        "_connection", "_is_silent", "_loop", "_probed_at", "_received", "_round_trip_s", "_timer",
        "_traffic", "_waiting",
    )  # fmt: skip

    def __init__(self, traffic: LinkTraffic) -> None:
        self._loop = asyncio.get_running_loop()
        self._traffic = traffic
        self._connection: BookieConnection | None = None
        self._received = 0
        self._probed_at: float | None = None
        self._round_trip_s = 0.0
        self._is_silent = False
        self._timer: asyncio.TimerHandle | None = None
        self._waiting: dict[tuple[WaitingPoll, ReplicaChoice], None] = {}

    def begin(self, connection: BookieConnection, poll: WaitingPoll, choice: ReplicaChoice) -> None:
        """Watches for ``poll``, which was sent on ``connection``, until ``end``."""
        self._connection = connection
        self._waiting[poll, choice] = None
        self._note_received()
        if self._is_silent:
            self._loop.call_soon(poll.on_silent, choice)
        if self._timer is None:
            self._timer = self._loop.call_later(_INTERVAL_S, self._on_timer)

    def end(self, poll: WaitingPoll, choice: ReplicaChoice) -> None:
        """The poll does not wait at the bookie any more."""
        self._waiting.pop((poll, choice), None)

    def _note_received(self) -> bool:
        """Returns whether anything arrived since the last call."""
        if self._traffic.received_bytes == self._received:
            return False
        self._received = self._traffic.received_bytes
        self._probed_at = None
        self._is_silent = False
        return True

    def _on_timer(self) -> None:
        self._timer = None
        if not self._waiting:
            self._probed_at = None
            return
        if not self._note_received() and not self._is_silent:
            if self._probed_at is None:
                self._probe()
            elif self._loop.time() - self._probed_at >= 2 * self._round_trip_s:
                self._is_silent = True
                for poll, choice in list(self._waiting):
                    poll.on_silent(choice)
        self._timer = self._loop.call_later(_INTERVAL_S, self._on_timer)

    def _probe(self) -> None:
        assert self._connection is not None
        sent_at = self._loop.time()

        def on_response(error: RhumblineError | None, _: pb.Response | None) -> None:
            if error is None:
                self._round_trip_s = self._loop.time() - sent_at

        if self._connection.send_message(v3.bookie_info_request(0), on_response):
            self._probed_at = sent_at
