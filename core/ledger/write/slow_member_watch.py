"""Asks for another ensemble if a bookie of a writer stays slow (rule LED-25)."""

from collections.abc import Mapping
from functools import partial

from ...protocol.bookie_id import BookieId
from ...wire.ledger_metadata import encode
from ..slow_departure import SlowDeparture
from .ensemble_changer import EnsembleChanger
from .slow_members import SlowMembers, SlowRule
from .writer_log import log_slow_bookie
from .writer_state import WriterState

_CHECK_INTERVAL_S = 1.0
_ROOM_SHARE = 2  # only so many parts of the fragments and metadata bytes are used for this


class SlowMemberWatch:
    """Compares the members of one writer while it adds entries. It has no timer of its own."""

    def __init__(self, state: WriterState, changer: EnsembleChanger) -> None:
        config = state.context.config
        self._state = state
        self._changer = changer
        self._is_on = config.slow_after_ms > 0
        self._members = SlowMembers(
            SlowRule(
                factor=config.slow_factor,
                excess_ms_min=config.slow_excess_ms_min,
                after_ms=config.slow_after_ms,
                hold_ms=config.slow_hold_ms,
            )
        )

    def check(self, now: float) -> float:
        """Asks for a change if it is due, and returns the loop time of the next check."""
        if not self._is_on:
            return float("inf")
        waits_ms = self._waits_ms(now)
        bookie = self._members.observe(waits_ms, now * 1000)
        context = self._state.context
        if bookie is not None and self._has_room() and context.pool.may_leave(now):
            replica = next(r for r in self._state.replicas if r.bookie == bookie)
            self._changer.leave(replica, partial(self._on_left, waits_ms))
        return now + _CHECK_INTERVAL_S

    def _waits_ms(self, now: float) -> dict[BookieId, float | None]:
        """Return how long each member takes beyond the round trip to its region."""
        state = self._state
        pool = state.context.pool
        recent: dict[BookieId, float | None] = {}
        for replica in state.replicas:
            latency = pool.link(replica.bookie).traffic.latency
            place = replica.region or replica.bookie
            pool.round_trips.add(place, latency.take_lowest_ms(), now)
            is_failed = bool(state.failed_mask & replica.bit)
            recent[replica.bookie] = None if is_failed else latency.recent_ms(now)
        for replica in state.replicas:
            took_ms = recent[replica.bookie]
            if took_ms is not None:
                near_ms = pool.round_trips.shortest_ms(replica.region or replica.bookie)
                recent[replica.bookie] = max(0.0, took_ms - near_ms)
        return recent

    def _has_room(self) -> bool:
        """Return whether the metadata has room: this change must never end the ledger."""
        metadata, config = self._state.metadata, self._state.context.config
        return (
            len(metadata.fragments) * _ROOM_SHARE < config.fragments_max
            and len(encode(metadata)) * _ROOM_SHARE < config.metadata_bytes_max
        )

    def _on_left(self, waits_ms: Mapping[BookieId, float | None], departure: SlowDeparture) -> None:
        log_slow_bookie(departure.ledger_id, departure.bookie, waits_ms)
        self._members.on_left(departure.bookie, departure.at * 1000)
        self._state.context.pool.on_slow(departure.bookie)
        self._state.context.on_slow_departure(departure)
