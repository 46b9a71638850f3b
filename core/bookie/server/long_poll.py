"""Long polls: requests that wait for a ledger's LAC to rise. A parked poll costs one object.

A poll is woken by a higher LAC, by the fence or deletion of its ledger, or by its deadline, and
then sends one response, which depends on the wire form. A poll may also wait for a ledger that is
not here yet, since a reader can be faster than the first entry of the writer.
"""

from ...protocol.errors import TooManyRequestsError
from ..ledger_records import LedgerRecord
from .timer_wheel import TimerWheel


class Poll:
    """A request that waits until the LAC is above ``previous_lac``, for at most ``timeout_ms``."""

    __slots__ = ("ledger_id", "previous_lac", "timeout_ms")

    def __init__(self, ledger_id: int, previous_lac: int, timeout_ms: int) -> None:
        self.ledger_id = ledger_id
        self.previous_lac = previous_lac
        self.timeout_ms = timeout_ms

    def wake(self, ledger: LedgerRecord | None, *, has_waited: bool) -> None:
        """Sends the response, once. ``ledger`` is None if it is not on this bookie."""
        raise NotImplementedError


class ParkedPoll:
    """A waiting poll, referenced by its ledger, its connection and the timer wheel."""

    __slots__ = ("connection_polls", "ledger", "poll", "registry", "tick")

    def __init__(
        self,
        registry: "LongPollRegistry",
        ledger: LedgerRecord | None,
        poll: Poll,
        connection_polls: "dict[ParkedPoll, None]",
    ) -> None:
        self.registry = registry
        self.ledger = ledger
        self.poll = poll
        self.connection_polls = connection_polls
        self.tick = 0

    def expired(self) -> None:
        """See TimerEntry."""
        self.registry.release(self)
        self.poll.wake(self.ledger, has_waited=True)


class LongPollRegistry:
    """All parked polls of a bookie."""

    def __init__(self, timeout_ms_max: int, connection_polls_max: int) -> None:
        self._wheel = TimerWheel()
        self._timeout_ms_max = timeout_ms_max
        self._connection_polls_max = connection_polls_max
        self._unknown: dict[int, dict[ParkedPoll, None]] = {}

    @property
    def parked_count(self) -> int:
        """Number of waiting polls."""
        return self._wheel.count

    def serve(
        self,
        poll: Poll,
        ledger: LedgerRecord | None,
        connection_polls: dict[ParkedPoll, None],
    ) -> None:
        """Wakes the poll at once if the LAC is higher, otherwise parks it.

        Raises TooManyRequestsError.
        """
        has_news = ledger is not None and ledger.lac > poll.previous_lac
        if has_news or poll.timeout_ms <= 0:
            poll.wake(ledger, has_waited=False)
            return
        if len(connection_polls) >= self._connection_polls_max:
            raise TooManyRequestsError(
                f"{len(connection_polls)} long polls wait on this connection "
                f"(at most {self._connection_polls_max})"
            )
        parked = ParkedPoll(self, ledger, poll, connection_polls)
        if ledger is None:
            self._unknown.setdefault(poll.ledger_id, {})[parked] = None
        elif ledger.polls is None:
            ledger.polls = {parked: None}
        else:
            ledger.polls[parked] = None
        connection_polls[parked] = None
        self._wheel.add(parked, min(poll.timeout_ms, self._timeout_ms_max))

    def release(self, parked: ParkedPoll) -> None:
        """Removes a parked poll without sending a response."""
        self._wheel.remove(parked)
        parked.connection_polls.pop(parked, None)
        if parked.ledger is None:
            waiting = self._unknown[parked.poll.ledger_id]
            del waiting[parked]
            if not waiting:
                del self._unknown[parked.poll.ledger_id]
        elif parked.ledger.polls is not None:
            parked.ledger.polls.pop(parked, None)
            if not parked.ledger.polls:
                parked.ledger.polls = None

    def ledger_created(self, ledger: LedgerRecord) -> None:
        """Moves the polls that waited for this ledger to its new state."""
        waiting = self._unknown.pop(ledger.ledger_id, None)
        if waiting is not None:
            assert ledger.polls is None
            ledger.polls = waiting
            for parked in waiting:
                parked.ledger = ledger

    def lac_advanced(self, ledger: LedgerRecord) -> None:
        """Wakes the polls whose LAC is below that of the ledger."""
        for parked in list(ledger.polls or ()):
            if ledger.lac > parked.poll.previous_lac:
                self.release(parked)
                parked.poll.wake(ledger, has_waited=True)

    def wake_all(self, ledger: LedgerRecord) -> None:
        """Wakes all polls of a fenced or deleted ledger, so that readers read its metadata."""
        for parked in list(ledger.polls or ()):
            self.release(parked)
            parked.poll.wake(ledger, has_waited=True)

    def drop(self, connection_polls: dict[ParkedPoll, None]) -> None:
        """Removes the polls of a closed connection."""
        for parked in list(connection_polls):
            self.release(parked)

    def close(self) -> None:
        """Stops the timer: no poll is woken by its deadline any more."""
        self._wheel.close()
