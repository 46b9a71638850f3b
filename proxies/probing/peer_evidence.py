"""What a proxy has observed of another one: responses, silence, witnesses (rule PRX-32). Pure.

All times are running time of the observing process (``LoopLateness.running_s``), in seconds.
"""

from collections import deque

_RESPONSES_KEPT = 64


class PeerEvidence:
    """The observations of one address.

    Nobody is accused without ``member_ids``: a proxy that has never responded here may be
    unreachable from here only, or run a version without probes.
    """

    __slots__ = ("_durations_s", "heard_at_s", "is_gone", "is_stopping", "member_ids",
                 "reported_at_s", "unanswered", "witnesses")  # fmt: skip

    def __init__(self, now_s: float) -> None:
        self.member_ids: frozenset[str] = frozenset()
        """The registrations that the peer named in its last response."""
        self.heard_at_s = now_s
        self.unanswered = 0
        """Probes without a response since the peer was last heard."""
        self.is_gone = False
        """True if the peer's host refused a connection: no process listens at the address."""
        self.is_stopping = False
        """True if the peer said that it hands its streams over and stops."""
        self.witnesses: set[str] = set()
        """Other proxies that got no response from the peer since it was last heard here."""
        self.reported_at_s: float | None = None
        """Time of the last report of a client."""
        self._durations_s: deque[float] = deque(maxlen=_RESPONSES_KEPT)

    def on_sent(self) -> None:
        """Count a probe that was sent."""
        self.unanswered += 1

    def on_response(
        self, now_s: float, took_s: float, member_ids: frozenset[str], *, is_stopping: bool
    ) -> frozenset[str]:
        """Record a response. Returns the registrations that the peer named before and not now.

        Those belong to an earlier process at the address, or to a session that the peer lost: it
        serves no stream under them any more.
        """
        self.on_heard(now_s)
        self._durations_s.append(took_s)
        ended, self.member_ids = self.member_ids - member_ids, member_ids
        self.is_stopping = is_stopping
        return ended

    def on_heard(self, now_s: float) -> None:
        """Record that the peer is alive, also if only a witness has heard it."""
        self.heard_at_s = now_s
        self.unanswered = 0
        self.is_gone = False
        self.witnesses.clear()

    def silent_s(self, now_s: float) -> float:
        """Return the time since the peer was last heard."""
        return now_s - self.heard_at_s

    @property
    def slowest_s(self) -> float:
        """The longest duration of the recent responses; 0 without any."""
        return max(self._durations_s, default=0.0)
