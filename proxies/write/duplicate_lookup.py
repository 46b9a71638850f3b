"""Answers for sets that are in a stream already, and whose places have to be read from the log."""

from collections import deque
from collections.abc import Callable

from ...core.protocol.errors import (
    DuplicateRecordError,
    InvariantBrokenError,
    NotOwnerError,
    RhumblineError,
    TooManyRequestsError,
)
from ...core.runtime.tasks import Tasks
from .append_item import Appended, AppendItem, Done
from .sequence_index import SequenceIndex


class DuplicateLookup:
    """Of one stream, one after the other. ``on_bug`` is called if that fails as it never should."""

    def __init__(self, stream: str, places: SequenceIndex, on_bug: Callable[[], None]) -> None:
        self._stream = stream
        self._places = places
        self._on_bug = on_bug
        self._tasks = Tasks(on_failure=self._fail)
        self._waiting: deque[tuple[AppendItem, DuplicateRecordError, Done]] = deque()

    def add(self, item: AppendItem, duplicate: DuplicateRecordError, done: Done) -> None:
        """A set that is there, older than the newest of its producer; ``done`` gets its place, or
        ``duplicate`` if that is not found."""
        self._waiting.append((item, duplicate, done))
        if len(self._waiting) == 1:
            self._tasks.spawn(self._look_up(), "look up sets")

    async def aclose(self) -> None:
        """Stops; what waits is answered that another owner knows. Safe to repeat."""
        await self._tasks.aclose()
        self._answer_all(NotOwnerError(f"stream {self._stream} is not served here any more"))

    async def _look_up(self) -> None:
        while self._waiting:
            item, duplicate, done = self._waiting[0]
            answer: Appended | RhumblineError = duplicate
            try:
                found = await self._places.find(item.producer, item.first_sequence)
                if found is not None and found[1] == item.count:
                    answer = Appended(found[0], item.count, ())
            except RhumblineError as error:
                answer = TooManyRequestsError(f"the place of a set could not be read yet: {error}")
            self._waiting.popleft()
            done(answer)

    def _fail(self, error: BaseException) -> None:
        self._on_bug()
        self._answer_all(InvariantBrokenError(f"stream {self._stream}: {error!r}"))

    def _answer_all(self, error: RhumblineError) -> None:
        while self._waiting:
            self._waiting.popleft()[2](error)
