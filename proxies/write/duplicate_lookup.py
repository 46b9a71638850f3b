"""Results of repeated record sets whose positions must be read from the log (rule PRX-12)."""

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
from .append_item import Appended, AppendItem, OnAppended
from .sequence_index import SequenceIndex


class DuplicateLookup:
    """The lookups of one stream, done one after the other. ``on_bug`` is called on an unexpected
    exception."""

    def __init__(
        self, stream: str, sequence_index: SequenceIndex, on_bug: Callable[[], None]
    ) -> None:
        self._stream = stream
        self._sequence_index = sequence_index
        self._on_bug = on_bug
        self._tasks = Tasks(on_failure=self._fail)
        self._waiting: deque[tuple[AppendItem, DuplicateRecordError, OnAppended]] = deque()

    def add(self, item: AppendItem, duplicate: DuplicateRecordError, on_result: OnAppended) -> None:
        """Look up a set that is in the stream and older than the newest set of its producer.

        ``on_result`` gets its position, or ``duplicate`` if the position is not found.
        """
        self._waiting.append((item, duplicate, on_result))
        if len(self._waiting) == 1:
            self._tasks.spawn(self._look_up(), "look up duplicates")

    async def aclose(self) -> None:
        """Stop; pending sets get a NotOwnerError, so that the next owner looks them up. Safe to
        repeat."""
        await self._tasks.aclose()
        self._fail_all(NotOwnerError(f"stream {self._stream} is no longer served here"))

    async def _look_up(self) -> None:
        while self._waiting:
            item, duplicate, on_result = self._waiting[0]
            result: Appended | RhumblineError = duplicate
            try:
                found = await self._sequence_index.find(item.producer, item.first_sequence)
                if found is not None and found[1] == item.count:
                    result = Appended(found[0], item.count, ())
            except RhumblineError as error:
                result = TooManyRequestsError(f"position of the set not read yet: {error}")
            self._waiting.popleft()
            on_result(result)

    def _fail(self, error: BaseException) -> None:
        self._on_bug()
        self._fail_all(InvariantBrokenError(f"stream {self._stream}: {error!r}"))

    def _fail_all(self, error: RhumblineError) -> None:
        while self._waiting:
            self._waiting.popleft()[2](error)
