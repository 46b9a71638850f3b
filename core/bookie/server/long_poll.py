"""Long polls: requests that wait for a ledger's LAC to rise. A parked one costs an object, no more.

A poll is woken by a higher LAC, by the fence of its ledger, or by its deadline, and is then
answered once. What it answers is the form's business. A ledger that is not here yet is waited for,
too: its readers may well be faster than the first entry of its writer.
"""

from ...protocol.errors import TooManyRequestsError
from ..ledger_records import LedgerRecord
from .timer_wheel import TimerWheel


class Poll:
    """A request to wait until the LAC is above ``previous_lac``."""

    __slots__ = ("ledger_id", "previous_lac", "timeout_ms")

    def __init__(self, ledger_id: int, previous_lac: int, timeout_ms: int) -> None:
        self.ledger_id = ledger_id
        self.previous_lac = previous_lac
        self.timeout_ms = timeout_ms

    def wake(self, ledger: LedgerRecord | None, *, has_waited: bool) -> None:
        """Answers, once. Without ``ledger`` there is none here."""
        raise NotImplementedError


class ParkedPoll:
    """A poll that waits, known to its ledger, its connection and the wheel."""

    __slots__ = ("desk", "ledger", "of_connection", "poll", "tick")

    def __init__(
        self,
        desk: "PollDesk",
        ledger: LedgerRecord | None,
        poll: Poll,
        of_connection: "dict[ParkedPoll, None]",
    ) -> None:
        self.desk = desk
        self.ledger = ledger
        self.poll = poll
        self.of_connection = of_connection
        self.tick = 0

    def expired(self) -> None:
        """Called by the wheel."""
        self.desk.release(self)
        self.poll.wake(self.ledger, has_waited=True)


class PollDesk:
    """All parked polls of a bookie."""

    def __init__(self, timeout_ms_max: int, connection_polls_max: int) -> None:
        self._wheel = TimerWheel()
        self._timeout_ms_max = timeout_ms_max
        self._connection_polls_max = connection_polls_max
        self._unknown: dict[int, dict[ParkedPoll, None]] = {}

    @property
    def parked_count(self) -> int:
        """How many wait."""
        return self._wheel.count

    def serve(
        self,
        poll: Poll,
        ledger: LedgerRecord | None,
        of_connection: dict[ParkedPoll, None],
    ) -> None:
        """Answers at once if there is news, else parks the poll. Raises TooManyRequestsError."""
        has_news = ledger is not None and ledger.lac > poll.previous_lac
        if has_news or poll.timeout_ms <= 0:
            poll.wake(ledger, has_waited=False)
            return
        if len(of_connection) >= self._connection_polls_max:
            raise TooManyRequestsError("too many long polls wait on this connection")
        parked = ParkedPoll(self, ledger, poll, of_connection)
        if ledger is None:
            self._unknown.setdefault(poll.ledger_id, {})[parked] = None
        elif ledger.polls is None:
            ledger.polls = {parked: None}
        else:
            ledger.polls[parked] = None
        of_connection[parked] = None
        self._wheel.add(parked, min(poll.timeout_ms, self._timeout_ms_max))

    def release(self, parked: ParkedPoll) -> None:
        """It waits no more (and is not answered by this)."""
        self._wheel.remove(parked)
        parked.of_connection.pop(parked, None)
        if parked.ledger is None:
            waiting = self._unknown[parked.poll.ledger_id]
            del waiting[parked]
            if not waiting:
                del self._unknown[parked.poll.ledger_id]
        elif parked.ledger.polls is not None:
            parked.ledger.polls.pop(parked, None)
            if not parked.ledger.polls:
                parked.ledger.polls = None

    def began(self, ledger: LedgerRecord) -> None:
        """The ledger is here from now on: who waited for that waits for its LAC."""
        waiting = self._unknown.pop(ledger.ledger_id, None)
        if waiting is not None:
            assert ledger.polls is None
            ledger.polls = waiting
            for parked in waiting:
                parked.ledger = ledger

    def advanced(self, ledger: LedgerRecord) -> None:
        """The LAC rose: wakes those that waited for that."""
        for parked in list(ledger.polls or ()):
            if ledger.lac > parked.poll.previous_lac:
                self.release(parked)
                parked.poll.wake(ledger, has_waited=True)

    def wake_all(self, ledger: LedgerRecord) -> None:
        """The ledger was fenced or deleted: whoever waits had better look at its metadata."""
        for parked in list(ledger.polls or ()):
            self.release(parked)
            parked.poll.wake(ledger, has_waited=True)

    def drop(self, of_connection: dict[ParkedPoll, None]) -> None:
        """A connection is gone: nobody waits for its polls."""
        for parked in list(of_connection):
            self.release(parked)

    def close(self) -> None:
        """No poll will be woken by its deadline any more."""
        self._wheel.close()
