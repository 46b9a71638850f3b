"""The clients of a scope: a writer, recoveries, a reader, and the repair of a closed ledger."""

import asyncio
from collections.abc import Coroutine, Mapping
from typing import Any

from ....core.ledger.read.ledger_reader import LedgerReader
from ....core.ledger.recovery.ledger_recovery import recover_ledger
from ....core.ledger.write.ledger_writer import LedgerWriter
from ....core.protocol.bookie_id import BookieId, Region
from ....core.protocol.errors import InvariantBrokenError, RhumblineError
from ....core.protocol.ledger_metadata import LedgerMetadata
from ....core.runtime.metadata_store import Version
from .client_process import SteppedClient
from .process import Facts

ADD = "adds an entry"
CHANGE_R = "changes R to "
CLOSE = "closes the ledger"
SEND_LAC = "sends its LAC"


def payload_of(entry_id: int) -> bytes:
    """Return the payload that the writer sends in an entry."""
    return b"entry %d" % entry_id


class SteppedWriter(SteppedClient):
    """The writer of the ledger. It adds ``entries`` entries at any times."""

    def __init__(
        self,
        name: str,
        regions: Mapping[BookieId, Region],
        metadata: LedgerMetadata,
        *,
        entries: int,
        other_r: int = 0,
        lac_sends: int = 0,
        closes: bool = False,
        faults: tuple[str, ...] = (),
        time_steps: int = 0,
    ) -> None:
        self._metadata = metadata
        self._left = entries
        self._other_r = other_r
        self._lac_sends = lac_sends
        self._closes = closes
        self._acked: list[int] = []
        self._failed: list[int] = []
        self._closing: asyncio.Task[LedgerMetadata] | None = None
        super().__init__(name, regions, faults=faults, time_steps=time_steps)

    def begin(self) -> None:
        """See SteppedClient."""
        bookies = self._metadata.last_fragment.bookies
        regions = [self.regions[bookie] for bookie in bookies]
        self.writer = LedgerWriter(self.context, self._metadata, Version("0"), regions)

    def actions(self) -> tuple[str, ...]:
        """See ExploredProcess."""
        if self.writer.is_failed:
            return ()
        found: tuple[str, ...] = (ADD,) if self._left else ()
        if self._other_r:
            found += (f"{CHANGE_R}{self._other_r}",)
        if self._lac_sends and self.writer.last_add_confirmed >= 0:
            found += (SEND_LAC,)
        if self._closes:
            found += (CLOSE,)
        return found

    def on_action(self, action: str) -> None:
        """See ExploredProcess."""
        if action == ADD:
            self._left -= 1
            self.writer.add(payload_of(self.writer.last_add_pushed + 1), self._on_done)
        elif action.startswith(CHANGE_R):
            wanted, self._other_r = self._other_r, 0
            self.writer.set_min_regions(wanted)
        elif action == SEND_LAC:
            self._lac_sends -= 1
            self.writer.send_explicit_lac(lambda _: None)
        elif action == CLOSE:
            self._closes = False
            self._closing = self.loop.create_task(self.writer.close())
            self._closing.add_done_callback(_retrieve)
        else:
            super().on_action(action)

    def _on_done(
        self, entry_id: int, error: RhumblineError | None, regions: tuple[str, ...]
    ) -> None:
        (self._acked if error is None else self._failed).append(entry_id)

    @property
    def is_done(self) -> bool:
        """See ExploredProcess."""
        is_closing = self._closing is not None and not self._closing.done()
        return self.writer.is_failed and not self.writer.changer.is_running and not is_closing

    @property
    def unfinished(self) -> str:
        """See ExploredProcess."""
        left = self.writer.last_add_pushed + 1 - len(self._acked) - len(self._failed)
        return f"V3: {left} entries wait for nothing" if left else ""

    def roots(self) -> tuple[object, ...]:
        """See ExploredProcess."""
        if self.is_done:
            return ()
        left = (self._left, self._other_r, self._lac_sends, self._closes)
        return (*left, self._acked, self._failed, self._closing, self.writer, *self.client_roots())

    def facts(self) -> Facts:
        """See ExploredProcess."""
        facts = super().facts()
        facts.acked = tuple(self._acked)
        if self._acked != sorted(set(self._acked)):
            facts.violations += (f"L7: acknowledged in the order {self._acked}",)
        closing = self._closing
        if closing is not None:
            facts.violations += _crash_of(closing)
        if closing is not None and closing.done() and not closing.exception():
            closed = closing.result()
            facts.ends = ((closed.last_entry_id, closed.length),)
        return facts


class SteppedTask(SteppedClient):
    """A client that runs one coroutine to its end."""

    def begin(self) -> None:
        """See SteppedClient."""
        self.task = self.loop.create_task(self.main())
        self.task.add_done_callback(_retrieve)

    def main(self) -> Coroutine[Any, Any, None]:
        """Return the work of this process."""
        raise NotImplementedError

    @property
    def is_done(self) -> bool:
        """See ExploredProcess."""
        return self.task.done()

    @property
    def unfinished(self) -> str:
        """See ExploredProcess."""
        return "" if self.task.done() else f"V1: {self.name} waits for nothing"

    def roots(self) -> tuple[object, ...]:
        """See ExploredProcess."""
        return () if self.task.done() else (self.task, *self.client_roots())

    def found_violations(self) -> tuple[str, ...]:
        """See ExploredProcess."""
        found = super().found_violations()
        return found + _crash_of(self.task)

    def facts(self) -> Facts:
        """See ExploredProcess."""
        facts = super().facts()
        error = self.task.exception() if self.task.done() else None
        facts.failed = "" if error is None else f"{type(error).__name__}: {error}"
        return facts


class SteppedRecovery(SteppedTask):
    """Recovers the ledger once, with the R of ``min_regions`` if that is not 0."""

    def __init__(
        self,
        name: str,
        regions: Mapping[BookieId, Region],
        ledger_id: int,
        *,
        min_regions: int = 0,
        faults: tuple[str, ...] = (),
        time_steps: int = 0,
    ) -> None:
        self._ledger_id = ledger_id
        self._min_regions = min_regions or None
        self._ends: list[tuple[int, int]] = []
        super().__init__(name, regions, faults=faults, time_steps=time_steps)

    async def main(self) -> None:
        """See SteppedTask."""
        closed = await recover_ledger(
            self.context, self._ledger_id, None, min_regions=self._min_regions
        )
        self._ends.append((closed.last_entry_id, closed.length))

    def facts(self) -> Facts:
        """See ExploredProcess."""
        facts = super().facts()
        facts.ends = tuple(self._ends)
        return facts


class SteppedReader(SteppedTask):
    """Opens the ledger without fencing it, and reads up to the LAC ``rounds`` times."""

    def __init__(
        self,
        name: str,
        regions: Mapping[BookieId, Region],
        ledger_id: int,
        *,
        rounds: int,
        faults: tuple[str, ...] = (),
        time_steps: int = 0,
    ) -> None:
        self._ledger_id = ledger_id
        self._rounds = rounds
        self._read: dict[int, bytes] = {}
        self._lac = -1
        super().__init__(name, regions, faults=faults, time_steps=time_steps)

    async def main(self) -> None:
        """See SteppedTask."""
        metadata, version = await self.context.ledgers.read(self._ledger_id)
        reader = LedgerReader(self.context, metadata, version)
        for _ in range(self._rounds):
            lac = await reader.update_last_add_confirmed(fresh=True)
            if lac < self._lac:
                self.violations.append(f"G6: the LAC fell from {self._lac} to {lac}")
            self._lac = max(lac, self._lac)
            while len(self._read) <= lac:
                for entry in await reader.read(len(self._read), lac):
                    if entry.entry_id != len(self._read):
                        self.violations.append(
                            f"G1: got entry {entry.entry_id}, expected {len(self._read)}"
                        )
                    self._read[entry.entry_id] = bytes(entry.payload)

    def facts(self) -> Facts:
        """See ExploredProcess."""
        facts = super().facts()
        facts.read = tuple(self._read.items())
        facts.lac = self._lac
        return facts


def _crash_of(task: "asyncio.Task[Any]") -> tuple[str, ...]:
    """Return the error of a task if it shows a bug in the product."""
    error = task.exception() if task.done() else None
    is_expected = isinstance(error, RhumblineError) and not isinstance(error, InvariantBrokenError)
    return () if error is None or is_expected else (f"CRASH: {type(error).__name__}: {error}",)


def _retrieve(task: "asyncio.Task[Any]") -> None:
    if not task.cancelled():
        task.exception()
