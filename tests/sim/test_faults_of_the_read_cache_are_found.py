"""The simulator finds planted faults of the read proxies' cache (rule PRX-36).

The code of proxies is no part of the plans that hunt planted bugs, so these are planted here.
"""

from collections.abc import Callable, Sequence

import pytest

from rhumbline.chaos.simulation.seed_run import LivenessError
from rhumbline.chaos.simulation.world.loop import SimulationFailedError
from rhumbline.core.log.read.entry_source import Chunk, EntryFetcher
from rhumbline.core.protocol.errors import GapError, InvalidPositionError
from rhumbline.proxies.read.block_cache import StreamBlocks
from rhumbline.proxies.read.entry_block import EntryBlock, EntryPosition, segment_end
from rhumbline.proxies.read.shared_run import SharedRun
from rhumbline.proxies.read.shared_stream import SharedStream
from rhumbline.tests.sim.test_proxies_survive_faults import play

Plant = Callable[[pytest.MonkeyPatch], None]
SEEDS = 3


def key_without_segment(monkeypatch: pytest.MonkeyPatch) -> None:
    """A block is found for the same entry id of the next segment."""
    find = StreamBlocks.find

    def find_in_any(self: StreamBlocks, position: EntryPosition) -> EntryBlock | None:
        return find(self, position) or find(self, (position[0] - 1, position[1]))

    monkeypatch.setattr(StreamBlocks, "find", find_in_any)


def end_for_now_is_cached(monkeypatch: pytest.MonkeyPatch) -> None:
    """The end of the confirmed entries is cached as the end of the segment."""
    store = SharedStream._store

    def store_with_end(
        self: SharedStream, run: SharedRun, source: EntryFetcher, chunk: Chunk
    ) -> Sequence[EntryBlock]:
        blocks = store(self, run, source, chunk)
        if not source.is_ready:
            end = segment_end(run.position, (run.position[0] + 1, 0))
            self._cache.add(self._blocks, end)
        return blocks

    monkeypatch.setattr(SharedStream, "_store", store_with_end)


@pytest.mark.timeout(600)
@pytest.mark.parametrize("plant", [key_without_segment, end_for_now_is_cached])
def test_planted_fault_is_found(plant: Plant, monkeypatch: pytest.MonkeyPatch) -> None:
    plant(monkeypatch)
    found: list[str] = []
    for seed in range(1, SEEDS + 1):
        try:
            play(seed)
        except (AssertionError, LivenessError) as error:
            found.append(f"seed {seed}: {error!s:.300}")
        except SimulationFailedError as error:
            assert isinstance(error.__cause__, GapError | InvalidPositionError), error.__cause__
            found.append(f"seed {seed}: {error.__cause__}")
        if found:
            break
    print(found)
    assert found
