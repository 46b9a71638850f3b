"""The window is compared with a plain model, over random actions, crashes and takeovers."""

from random import Random
from typing import cast

import pytest

from rhumbline.core.log.metadata.acknowledgements import Acknowledgements
from rhumbline.core.log.read.record_batch import Record
from rhumbline.core.log.topics.record_window import RecordWindow
from rhumbline.core.protocol.dlsn import Dlsn


class FakeRecord:
    def __init__(self, dlsn: Dlsn) -> None:
        self.dlsn = dlsn


class Model:
    """A stream of entries, a stored state, and what the application did."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self.limit = random.choice((1, 3, 10))
        self.deliveries_max = random.choice((None, 2, 4))
        self.entries = [
            [Dlsn(1 + n // 7, n % 7, slot) for slot in range(random.randint(1, 6))]
            for n in range(12)
        ]
        self.acknowledged: set[Dlsn] = set()
        self.delivered: dict[Dlsn, int] = {}
        self.position = Dlsn(1, 0, 0)
        self.stored = Acknowledgements("c0", self.position)
        self.owners = 0

    def begin(self) -> None:
        """Open a window on the stored state, as the next consumer."""
        self.owners += 1
        self.stored = Acknowledgements(
            f"c{self.owners}",
            self.stored.delivered_to,
            self.stored.ranges,
            self.stored.deliveries,
        )
        self.window = RecordWindow(
            self.position,
            self.stored,
            unacknowledged_max=self.limit,
            timeout_ms=50,
            deliveries_max=self.deliveries_max,
        )
        self.unfetched = [
            [dlsn for dlsn in entry if dlsn >= self.position]
            for entry in self.entries
            if entry[-1] >= self.position
        ]
        self.out: list[Dlsn] = []

    def store(self, *, is_final: bool = False) -> None:
        state = self.window.state(is_final=is_final)
        assert state.position >= self.position, "never back"
        self.position, self.stored = state.position, state.acknowledgements
        self.window.on_stored(state)
        for entry in self.entries:
            for dlsn in entry:
                is_passed = dlsn < self.position or self.stored.contains(dlsn)
                assert is_passed == (dlsn in self.acknowledged), dlsn
        assert len(self.stored.ranges) <= self.limit + 1

    def deliver(self, now_ms: float) -> bool:
        if self.window.wants_batch and self.unfetched:
            batch = [FakeRecord(dlsn) for dlsn in self.unfetched.pop(0)]
            self.window.add_batch(cast(list[Record], batch))
        found = self.window.take(now_ms)
        if found is None:
            return False
        position = found.position
        assert position not in self.acknowledged
        self.delivered[position] = self.delivered.get(position, 0) + 1
        assert found.deliveries >= self.delivered[position]
        assert self.deliveries_max is None or found.deliveries <= self.deliveries_max
        assert position < self.stored.delivered_to
        assert self.window.open_count <= self.limit
        self.out.append(position)
        return True

    def finish(self, dlsn: Dlsn) -> None:
        if self.window.acknowledge(dlsn):
            self.acknowledged.add(dlsn)

    def bury(self) -> None:
        while (dead := self.window.next_dead()) is not None:
            assert self.deliveries_max is not None
            assert dead.deliveries >= self.deliveries_max
            self.finish(dead.position)

    def act(self, now_ms: float) -> None:
        """Do something random."""
        random, action = self.random, self.random.random()
        if action < 0.5:
            self.deliver(now_ms)
        elif action < 0.7 and self.out:
            self.finish(self.out.pop(random.randrange(len(self.out))))
        elif action < 0.78 and self.out:
            self.window.reject(self.out.pop(), now_ms + random.choice((0, 30)), "no")
        elif action < 0.9:
            self.advance(now_ms)
        elif action < 0.93:
            self.crash()
        elif action < 0.96:
            self.store(is_final=True)
            self.begin()

    def advance(self, now_ms: float) -> None:
        self.window.advance(now_ms)
        self.bury()
        self.store()

    def crash(self) -> None:
        """What was acknowledged and not stored is forgotten."""
        self.acknowledged = {
            dlsn for dlsn in self.acknowledged if dlsn < self.position or self.stored.contains(dlsn)
        }
        self.begin()


@pytest.mark.seeds(60)
def test_window_agrees_with_a_model(seed: int) -> None:
    model = Model(Random(seed))
    model.begin()
    now_ms = 0.0
    for _ in range(400):
        now_ms += model.random.choice((0, 1, 20))
        model.act(now_ms)
    everything = {dlsn for entry in model.entries for dlsn in entry}
    for _ in range(10_000):
        if model.acknowledged == everything:
            break
        now_ms += 60
        model.advance(now_ms)
        while model.deliver(now_ms):
            model.finish(model.out.pop())
    assert model.acknowledged == everything
    model.store(is_final=True)
    assert model.position > max(everything)
    assert not model.stored.ranges
