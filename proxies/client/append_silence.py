"""Decides how long an append call waits for a silent proxy (rule PRX-17). Pure.

The client must soon leave a proxy that is lost. It must not leave one that is only slow: it would
send its sets again, to proxies that do not own the stream, and add to the load that made the proxy
slow. The client cannot distinguish the two cases, but other proxies can.
"""

TICK_S = 0.05
PING_S = 0.125
"""Silence until the proxy is pinged."""
QUESTION_S_MIN = 0.25
"""Silence until another proxy is asked about the silent one, and the interval of such questions."""
QUESTION_S_MAX = 0.5
"""Interval of the questions about a proxy that was found alive. Two more are asked before the
confirmation is too old, because an answer may take a second."""
SILENCE_S_MAX = 1.5
"""Maximum time without a message or a confirmation. The keepalive of gRPC did not detect a stopped
process for a minute."""
CONFIRMED_S_MAX = 10.0
"""Maximum time without a message, whatever other proxies say. It is a third of the default timeout
of an append, so that there is time for another call if only this one is broken."""


class AppendSilence:
    """The silence of one proxy while results are due. Times are in seconds, of one clock."""

    __slots__ = ("_asked_at_s", "_confirmed_at_s", "_interval_s", "heard_at_s")

    def __init__(self) -> None:
        self.heard_at_s = 0.0
        """Time of the last message, or since which results are due."""
        self._confirmed_at_s = 0.0
        self._asked_at_s = 0.0
        self._interval_s = QUESTION_S_MIN

    def on_tick(self, now_s: float, late_s: float) -> None:
        """Note that a tick was late: while the client did not run, it read no message."""
        if late_s > TICK_S:
            self.heard_at_s = min(self.heard_at_s + late_s, now_s)
            self._confirmed_at_s = min(self._confirmed_at_s + late_s, now_s)

    def on_answer(self, now_s: float, *, is_alive: bool) -> None:
        """Note what another proxy says: the silent one is alive, or it cannot tell."""
        if is_alive:
            self._confirmed_at_s = now_s
        self._interval_s = QUESTION_S_MAX if is_alive else QUESTION_S_MIN

    def needs_ping(self, now_s: float) -> bool:
        """Return whether the proxy is to be pinged."""
        return now_s - self.heard_at_s > PING_S

    def take_question(self, now_s: float) -> bool:
        """Return whether another proxy is to be asked now; if so, begin the next interval."""
        if self._asked_at_s <= self.heard_at_s:
            self._interval_s = QUESTION_S_MIN
        if now_s - max(self.heard_at_s, self._asked_at_s) <= self._interval_s:
            return False
        self._asked_at_s = now_s
        return True

    def is_over(self, now_s: float) -> bool:
        """Return whether the call is to be ended."""
        unconfirmed_s = now_s - max(self.heard_at_s, self._confirmed_at_s)
        return unconfirmed_s > SILENCE_S_MAX or now_s - self.heard_at_s > CONFIRMED_S_MAX
