"""Observations of one proxy by another: responses, silence, witnesses (rule PRX-32). Pure.

Times are running time of the observing process (``LoopLateness.running_s``), in seconds, unless
they are named as those of the event loop's clock.
"""

import math
from collections import deque
from collections.abc import Iterable

_RESPONSES_KEPT = 600
"""Responses whose durations are remembered: about a minute."""


class PeerEvidence:
    """The observations of one address.

    Nobody is accused without ``member_ids``: a proxy that has never responded here may be
    unreachable from here only, or run a version without probes.
    """

    __slots__ = ("_durations_s", "_known_since_s", "_named_at_s", "alive_at_s", "is_gone",
                 "is_stopping", "lateness_s", "reported_at_s", "unanswered",
                 "witnesses")  # fmt: skip

    def __init__(self, now_s: float) -> None:
        self.alive_at_s = now_s
        self.unanswered = 0
        """Probes without a response since the peer was last found alive."""
        self.is_gone = False
        """True if the peer's host refused a connection: no process listens at the address."""
        self.is_stopping = False
        """True if the peer said that it hands its streams over and stops."""
        self.lateness_s = 0.0
        """Lateness of the peer's own event loop, as its last response said."""
        self.witnesses: set[str] = set()
        """Other proxies that got no response from the peer since it was last found alive here."""
        self.reported_at_s: float | None = None
        """Time of the last report of a client."""
        self._durations_s: deque[float] = deque(maxlen=_RESPONSES_KEPT)
        self._known_since_s = math.inf
        """Time of the first response. Earlier probes waited for a connection, or for a process that
        was hung, which says nothing about its usual pace."""
        self._named_at_s: dict[str, float] = {}
        """Id of each registration that the peer named, and the time of the last such response."""

    def on_sent(self) -> None:
        """Count a probe that was sent."""
        self.unanswered += 1

    def on_response(
        self,
        now_s: float,
        sent_s: float,
        received_s: float,
        member_ids: Iterable[str],
        *,
        is_stopping: bool,
        lateness_s: float = 0.0,
    ) -> frozenset[str]:
        """Record the response to a probe that was sent at ``sent_s``, by the event loop's clock.

        Returns the registrations that the peer has ended: it named them in a response that arrived
        before the probe was sent, and does not name them now. They belong to an earlier process at
        the address, or to a session that the peer lost, so it serves no stream under them. Two
        probes on their way at the same time prove no order.
        """
        self.on_alive(now_s)
        if sent_s > self._known_since_s:
            self._durations_s.append(received_s - sent_s)
        elif not self._named_at_s:
            self._known_since_s = received_s
        self.is_stopping = is_stopping
        self.lateness_s = lateness_s
        named = dict.fromkeys(member_ids, received_s)
        ended = [
            id_ for id_, at_s in self._named_at_s.items() if at_s < sent_s and id_ not in named
        ]
        for id_ in ended:
            del self._named_at_s[id_]
        self._named_at_s.update(named)
        return frozenset(ended)

    @property
    def member_ids(self) -> frozenset[str]:
        """The registrations that the peer named in its last responses."""
        return frozenset(self._named_at_s)

    def forget_members(self) -> None:
        """Forget the registrations: the peer must respond again before it can be accused."""
        self._named_at_s.clear()
        self._known_since_s = math.inf

    def on_alive(self, now_s: float) -> None:
        """Record that the peer is alive, also if only a witness got its response."""
        self.alive_at_s = now_s
        self.unanswered = 0
        self.is_gone = False
        self.witnesses.clear()

    def silent_s(self, now_s: float) -> float:
        """Return the time since the peer was last found alive."""
        return now_s - self.alive_at_s

    @property
    def slowest_s(self) -> float:
        """The longest duration of the recent responses; 0 without any."""
        return max(self._durations_s, default=0.0)
